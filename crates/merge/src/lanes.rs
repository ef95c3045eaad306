//! Lanes: which blocks share a segment, so that its blocks die together and it is dropped unread.
//!
//! A lane takes blocks whose remaining life lies in one interval. What it costs is room: dead
//! blocks wait for the longest-lived of their segment. With the flow of bytes known for every
//! remaining life (a histogram over its logarithm, older bytes fading), the intervals are those
//! that make this room least, each lane's over its life: where room is short, merging a lane that
//! turns over slowly costs fewer writes than one that turns over fast. They are found anew as the
//! flow changes.
//!
//! Segments being filled hold room as well, and the first blocks of each die before its last: R a
//! lane in all. So the planing formula of *Riak*, `R ≤ C(Um − V)`, becomes one of the sum over all
//! lanes, and lanes fill smaller segments as V grows.
//!
//! Invariant: every block has a lane below [`Lanes::count`], in constant time and without
//! allocating, whatever was learnt so far.

use crate::{Death, Fill};

/// Number of a lane. 0 takes what never dies; the others are in the order of remaining life.
pub type LaneId = u32;

/// The lane of what never dies.
const FOREVER: LaneId = 0;
/// Bins a factor of two of remaining life.
const BINS_AN_OCTAVE: usize = 16;
/// Shorter lives than 2^20 ns, a millisecond, are all the same.
const LEAST_OCTAVE: usize = 20;
const BINS: usize = (63 - LEAST_OCTAVE) * BINS_AN_OCTAVE;
/// New intervals are taken when they save this share of the room that the present ones cost.
const WORTHWHILE: f64 = 0.1;
/// The share of the room between V and Um that the segments being filled and the ends of lanes
/// may take.
const OPEN_SHARE: f64 = 0.25;

/// Intervals are looked at again when as much is new as this part of what is known.
const NEWS: f64 = 32.0;

/// How many lanes there are, and how large their segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSettings {
    /// Lanes at most, the one of what never dies included; at least 2. Each has an open segment:
    /// a write buffer in memory and room on the disk. More lanes: fewer bytes written again.
    pub lanes: u32,
    /// The largest segment, the papers' R.
    pub segment_bytes: u64,
    /// The smallest segment: they shrink to it as the store fills with live data.
    pub least_bytes: u64,
}

impl Default for LaneSettings {
    /// 32 lanes, segments of 4 to 64 MiB.
    fn default() -> LaneSettings {
        LaneSettings {
            lanes: 32,
            segment_bytes: 64 << 20,
            least_bytes: 4 << 20,
        }
    }
}

/// What a lane takes, for whoever looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lane {
    /// Its number.
    pub id: LaneId,
    /// The shortest remaining life that it takes, in nanoseconds.
    pub from: i64,
    /// The first that is too long; `i64::MAX` for the last lane and for the one of what never
    /// dies.
    pub to: i64,
    /// Its share of the bytes that arrive, 0 to 1.
    pub flow_share: f64,
    /// The size of its next segment.
    pub segment_bytes: u64,
}

/// Decides in which lane a block goes.
#[derive(Clone, Debug)]
pub struct Lanes {
    settings: LaneSettings,
    /// Fading bytes by remaining life.
    flow: Box<[f64]>,
    /// Fading bytes of what never dies.
    flow_forever: f64,
    total: f64,
    /// Bytes learnt since the last adaptation.
    fresh: u64,
    /// At this many fading bytes everything is halved: how far back the flow is remembered.
    window: f64,
    /// The lane of each bin.
    lane_of: Box<[LaneId]>,
    /// The segment size of each lane.
    sizes: Vec<u64>,
    /// The lane with most flow, where blocks of unknown life go.
    common: LaneId,
}

impl Lanes {
    /// Lanes that know nothing yet: intervals of equal ratio.
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

    /// How many lanes there can be: all numbers are below it.
    pub fn count(&self) -> u32 {
        self.settings.lanes
    }

