//! Lanes: assign blocks that expire at about the same time to the same segment, so that the whole
//! segment is dropped unread.
//!
//! A lane takes blocks whose remaining life lies in one interval. A dead block keeps its space
//! until the longest-lived block of its segment dies; this space is the cost of a lane. The flow of
//! bytes is measured for every remaining life: a histogram over the logarithm of the remaining
//! life, in which older bytes fade. The intervals are chosen so that the sum of the lanes' costs,
//! each divided by the lane's longest life, is least. The division by life is there because a merge
//! of a lane that turns over slowly costs fewer writes. The intervals are recomputed as the flow
//! changes.
//!
//! An open segment holds its full size, and its first blocks die before its last: together R for
//! each lane. So the planing formula of *Riak* §4.2, `R ≤ C(Um − V)`, limits the sum over all lanes, and
//! segments become smaller as V grows.
//!
//! Invariant: every block has a lane below [`Lanes::count`], whatever was measured so far. The
//! look-up takes constant time and does not allocate.

use crate::{Death, Fill};

/// Number of a lane. Lane 0 takes blocks that never die; the others are in order of remaining life.
pub type LaneId = u32;

/// Lane of blocks that never die.
const FOREVER: LaneId = 0;
/// Number of histogram bins per factor of two of remaining life.
const BINS_AN_OCTAVE: usize = 16;
/// Exponent of the shortest distinct life: lives below 2^20 ns (1 ms) share one bin.
const LEAST_OCTAVE: usize = 20;
const BINS: usize = (63 - LEAST_OCTAVE) * BINS_AN_OCTAVE;
/// Least saving, as a share of the present cost, for which new intervals are adopted.
const WORTHWHILE: f64 = 0.1;
/// Largest share of the space between V and Um for open segments and for the dead blocks that each
/// lane still holds.
const OPEN_SHARE: f64 = 0.125;

/// Divisor of the measured bytes: intervals are recomputed when 1/32 of them is new.
const FRESH_SHARE: f64 = 32.0;

/// Number of lanes and size of their segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSettings {
    /// Maximum number of lanes, at least 2. The lane of blocks that never die counts. Each lane has
    /// an open segment: a write buffer in memory and space on the disk. More lanes mean fewer bytes
    /// rewritten by merges.
    pub lanes: u32,
    /// Largest segment in bytes, the papers' R.
    pub segment_bytes: u64,
    /// Smallest segment in bytes. Segments shrink down to it as the store fills with live data.
    pub least_bytes: u64,
}

impl Default for LaneSettings {
    /// Returns 32 lanes with segments of 4 to 64 MiB.
    fn default() -> LaneSettings {
        LaneSettings {
            lanes: 32,
            segment_bytes: 64 << 20,
            least_bytes: 4 << 20,
        }
    }
}

/// Interval, flow and segment size of one lane, for display.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lane {
    /// Number of the lane.
    pub id: LaneId,
    /// Shortest remaining life in the lane, in nanoseconds.
    pub from: i64,
    /// Exclusive end of the lane's remaining lives, in nanoseconds; `i64::MAX` for the last lane
    /// and for the lane of blocks that never die.
    pub to: i64,
    /// Share of the arriving bytes that goes into the lane, 0 to 1.
    pub flow_share: f64,
    /// Size of the lane's next segment in bytes.
    pub segment_bytes: u64,
}

/// Assignment of blocks to lanes, with the measured flow that it follows.
#[derive(Clone, Debug)]
pub struct Lanes {
    settings: LaneSettings,
    /// Fading bytes for each bin of remaining life.
    flow: Box<[f64]>,
    /// Fading bytes of blocks that never die.
    flow_forever: f64,
    total: f64,
    /// Bytes counted since the last recomputation.
    fresh: u64,
    /// Limit of the fading bytes. Beyond it all counts are halved, so it sets how long the flow is
    /// remembered.
    window: f64,
    /// Lane of each bin.
    lane_of: Box<[LaneId]>,
    /// Segment size of each lane.
    sizes: Vec<u64>,
    /// Lane with the largest flow, which takes blocks of unknown life.
    common: LaneId,
}

