//! Simulated clock and queue of events.

use super::member::{MemberModel, Nvme};
use super::workload::{Load, Thread};
use crate::block::Weightless;
use crate::geometry::Geometry;
use crate::merging::Merging;
use crate::request::{Action, Nanos, Outcome, Request};
use crate::shard::{Counters, Shard, ShardSettings};
use seiner_platform::sim::Rng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Parameters of a simulation.
#[derive(Clone, Debug)]
pub struct Run {
    /// Shape of the array.
    pub geometry: Geometry,
    /// Model of the members.
    pub model: MemberModel,
    /// Strategy that decides which writes are held.
    pub merging: Merging,
    /// Maximum time for which a write is held, ns.
    pub longest_hold: Nanos,
    /// Loads, one after the other.
    pub phases: Vec<Phase>,
    /// Time at the beginning that is not measured, ns.
    pub warm_up: Nanos,
    /// Number of requests after which a phase may end early. It is measured for at least `least_time`.
    pub most_requests: u64,
    /// Minimum time, see `most_requests`, ns.
    pub least_time: Nanos,
    /// Length of the spans in which answers are counted, ns; 0 for no spans.
    pub sample: Nanos,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// A load for some time.
#[derive(Clone, Debug)]
pub struct Phase {
    /// The load.
    pub load: Load,
    /// Duration of the load, ns.
    pub time: Nanos,
}

/// Answers within a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Number of blocks read and written.
    pub blocks: u64,
}

/// Results of a simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Simulated time, ns.
    pub time: Nanos,
    /// Number of requests answered.
    pub requests: u64,
    /// Number of blocks that clients read.
    pub blocks_read: u64,
    /// Number of blocks that clients wrote.
    pub blocks_written: u64,
    /// Counters of the array.
    pub counters: Counters,
    /// Median latency of writes (of all requests if there are no writes), ns.
    pub p50: Nanos,
    /// 99th percentile of the same latencies, ns.
    pub p99: Nanos,
    /// Maximum of the same latencies, ns.
    pub longest: Nanos,
    /// Blocks answered in each span, from the beginning.
    pub samples: Vec<Sample>,
}

impl Measured {
    /// Returns the rate at which clients read and wrote, bytes per second.
    pub fn rate(&self) -> f64 {
        let blocks = self.blocks_read + self.blocks_written;
        blocks as f64 * crate::BLOCK_BYTES as f64 * 1e9 / self.time.max(1) as f64
    }
}

/// A future event. Events are ordered by `at`, then by `order`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: Nanos,
    order: u64,
    what: EventKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EventKind {
    Submit {
        phase: usize,
        thread: usize,
    },
    Completed {
        operation: usize,
        blocks: u32,
        read: bool,
    },
}

/// A request in flight.
struct InFlight {
    phase: usize,
    thread: usize,
    since: Nanos,
    write: bool,
    blocks: u64,
}

struct Simulation<'a> {
    run: &'a Run,
    now: Nanos,
    order: u64,
    events: BinaryHeap<Reverse<Event>>,
    shard: Shard<Weightless>,
    members: Vec<Nvme>,
    threads: Vec<Thread>,
    flights: Vec<Option<InFlight>>,
    free: Vec<usize>,
    rng: Rng,
    phase: usize,
    measured: Measured,
    latencies: Vec<u32>,
    measuring: bool,
}

/// Runs a simulation.
pub fn run(run: &Run) -> Measured {
    let mut rng = Rng::new(run.seed);
    let settings = ShardSettings {
        merging: run.merging,
        longest_hold: run.longest_hold,
        ..ShardSettings::default()
    };
    let members = (0..run.geometry.members())
        .map(|_| Nvme::new(run.model, rng.next_u64()))
        .collect();
    let mut world = Simulation {
        run,
        now: 0,
        order: 0,
        events: BinaryHeap::new(),
        shard: Shard::new(run.geometry, settings),
        members,
        threads: Vec::new(),
        flights: Vec::new(),
        free: Vec::new(),
        rng,
        phase: 0,
        measured: Measured::default(),
        latencies: Vec::new(),
        measuring: false,
    };
    world.go();
    world.measured
}