    /// The lane of a new block of `bytes`, which also counts as flow.
    pub fn lane(&mut self, death: Death, bytes: u64, now: i64) -> LaneId {
        self.learn(death, bytes, now);
        self.place(death, now)
    }

    /// The lane of a block that a merge writes again: that of its remaining life. It is no flow.
    pub fn place(&self, death: Death, now: i64) -> LaneId {
        match death {
            Death::Never => FOREVER,
            Death::Unknown => self.common,
            Death::At(at) => self.lane_of[bin(at.saturating_sub(now))],
        }
    }

    /// Counts a new block as flow. After a start, telling the blocks found on disk, with their
    /// remaining life when they were written, saves learning it all again.
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

    /// The size of a lane's next segment: R, or less where R would hold too much room back.
    pub fn segment_bytes(&self, lane: LaneId) -> u64 {
        self.sizes[lane as usize]
    }

    /// Finds intervals and sizes anew. To be called whenever a segment was sealed, and after
    /// [`Lanes::learn`]; does nothing while little is new, and takes about a millisecond
    /// otherwise. Answers whether intervals changed.
    pub fn adapt(&mut self, fill: &Fill) -> bool {
        self.shrink(fill);
        let known = (self.total / NEWS) as u64;
        if self.fresh < self.settings.segment_bytes.max(known) {
            return false;
        }
        self.fresh = 0;
        let bins: Vec<usize> = (0..BINS).filter(|&bin| self.flow[bin] > 0.0).collect();
        if bins.is_empty() {
            return false;
        }
        let room = Room::new(&self.flow, &bins);
        let (ends, cost) = room.divide(self.settings.lanes as usize - 1);
        let present = self.ends(&bins);
        if room.cost(&present) * (1.0 - WORTHWHILE) <= cost {
            return false;
        }
        self.set(&bins, &ends);
        true
    }

    /// The lanes' next segments are smaller, the less room there is.
    fn shrink(&mut self, fill: &Fill) {
        let slack = fill.planing_segment_bytes() as f64;
        let size = self.size(OPEN_SHARE * slack / f64::from(self.settings.lanes));
        self.sizes.fill(size);
    }

    /// R, halved until it is no more than `wanted`, but not below the least.
    fn size(&self, wanted: f64) -> u64 {
        let mut size = self.settings.segment_bytes;
        while size as f64 > wanted && size / 2 >= self.settings.least_bytes {
            size /= 2;
        }
        size
    }

    /// The present intervals over `bins`: the index after the last bin of each.
    fn ends(&self, bins: &[usize]) -> Vec<usize> {
        let differ = |pair: &[usize]| self.lane_of[pair[0]] != self.lane_of[pair[1]];
        let inner = bins.windows(2).enumerate().filter(|(_, pair)| differ(pair));
        let mut ends: Vec<usize> = inner.map(|(index, _)| index + 1).collect();
        ends.push(bins.len());
        ends
    }

    /// Takes the intervals that end at `ends`; empty bins go to the next longer-lived ones.
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

    /// What every lane takes.
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

/// The room that dead blocks hold while they wait for the longest-lived of their lane, over the
/// life of that one: the cost of a division into lanes.
struct Room {
    /// Life of each bin, in its middle.
    lives: Vec<f64>,
    /// Sums of flow before each bin.
    flow: Vec<f64>,
    /// Sums of flow times life before each bin: what is live of it.
    live: Vec<f64>,
}

impl Room {
    /// Of the flow in `bins`.
    fn new(flow: &[f64], bins: &[usize]) -> Room {
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
        Room {
            lives,
            flow: sums.0,
            live: sums.1,
        }
    }

    /// Of one lane that takes the bins from `from` to before `to`.
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