impl Lanes {
    /// Creates lanes with intervals of equal ratio, without any measured flow.
    pub fn new(settings: LaneSettings) -> Lanes {
        let settings = LaneSettings {
            lanes: settings.lanes.max(2),
            least_bytes: settings.least_bytes.min(settings.segment_bytes),
            ..settings
        };
        let living = settings.lanes as usize - 1;
        let lane_of = (0..BINS).map(|bin| (1 + bin * living / BINS) as LaneId);
        Lanes {
            settings,
            flow: vec![0.0; BINS].into(),
            flow_forever: 0.0,
            total: 0.0,
            fresh: 0,
            window: 256.0 * settings.segment_bytes as f64,
            lane_of: lane_of.collect(),
            sizes: vec![settings.segment_bytes; settings.lanes as usize],
            common: 1,
        }
    }

    /// Returns the maximum number of lanes. All lane numbers are below it.
    pub fn count(&self) -> u32 {
        self.settings.lanes
    }

    /// Returns the lane of a new block of `bytes` and counts the block as flow.
    pub fn lane(&mut self, death: Death, bytes: u64, now: i64) -> LaneId {
        self.learn(death, bytes, now);
        self.place(death, now)
    }

    /// Returns the lane for the remaining life of a block that a merge rewrites. Does not count as
    /// flow.
    pub fn place(&self, death: Death, now: i64) -> LaneId {
        match death {
            Death::Never => FOREVER,
            Death::Unknown => self.common,
            Death::At(at) => self.lane_of[bin(at.saturating_sub(now))],
        }
    }

    /// Counts a new block as flow. A caller that restarts can restore the measured flow: it calls
    /// this for each block found on disk, with `now` set to the time at which the block was
    /// written.
    pub fn learn(&mut self, death: Death, bytes: u64, now: i64) {
        self.fresh += bytes;
        let bytes = bytes as f64;
        match death {
            Death::Never => self.flow_forever += bytes,
            Death::At(at) => self.flow[bin(at.saturating_sub(now))] += bytes,
            Death::Unknown => return,
        }
        self.total += bytes;
        if self.total > self.window {
            self.flow.iter_mut().for_each(|flow| *flow /= 2.0);
            self.flow_forever /= 2.0;
            self.total /= 2.0;
        }
    }

    /// Returns the size of the lane's next segment: R, or less when R would hold too much space.
    pub fn segment_bytes(&self, lane: LaneId) -> u64 {
        self.sizes[lane as usize]
    }

    /// Recomputes intervals and segment sizes; returns whether the intervals changed.
    ///
    /// Call it after each sealed segment and after [`Lanes::learn`]. Sizes follow `fill` in every
    /// call. Intervals are recomputed only when enough new flow was counted, which takes about a
    /// millisecond.
    pub fn adapt(&mut self, fill: &Fill) -> bool {
        self.shrink(fill);
        let known = (self.total / FRESH_SHARE) as u64;
        if self.fresh < self.settings.segment_bytes.max(known) {
            return false;
        }
        self.fresh = 0;
        let bins: Vec<usize> = (0..BINS).filter(|&bin| self.flow[bin] > 0.0).collect();
        if bins.is_empty() {
            return false;
        }
        let space = SpaceCost::new(&self.flow, &bins);
        let (ends, cost) = space.divide(self.settings.lanes as usize - 1);
        let present = self.ends(&bins);
        if space.cost(&present) * (1.0 - WORTHWHILE) <= cost {
            return false;
        }
        self.set(&bins, &ends);
        true
    }

    /// Sets the size of the lanes' next segments. Less free space makes segments smaller.
    fn shrink(&mut self, fill: &Fill) {
        let slack = fill.planing_segment_bytes() as f64;
        let size = self.size(OPEN_SHARE * slack / f64::from(self.settings.lanes));
        self.sizes.fill(size);
    }

    /// Returns R halved until it is at most `wanted`, but not below the least size.
    fn size(&self, wanted: f64) -> u64 {
        let mut size = self.settings.segment_bytes;
        while size as f64 > wanted && size / 2 >= self.settings.least_bytes {
            size /= 2;
        }
        size
    }