impl Simulation<'_> {
    fn go(&mut self) {
        let mut ends = 0;
        let (mut began, mut before) = (0, Counters::default());
        for phase in 0..self.run.phases.len() {
            self.begin_phase(phase);
            ends += self.run.phases[phase].time;
            loop {
                if !self.measuring && self.now >= self.run.warm_up {
                    self.measuring = true;
                    (began, before) = (self.now, self.shard.counters());
                }
                let enough = self.measured.requests >= self.run.most_requests * (phase as u64 + 1)
                    && self.now >= began + self.run.least_time;
                if enough || !self.step(ends) {
                    break;
                }
            }
        }
        self.measured.time = self.now - began;
        self.measured.counters = self.shard.counters().since(&before);
        self.latencies.sort_unstable();
        let at = |share: f64| {
            let last = self.latencies.len().saturating_sub(1);
            self.latencies
                .get((last as f64 * share) as usize)
                .copied()
                .map_or(0, Nanos::from)
        };
        (self.measured.p50, self.measured.p99, self.measured.longest) =
            (at(0.5), at(0.99), at(1.0));
    }

    fn begin_phase(&mut self, phase: usize) {
        self.phase = phase;
        self.threads.clear();
        let load = &self.run.phases[phase].load;
        let all: usize = load.jobs.iter().map(|job| job.threads).sum();
        let size = self.run.geometry.blocks();
        for job in &load.jobs {
            for _ in 0..job.threads {
                let thread = self.threads.len();
                self.threads.push(Thread::new(
                    job,
                    thread,
                    all,
                    size,
                    load.offset,
                    self.rng.fork(),
                ));
                self.threads[thread].free = self.now;
                for _ in 0..job.depth {
                    self.submit_later(thread);
                }
            }
        }
    }

    /// Processes the next event, unless it is later than `ends`.
    fn step(&mut self, ends: Nanos) -> bool {
        let next = self
            .events
            .peek()
            .map_or(Nanos::MAX, |Reverse(event)| event.at);
        let wake = self.shard.deadline().unwrap_or(Nanos::MAX);
        if next.min(wake) > ends {
            self.now = ends;
            return false;
        }
        if wake < next {
            self.now = self.now.max(wake);
            self.shard.tick(self.now);
        } else if let Some(Reverse(event)) = self.events.pop() {
            self.now = event.at;
            match event.what {
                EventKind::Submit { phase, thread } if phase == self.phase => self.submit(thread),
                EventKind::Submit { .. } => {}
                EventKind::Completed {
                    operation,
                    blocks,
                    read,
                } => {
                    let outcome = if read {
                        Outcome::Read(vec![Weightless; blocks as usize])
                    } else {
                        Outcome::Done
                    };
                    self.shard.completed(self.now, operation, outcome);
                }
            }
        }
        self.take_output();
        true
    }

    fn push(&mut self, at: Nanos, what: EventKind) {
        self.order += 1;
        self.events.push(Reverse(Event {
            at,
            order: self.order,
            what,
        }));
    }

    fn submit_later(&mut self, thread: usize) {
        let load = &self.run.phases[self.phase].load;
        let jitter = if load.jitter == 0 {
            0
        } else {
            self.rng.below(load.jitter)
        };
        let thread_free = &mut self.threads[thread].free;
        let begin = self.now.max(*thread_free);
        *thread_free = load.bursts.map_or(begin, |bursts| bursts.next(begin)) + load.submit;
        let at = *thread_free + jitter;
        self.push(
            at,
            EventKind::Submit {
                phase: self.phase,
                thread,
            },
        );
    }

    fn submit(&mut self, thread: usize) {
        let (write, start, blocks) = self.threads[thread].next();
        let flight = InFlight {
            phase: self.phase,
            thread,
            since: self.now,
            write,
            blocks,
        };
        let token = match self.free.pop() {
            Some(token) => {
                self.flights[token] = Some(flight);
                token
            }
            None => {
                self.flights.push(Some(flight));
                self.flights.len() - 1
            }
        };
        let request = if write {
            Request::Write {
                start,
                data: vec![Weightless; blocks as usize],
                durable: false,
            }
        } else {
            Request::Read { start, blocks }
        };
        self.shard.request(self.now, token as u64, request);
    }

    fn take_output(&mut self) {
        let output = std::mem::take(self.shard.output());
        for operation in output.operations {
            let (action, blocks, read) = match operation.action {
                Action::Read { start, blocks } | Action::Adopt { start, blocks } => {
                    (Action::Read { start, blocks }, blocks, true)
                }
                Action::Write {
                    start,
                    data,
                    durable,
                } => {
                    let blocks = data.len() as u32;
                    (
                        Action::Write {
                            start,
                            data: vec![(); data.len()],
                            durable,
                        },
                        blocks,
                        false,
                    )
                }
                Action::Discard { start, blocks } => (Action::Discard { start, blocks }, 0, false),
                Action::Flush => (Action::Flush, 0, false),
            };
            let at = self.members[operation.member].submit(self.now, action);
            self.push(
                at,
                EventKind::Completed {
                    operation: operation.id,
                    blocks,
                    read,
                },
            );
        }
        for reply in output.replies {
            assert!(reply.result.is_ok(), "modelled members do not fail");
            let flight = self.flights[reply.token as usize]
                .take()
                .expect("a request is answered once");
            self.free.push(reply.token as usize);
            self.answered(&flight);
            if flight.phase == self.phase {
                self.submit_later(flight.thread);
            }
        }
    }

    fn answered(&mut self, flight: &InFlight) {
        if let Some(span) = self.now.checked_div(self.run.sample) {
            let span = span as usize;
            if self.measured.samples.len() <= span {
                self.measured.samples.resize(span + 1, Sample::default());
            }
            self.measured.samples[span].blocks += flight.blocks;
        }
        if !self.measuring {
            return;
        }
        self.measured.requests += 1;
        if flight.write {
            self.measured.blocks_written += flight.blocks;
            self.latencies
                .push((self.now - flight.since).min(u64::from(u32::MAX)) as u32);
        } else {
            self.measured.blocks_read += flight.blocks;
        }
    }
}
