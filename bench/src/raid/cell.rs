//! A cell: a load on an array, and how it went under every strategy.

use seiner_raid::simulate::{Address, Bursts, Job, Load, Measured, Mix, Model, Phase, Run, run};
use seiner_raid::{Geometry, Level, Merging, Nanos};

/// Members of the paper's array, and bytes of its strips: 64 KiB of data a stripe.
const MEMBERS: usize = 6;
const STRIP: u64 = 16 << 10;
const MEMBER_BYTES: u64 = 16 << 30;
/// How long writes may be held.
pub const LONGEST_HOLD: Nanos = 1_000_000;
/// Requests measured for each that is outstanding, and at the least.
const ROUNDS: u64 = 50;
const LEAST_REQUESTS: u64 = 8000;
/// A cell ends after this time, however few requests were answered.
const LONGEST_RUN: Nanos = 10_000_000_000;
/// And goes on for this time at the least, however many were.
const LEAST_TIME: Nanos = 50_000_000;
/// Bursts that are measured of a load with pauses.
const BURSTS: Nanos = 40;
/// Not measured: how soon a strategy adapts is shown by `raid-phases`.
const WARM_UP: Nanos = 50_000_000;

/// A load on an array.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Cells of a group stand in one table.
    pub group: String,
    /// The load.
    pub load: Load,
    /// The array's shape.
    pub geometry: Geometry,
    /// The members.
    pub model: Model,
    /// The longest time for which writes are held.
    pub longest_hold: Nanos,
}

/// Some kind of write.
pub fn write(weight: u64, blocks: u64, address: Address) -> Mix {
    Mix {
        weight,
        write: true,
        blocks,
        address,
    }
}

/// Some kind of read.
pub fn read(weight: u64, blocks: u64, address: Address) -> Mix {
    Mix {
        weight,
        write: false,
        blocks,
        address,
    }
}

/// Threads that do the same.
pub fn job(mix: Vec<Mix>, threads: usize, depth: usize) -> Job {
    Job {
        mix,
        threads,
        depth,
    }
}

/// Kinds of loads by name, each with every depth and number of threads.
pub struct Loads<'a> {
    pub depths: &'a [usize],
    pub threads: &'a [usize],
    pub kinds: &'a [(&'a str, Vec<Mix>)],
}

impl Loads<'_> {
    /// On arrays of other members.
    pub fn on_members(&self, models: &[(&str, Model)]) -> Vec<Cell> {
        let cells = models.iter().flat_map(|&(name, model)| {
            self.jobs().map(move |(kind, job)| Cell {
                model,
                ..Cell::new(format!("{name}, {kind}"), vec![job])
            })
        });
        cells.collect()
    }

    /// On arrays of other shapes: level, members, and KiB of a strip.
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

    fn jobs(&self) -> impl Iterator<Item = (&str, Job)> {
        self.depths.iter().flat_map(move |&depth| {
            self.threads.iter().flat_map(move |&threads| {
                let kinds = self.kinds.iter();
                kinds.map(move |(kind, mix)| (*kind, job(mix.clone(), threads, depth)))
            })
        })
    }
}

impl Cell {
    /// A load on the paper's array.
    pub fn new(group: impl Into<String>, jobs: Vec<Job>) -> Cell {
        Cell {
            group: group.into(),
            load: Load {
                jobs,
                submit: 1500,
                ..Load::default()
            },
            geometry: papers_array(),
            model: Model::NVME,
            longest_hold: LONGEST_HOLD,
        }
    }

    /// With clients that submit in bursts: so many milliseconds on and off.
    pub fn bursts(mut self, on: u64, off: u64) -> Cell {
        let (on, off) = (on * 1_000_000, off * 1_000_000);
        self.load.bursts = Some(Bursts { on, off });
        self
    }

    /// With sequential places that begin so many blocks after the begin of a stripe.
    pub fn offset(mut self, blocks: u64) -> Cell {
        self.load.offset = blocks;
        self
    }

    /// With clients that need so many nanoseconds for a request.
    pub fn submit(mut self, time: Nanos) -> Cell {
        self.load.submit = time;
        self
    }

    /// With writes that are held for so many microseconds at the most.
    pub fn hold(mut self, micros: u64) -> Cell {
        self.longest_hold = micros * 1000;
        self
    }

    /// Threads and depth.
    pub fn name(&self) -> String {
        let jobs = self
            .load
            .jobs
            .iter()
            .map(|job| format!("{}x{}", job.threads, job.depth));
        jobs.collect::<Vec<_>>().join(" + ")
    }

    /// Runs it under a strategy.
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

/// The paper's array, with nothing to do.
pub fn base(merging: Merging) -> Run {
    Run {
        geometry: papers_array(),
        model: Model::NVME,
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