    /// Returns the present intervals over `bins`, each as the index after its last bin.
    fn ends(&self, bins: &[usize]) -> Vec<usize> {
        let differ = |pair: &[usize]| self.lane_of[pair[0]] != self.lane_of[pair[1]];
        let inner = bins.windows(2).enumerate().filter(|(_, pair)| differ(pair));
        let mut ends: Vec<usize> = inner.map(|(index, _)| index + 1).collect();
        ends.push(bins.len());
        ends
    }

    /// Adopts the intervals that end at `ends`. Empty bins join the next interval of longer lives.
    fn set(&mut self, bins: &[usize], ends: &[usize]) {
        let mut lane = 0;
        let mut from = 0;
        for &end in ends {
            lane += 1;
            let to = if end == bins.len() {
                BINS
            } else {
                bins[end - 1] + 1
            };
            self.lane_of[from..to].fill(lane);
            from = to;
        }
        let flow_of = |lane: LaneId| -> f64 {
            let of_lane = |(&flow, &of): (&f64, &LaneId)| if of == lane { flow } else { 0.0 };
            self.flow.iter().zip(&self.lane_of).map(of_lane).sum()
        };
        let by_flow = |a: &LaneId, b: &LaneId| flow_of(*a).total_cmp(&flow_of(*b));
        self.common = (1..=lane).max_by(by_flow).unwrap_or(1);
    }

    /// Returns every lane that is in use.
    pub fn lanes(&self) -> Vec<Lane> {
        let total = self.total.max(1.0);
        let forever = Lane {
            id: FOREVER,
            from: i64::MAX,
            to: i64::MAX,
            flow_share: self.flow_forever / total,
            segment_bytes: self.segment_bytes(FOREVER),
        };
        let living = (1..self.count()).filter_map(|id| {
            let from = self.lane_of.iter().position(|&lane| lane == id)?;
            let to = self.lane_of.iter().rposition(|&lane| lane == id)? + 1;
            Some(Lane {
                id,
                from: if from == 0 { 0 } else { life(from) },
                to: life(to),
                flow_share: self.flow[from..to].iter().sum::<f64>() / total,
                segment_bytes: self.segment_bytes(id),
            })
        });
        std::iter::once(forever).chain(living).collect()
    }
}

/// Cost of a division into lanes: the space that dead blocks hold until the longest-lived block of
/// their lane dies, divided by that block's life.
struct SpaceCost {
    /// Life in the middle of each bin, in nanoseconds.
    lives: Vec<f64>,
    /// Prefix sums of the flow before each bin.
    flow: Vec<f64>,
    /// Prefix sums of flow times life before each bin, which is the live part.
    live: Vec<f64>,
}

impl SpaceCost {
    /// Computes the sums over the flow in `bins`.
    fn new(flow: &[f64], bins: &[usize]) -> SpaceCost {
        let middle = |&bin: &usize| (life(bin) as f64 + life(bin + 1) as f64) / 2.0;
        let lives: Vec<f64> = bins.iter().map(middle).collect();
        let mut sums = (vec![0.0], vec![0.0]);
        let (mut before, mut live) = (0.0, 0.0);
        for (&bin, life) in bins.iter().zip(&lives) {
            before += flow[bin];
            live += flow[bin] * life;
            sums.0.push(before);
            sums.1.push(live);
        }
        SpaceCost {
            lives,
            flow: sums.0,
            live: sums.1,
        }
    }

    /// Returns the cost of one lane with the bins `from..to`.
    fn of(&self, from: usize, to: usize) -> f64 {
        if from == to {
            return 0.0;
        }
        let longest = self.lives[to - 1];
        (self.flow[to] - self.flow[from]) - (self.live[to] - self.live[from]) / longest
    }

    fn cost(&self, ends: &[usize]) -> f64 {
        let starts = std::iter::once(&0).chain(ends);
        starts.zip(ends).map(|(&from, &to)| self.of(from, to)).sum()
    }

