//! Cell: a load on an array, and its results under every strategy.

use seiner_raid::simulate::{
    Address, Bursts, ClientJob, Load, Measured, MemberModel, Mix, Phase, Run, run,
};
use seiner_raid::{Geometry, Level, Merging, Nanos};

/// Number of members of the paper's array. With these strips, a stripe has 64 KiB of data.
const MEMBERS: usize = 6;
const STRIP: u64 = 16 << 10;
const MEMBER_BYTES: u64 = 16 << 30;
/// Maximum time for which writes are held, ns.
pub const LONGEST_HOLD: Nanos = 1_000_000;
/// Number of measured requests per outstanding request, and the minimum number of requests.
const ROUNDS: u64 = 50;
const LEAST_REQUESTS: u64 = 8000;
/// Maximum duration of a cell, ns. Applies even if few requests were answered.
const LONGEST_RUN: Nanos = 10_000_000_000;
/// Minimum duration of a cell, ns. Applies even if many requests were answered.
const LEAST_TIME: Nanos = 50_000_000;
/// Number of bursts measured for a load with pauses.
const BURSTS: Nanos = 40;
/// Warm-up before the measurement, ns. The speed of adaptation itself is measured by `raid-phases`.
const WARM_UP: Nanos = 50_000_000;

/// Load on an array.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Group of the cell; all cells of a group are in one table.
    pub group: String,
    /// Load on the array.
    pub load: Load,
    /// Shape of the array.
    pub geometry: Geometry,
    /// Model of the members.
    pub model: MemberModel,
    /// Maximum time for which writes are held.
    pub longest_hold: Nanos,
}

/// Returns a kind of write.
pub fn write(weight: u64, blocks: u64, address: Address) -> Mix {
    Mix {
        weight,
        write: true,
        blocks,
        address,
    }
}

/// Returns a kind of read.
pub fn read(weight: u64, blocks: u64, address: Address) -> Mix {
    Mix {
        weight,
        write: false,
        blocks,
        address,
    }
}

/// Returns a job of threads that all send the same mix.
pub fn job(mix: Vec<Mix>, threads: usize, depth: usize) -> ClientJob {
    ClientJob {
        mix,
        threads,
        depth,
    }
}

/// Loads by name, each with every depth and number of threads.
pub struct Loads<'a> {
    pub depths: &'a [usize],
    pub threads: &'a [usize],
    pub kinds: &'a [(&'a str, Vec<Mix>)],
}

impl Loads<'_> {
    /// Returns the cells of arrays with other members.
    pub fn on_members(&self, models: &[(&str, MemberModel)]) -> Vec<Cell> {
        let cells = models.iter().flat_map(|&(name, model)| {
            self.jobs().map(move |(kind, job)| Cell {
                model,
                ..Cell::new(format!("{name}, {kind}"), vec![job])
            })
        });
        cells.collect()
    }

    /// Returns the cells of arrays with other shapes: level, members, and KiB of a strip.
    pub fn on_shapes(&self, shapes: &[(Level, usize, u64)]) -> Vec<Cell> {
        let cells = shapes.iter().flat_map(|&(level, members, strip)| {
            let geometry = Geometry::new(level, members, strip << 10, MEMBER_BYTES)
                .expect("within the bounds of every level");
            self.jobs().map(move |(kind, job)| {
                let name = format!("{level:?} of {members}, strip of {strip} KiB, {kind}");
                Cell {
                    geometry,
                    ..Cell::new(name, vec![job])
                }
            })
        });
        cells.collect()
    }

    fn jobs(&self) -> impl Iterator<Item = (&str, ClientJob)> {
        self.depths.iter().flat_map(move |&depth| {
            self.threads.iter().flat_map(move |&threads| {
                let kinds = self.kinds.iter();
                kinds.map(move |(kind, mix)| (*kind, job(mix.clone(), threads, depth)))
            })
        })
    }
}

impl Cell {
    /// Creates a load on the paper's array.
    pub fn new(group: impl Into<String>, jobs: Vec<ClientJob>) -> Cell {
        Cell {
            group: group.into(),
            load: Load {
                jobs,
                submit: 1500,
                ..Load::default()
            },
            geometry: papers_array(),
            model: MemberModel::NVME,
            longest_hold: LONGEST_HOLD,
        }
    }

    /// Sets clients that submit in bursts: milliseconds on and off.
    pub fn bursts(mut self, on: u64, off: u64) -> Cell {
        let (on, off) = (on * 1_000_000, off * 1_000_000);
        self.load.bursts = Some(Bursts { on, off });
        self
    }

    /// Sets the number of blocks by which sequential addresses start after the start of a stripe.
    pub fn offset(mut self, blocks: u64) -> Cell {
        self.load.offset = blocks;
        self
    }

    /// Sets the nanoseconds that clients need per request.
    pub fn submit(mut self, time: Nanos) -> Cell {
        self.load.submit = time;
        self
    }

    /// Sets the maximum microseconds for which writes are held.
    pub fn hold(mut self, micros: u64) -> Cell {
        self.longest_hold = micros * 1000;
        self
    }

    /// Returns the name: threads and depth.
    pub fn name(&self) -> String {
        let jobs = self
            .load
            .jobs
            .iter()
            .map(|job| format!("{}x{}", job.threads, job.depth));
        jobs.collect::<Vec<_>>().join(" + ")
    }

    /// Runs the cell under a strategy.
    pub fn measure(&self, merging: Merging) -> Measured {
        let outstanding: usize = self
            .load
            .jobs
            .iter()
            .map(|job| job.threads * job.depth)
            .sum();
        // Loads with pauses are measured for a number of whole bursts.
        let (most_requests, least_time) = match self.load.bursts {
            Some(bursts) => (0, BURSTS * (bursts.on + bursts.off)),
            None => (
                (outstanding as u64 * ROUNDS).max(LEAST_REQUESTS),
                LEAST_TIME,
            ),
        };
        run(&Run {
            geometry: self.geometry,
            model: self.model,
            phases: vec![Phase {
                load: self.load.clone(),
                time: LONGEST_RUN,
            }],
            most_requests,
            least_time,
            longest_hold: self.longest_hold,
            ..base(merging)
        })
    }
}

fn papers_array() -> Geometry {
    Geometry::new(Level::Raid6, MEMBERS, STRIP, MEMBER_BYTES).expect("the paper's array is sound")
}

/// Returns the paper's array without load.
pub fn base(merging: Merging) -> Run {
    Run {
        geometry: papers_array(),
        model: MemberModel::NVME,
        merging,
        longest_hold: LONGEST_HOLD,
        phases: Vec::new(),
        warm_up: WARM_UP,
        most_requests: 0,
        least_time: LEAST_TIME,
        sample: 0,
        seed: 1,
    }
}