    /// The ends of at most `lanes` intervals with the least cost, and that cost.
    ///
    /// A lane at a time: what the first bins cost with one lane more follows from what fewer of
    /// them cost before. Where the last lane of more bins begins never moves back, so each half of
    /// the bins need only look at its side of the middle.
    fn divide(&self, lanes: usize) -> (Vec<usize>, f64) {
        let bins = self.lives.len();
        let mut least: Vec<f64> = (0..=bins).map(|to| self.of(0, to)).collect();
        let mut starts = vec![vec![0; bins + 1]];
        for _ in 1..lanes.min(bins) {
            let mut next = Next {
                room: self,
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

/// What the first bins cost with one lane more than `before`.
struct Next<'a> {
    room: &'a Room,
    before: &'a [f64],
    least: Vec<f64>,
    /// Where the last lane begins.
    starts: Vec<usize>,
}

impl Next<'_> {
    /// For the first `low` to `high` bins, whose last lane begins between `left` and `right`.
    fn fill(&mut self, low: usize, high: usize, left: usize, right: usize) {
        if low > high {
            return;
        }
        let to = low.midpoint(high);
        let cost = |from: usize| self.before[from] + self.room.of(from, to);
        let costs = (left..=right.min(to - 1)).map(|from| (from, cost(from)));
        let (from, cost) = costs
            .min_by(|(_, a), (_, b)| a.total_cmp(b))
            .expect("a lane begins somewhere before its end");
        (self.starts[to], self.least[to]) = (from, cost);
        self.fill(low, to - 1, left, from);
        self.fill(to + 1, high, from, right);
    }
}

/// The bin of a remaining life: its octave, and the bits that follow the first.
fn bin(life: i64) -> usize {
    let life = life.max(1 << LEAST_OCTAVE) as u64;
    let octave = 63 - life.leading_zeros() as usize;
    let fraction = (life >> (octave - BINS_AN_OCTAVE.ilog2() as usize)) as usize % BINS_AN_OCTAVE;
    (octave - LEAST_OCTAVE) * BINS_AN_OCTAVE + fraction
}

/// The shortest life in a bin.
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

    /// A store of 100 MB with half of it live.
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

    /// Tells `lanes` of as many bytes of each life, in seconds.
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
    fn too_few_lanes_join_what_lives_about_as_long() {
        let mut lanes = lanes(3);
        feed(&mut lanes, &[100, 110, 5000]);
        lanes.adapt(&half_live());
        assert_eq!(place(&lanes, 100), place(&lanes, 110));
        assert_ne!(place(&lanes, 110), place(&lanes, 5000));
    }

    #[test]
    fn what_never_dies_and_what_nobody_knows() {
        let mut lanes = lanes(4);
        feed(&mut lanes, &[100, 5000, 5000, 5000]);
        lanes.adapt(&half_live());
        assert_eq!(lanes.lane(Death::Never, 10, 0), FOREVER);
        assert_eq!(
            lanes.lane(Death::Unknown, 10, 0),
            place(&lanes, 5000),
            "where most goes"
        );
        let overdue = lanes.place(Death::At(-SECOND), 0);
        assert_eq!(overdue, 1, "what is overdue dies soonest");
    }

    #[test]
    fn intervals_follow_the_flow_but_not_its_noise() {
        let mut lanes = lanes(3);
        feed(&mut lanes, &[100, 2000]);
        assert!(lanes.adapt(&half_live()));
        feed(&mut lanes, &[100, 2000]);
        assert!(!lanes.adapt(&half_live()), "the same again");
        assert_eq!(place(&lanes, 1000), place(&lanes, 2000));
        (0..200).for_each(|_| feed(&mut lanes, &[1000, 2000]));
        assert!(lanes.adapt(&half_live()));
        assert_ne!(place(&lanes, 1000), place(&lanes, 2000));
    }

    #[test]
    fn segments_shrink_as_room_gets_short() {
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
        // A quarter of C(Um − V), divided by 32, as a half, quarter … of R.
        assert_eq!(size(0), 500_000, "742 kB a lane");
        assert_eq!(size(50_000_000), 250_000, "351 kB a lane");
        assert_eq!(size(94_000_000), 125_000, "never below the least");
        assert_eq!(size(99_000_000), 125_000);
    }

    #[test]
    fn every_block_has_a_lane_whatever_was_learnt() {
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