    /// Returns the ends of at most `lanes` intervals with the least cost, and that cost.
    ///
    /// Dynamic programming, one lane at a time: the least cost of the first bins with one more lane
    /// follows from the least costs of fewer bins without it. The start of the last lane never
    /// moves back as bins are added. So each half of the bins searches only its side of the
    /// middle's start (divide and conquer).
    fn divide(&self, lanes: usize) -> (Vec<usize>, f64) {
        let bins = self.lives.len();
        let mut least: Vec<f64> = (0..=bins).map(|to| self.of(0, to)).collect();
        let mut starts = vec![vec![0; bins + 1]];
        for _ in 1..lanes.min(bins) {
            let mut next = Next {
                space: self,
                before: &least,
                least: vec![0.0; bins + 1],
                starts: vec![0; bins + 1],
            };
            next.fill(1, bins, 0, bins - 1);
            let Next {
                least: found,
                starts: began,
                ..
            } = next;
            least = found;
            starts.push(began);
        }
        let mut ends = vec![bins];
        for began in starts.iter().rev() {
            match began[ends[ends.len() - 1]] {
                0 => break,
                from => ends.push(from),
            }
        }
        ends.reverse();
        (ends, least[bins])
    }
}

/// One step of [`SpaceCost::divide`]: least costs with one lane more than `before`.
struct Next<'a> {
    space: &'a SpaceCost,
    before: &'a [f64],
    least: Vec<f64>,
    /// Start of the last lane, for each number of bins.
    starts: Vec<usize>,
}

impl Next<'_> {
    /// Computes the costs of the first `low..=high` bins; their last lane starts in `left..=right`.
    fn fill(&mut self, low: usize, high: usize, left: usize, right: usize) {
        if low > high {
            return;
        }
        let to = low.midpoint(high);
        let cost = |from: usize| self.before[from] + self.space.of(from, to);
        let costs = (left..=right.min(to - 1)).map(|from| (from, cost(from)));
        let (from, cost) = costs
            .min_by(|(_, a), (_, b)| a.total_cmp(b))
            .expect("a lane begins somewhere before its end");
        (self.starts[to], self.least[to]) = (from, cost);
        self.fill(low, to - 1, left, from);
        self.fill(to + 1, high, from, right);
    }
}

/// Returns the bin of a remaining life: its octave and the four bits after the leading one.
fn bin(life: i64) -> usize {
    let life = life.max(1 << LEAST_OCTAVE) as u64;
    let octave = 63 - life.leading_zeros() as usize;
    let fraction = (life >> (octave - BINS_AN_OCTAVE.ilog2() as usize)) as usize % BINS_AN_OCTAVE;
    (octave - LEAST_OCTAVE) * BINS_AN_OCTAVE + fraction
}

