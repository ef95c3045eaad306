//! Plan of a run: the kinds and rates of its failures, by the seed.

use seiner_platform::sim::Rng;

/// Deliberate fault of the surroundings that a run must detect. Each one has the effect of a bug in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// Rows are acknowledged when they are on the local disk.
    LocalAcknowledgement,
    /// The clock of one port runs too fast: the port takes journals over without waiting for the end of their leases.
    HastyTakeover,
    /// Directories of bundles are visible long after their write has returned, as if the journal were removed first.
    LateDirectories,
    /// Queries see the directories from before they asked the ports.
    EarlyDirectories,
    /// Marks of deletes have a handover's number that is too low, as if the numbers were given after the rows were read.
    LateNumbers,
    /// One replica is enough for every write and read.
    LooseQuorum,
    /// Rows leave their port as soon as their bundles are acknowledged.
    EarlyRelease,
}

/// Rates are per mille of the events of a kind.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Steps.
    pub steps: u64,
    /// Writes that end in a timeout, with any effect.
    pub write_timeout: u32,
    /// Reads that end in a timeout.
    pub read_timeout: u32,
    /// Conditional writes that end in a timeout, with any effect.
    pub swap_timeout: u32,
    /// Changes that miss a replica although it is reached.
    pub missing: u32,
    /// Missed changes that arrive later. Others never arrive.
    pub hints: u32,
    /// Requests during which another port acts.
    pub interlude: u32,
    /// Requests during which their port stands still.
    pub stall: u32,
    /// Requests during which their port is killed.
    pub kill: u32,
    /// Longest duration of a request, ms.
    pub slowest_ms: u64,
    /// Weights of actions.
    pub weights: Weights,
    /// Wall clocks: difference to the true time, ns.
    pub skews: [i64; 3],
    /// Monotonic clocks: speed per mille.
    pub rates: [u64; 3],
    /// True if a majority of nodes may fail.
    pub outage: bool,
}

/// Weights of actions.
#[derive(Clone, Debug)]
pub struct Weights {
    pub append: u64,
    pub hand_over: u64,
    pub maintain: u64,
    pub query: u64,
    pub delete: u64,
    pub crash: u64,
    pub open: u64,
    pub pause: u64,
    pub node: u64,
    pub path: u64,
    pub link: u64,
    pub grid: u64,
    /// The power of all machines fails. The latest changes of the replicas are lost then, deletes among them. So a run
    /// with power cuts has no deletes, and no port loses its disk.
    pub power: u64,
}

impl Plan {
    /// Chooses a plan.
    pub fn new(rng: &mut Rng) -> Plan {
        // Every kind of failure is absent from many runs, so that rare combinations of the others occur.
        let mut rate = |most: u64| match rng.chance(1, 2) {
            true => 0,
            false => rng.between(1, most) as u32,
        };
        let (write_timeout, read_timeout, swap_timeout) = (rate(150), rate(60), rate(200));
        let (missing, interlude) = (rate(600), rate(60));
        let (stall, kill) = (rate(4), rate(3));
        let second = 1_000_000_000_i64;
        let skew = match rng.chance(1, 2) {
            true => 1,
            false => 5 * second,
        };
        let mut skews = [0; 3];
        skews.fill_with(|| rng.below(2 * skew as u64) as i64 - skew);
        let mut rates = [0; 3];
        rates.fill_with(|| rng.between(955, 1045));
        let mut some = |most: u64| match rng.chance(1, 3) {
            true => 0,
            false => rng.between(1, most),
        };
        let power = some(18).saturating_sub(12);
        let weights = Weights {
            delete: match power {
                0 => some(8),
                _ => 0,
            },
            power,
            crash: some(6),
            pause: some(4),
            node: some(6),
            path: some(6),
            link: some(6),
            grid: some(2),
            append: 40,
            hand_over: some(16),
            maintain: some(20),
            query: 16,
            open: 10,
        };
        Plan {
            steps: rng.between(20, 100),
            write_timeout,
            read_timeout,
            swap_timeout,
            missing,
            hints: rng.below(1001) as u32,
            interlude,
            stall,
            kill,
            slowest_ms: *rng.pick(&[2, 50, 2000]),
            weights,
            skews,
            rates,
            outage: rng.chance(1, 6),
        }
    }
}