/// Returns the shortest life in a bin, in nanoseconds.
fn life(bin: usize) -> i64 {
    let octave = LEAST_OCTAVE + bin / BINS_AN_OCTAVE;
    if octave >= 63 {
        return i64::MAX;
    }
    let fraction = (bin % BINS_AN_OCTAVE) as i64;
    (1 << octave) + (fraction << (octave - BINS_AN_OCTAVE.ilog2() as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    /// Returns the fill of a store of 100 MB, half of it live.
    fn half_live() -> Fill {
        Fill {
            budget: 100_000_000,
            used: 60_000_000,
            live: 50_000_000,
            reserved: 0,
            um: 0.95,
        }
    }

    fn lanes(count: u32) -> Lanes {
        Lanes::new(LaneSettings {
            lanes: count,
            segment_bytes: 1_000_000,
            least_bytes: 100_000,
        })
    }

    /// Counts the same number of bytes for each life (in seconds) as flow of `lanes`.
    fn feed(lanes: &mut Lanes, lives: &[i64]) {
        for _ in 0..100 {
            for life in lives {
                lanes.lane(Death::At(life * SECOND), 10_000, 0);
            }
        }
    }

    fn place(lanes: &Lanes, life: i64) -> LaneId {
        lanes.place(Death::At(life * SECOND), 0)
    }

    #[test]
    fn classes_get_lanes_of_their_own() {
        let hours = [1, 24, 168, 720, 8760].map(|hours| hours * 3600);
        let mut lanes = lanes(6);
        feed(&mut lanes, &hours);
        assert!(lanes.adapt(&half_live()));
        let of_each: Vec<LaneId> = hours.iter().map(|&life| place(&lanes, life)).collect();
        assert_eq!(of_each, [1, 2, 3, 4, 5]);
        let shares: Vec<f64> = lanes.lanes().iter().map(|lane| lane.flow_share).collect();
        assert!(
            shares[1..].iter().all(|share| (share - 0.2).abs() < 1e-9),
            "{shares:?}"
        );
    }

    #[test]
    fn too_few_lanes_join_similar_lives() {
        let mut lanes = lanes(3);
        feed(&mut lanes, &[100, 110, 5000]);
        lanes.adapt(&half_live());
        assert_eq!(place(&lanes, 100), place(&lanes, 110));
        assert_ne!(place(&lanes, 110), place(&lanes, 5000));
    }

    #[test]
    fn blocks_without_a_known_death_have_a_lane() {
        let mut lanes = lanes(4);
        feed(&mut lanes, &[100, 5000, 5000, 5000]);
        lanes.adapt(&half_live());
        assert_eq!(lanes.lane(Death::Never, 10, 0), FOREVER);
        assert_eq!(
            lanes.lane(Death::Unknown, 10, 0),
            place(&lanes, 5000),
            "the lane with most bytes"
        );
        let overdue = lanes.place(Death::At(-SECOND), 0);
        assert_eq!(overdue, 1, "overdue blocks expire first");
    }

    #[test]
    fn intervals_follow_the_flow_but_not_its_noise() {
        let mut lanes = lanes(3);
        feed(&mut lanes, &[100, 2000]);
        assert!(lanes.adapt(&half_live()));
        feed(&mut lanes, &[100, 2000]);
        assert!(!lanes.adapt(&half_live()), "equal amounts change no lanes");
        assert_eq!(place(&lanes, 1000), place(&lanes, 2000));
        (0..200).for_each(|_| feed(&mut lanes, &[1000, 2000]));
        assert!(lanes.adapt(&half_live()));
        assert_ne!(place(&lanes, 1000), place(&lanes, 2000));
    }

    #[test]
    fn segments_shrink_as_space_gets_short() {
        let mut lanes = lanes(32);
        let mut size = |live: u64| {
            feed(&mut lanes, &[100, 10_000]);
            let fill = Fill {
                live,
                ..half_live()
            };
            lanes.adapt(&fill);
            lanes.segment_bytes(1)
        };
        // An eighth of C(Um − V), divided by 32, rounded down to a half, quarter … of R.
        assert_eq!(size(0), 250_000, "371 kB a lane");
        assert_eq!(size(50_000_000), 125_000, "176 kB a lane");
        assert_eq!(size(94_000_000), 125_000, "never below the least");
        assert_eq!(size(99_000_000), 125_000);
    }

    #[test]
    fn every_block_has_a_lane_after_any_flow() {
        let mut lanes = lanes(5);
        for (step, life) in [i64::MIN, -1, 0, 1, 1 << 20, 1 << 40, i64::MAX]
            .into_iter()
            .cycle()
            .take(700)
            .enumerate()
        {
            let lane = lanes.lane(Death::At(life), 20_000, step as i64);
            assert!(lane < lanes.count());
            lanes.adapt(&half_live());
        }
        let intervals = lanes.lanes();
        assert_eq!(intervals[1].from, 0);
        assert_eq!(intervals[intervals.len() - 1].to, i64::MAX);
        let joined = intervals[1..]
            .windows(2)
            .all(|pair| pair[0].to == pair[1].from);
        assert!(joined, "{intervals:?}");
    }

    #[test]
    fn bins_and_lives_are_inverse() {
        for of in 0..BINS {
            assert_eq!(bin(life(of)), of);
            assert_eq!(bin(life(of + 1) - 1), of);
        }
        assert_eq!(bin(i64::MIN), 0);
        assert_eq!(bin(i64::MAX), BINS - 1);
    }
}
