//! One run: an engine with its disk and clock, the oracle, and the steps applied to them.

mod append;
mod damage;
mod retention;
mod rollup;
mod start;

use crate::answers::{self, CheckError, SourceIndex};
use crate::crash_injector::{CrashInjector, Work, WorkCounts};
use crate::generator::Generator;
use crate::oracle::Oracle;
use crate::plan::{FaultKind, RunPlan};
use seiner_engine::{Engine, Error, Query, Step};
use seiner_model::SourceId;
use seiner_platform::Disk;
use seiner_platform::sim::{Chance, Faults, Rng, SimClock, SimDisk};
use start::ProgramEnd;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Function that wraps the simulated disk for the engine.
pub type Wrap = fn(SimDisk) -> Arc<dyn Disk>;

/// Wrong behaviour of the engine.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Seed of the run.
    pub seed: u64,
    /// Step in which the violation was detected; `None` after a panic.
    pub step: Option<u64>,
    /// Description of the violation.
    pub what: String,
    /// Last events before the violation, oldest first.
    pub events: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}", self.seed)?;
        if let Some(step) = self.step {
            write!(f, ", step {step}")?;
        }
        writeln!(f, ": {}", self.what)?;
        self.events
            .iter()
            .try_for_each(|event| writeln!(f, "    {event}"))?;
        write!(
            f,
            "to repeat: SEINER_SIM_SEED={} cargo test -p seiner-sim -- --nocapture seeds",
            self.seed
        )
    }
}

/// Counts of one or more runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of steps.
    pub steps: u64,
    /// Number of accepted rows.
    pub rows: u64,
    /// Number of answers compared with the oracle.
    pub checks: u64,
    /// Number of power cuts, including simulated power cuts on a copy.
    pub crashes: u64,
    /// Number of kills of the program.
    pub kills: u64,
    /// Number of errors that the engine reported for injected faults.
    pub errors: u64,
    /// Number of bit-flip tests in which samples were missing.
    pub damages: u64,
    /// Number of times that a store rejected rows because its budget or the disk was used up.
    pub rejections: u64,
    /// Number of rows rejected as too old.
    pub too_old: u64,
    /// Number of sealed blocks.
    pub blocks: u64,
    /// Number of sources that lost their names.
    pub forgotten: u64,
    /// Number of sources that got the number of a forgotten one.
    pub reused: u64,
    /// Number of dormant sources that were found in names files.
    pub recalled: u64,
    /// Number of starts with changed rules.
    pub rule_changes: u64,
    /// Counts of the engine's works and of crashes during them.
    pub works: WorkCounts,
    /// Number of disk operations.
    pub operations: u64,
    /// Digest of all events; equal for equal seeds.
    pub trace: u64,
}

impl Report {
    /// Adds the counts of another report.
    pub fn add(&mut self, other: &Report) {
        self.steps += other.steps;
        self.rows += other.rows;
        self.checks += other.checks;
        self.crashes += other.crashes;
        self.kills += other.kills;
        self.errors += other.errors;
        self.damages += other.damages;
        self.rejections += other.rejections;
        self.too_old += other.too_old;
        self.blocks += other.blocks;
        self.forgotten += other.forgotten;
        self.reused += other.reused;
        self.recalled += other.recalled;
        self.rule_changes += other.rule_changes;
        self.works.add(&other.works);
        self.operations += other.operations;
        self.trace = self.trace.wrapping_add(other.trace);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let begun = |work: Work| self.works.of(work).begun;
        write!(
            f,
            "{} steps, {} rows, {} checks, {} crashes, {} kills, {} errors, {} damages, {} rejections, {} rows too \
             old, {} blocks, {} seals, {} merges, {} drops, {} roll-up passes, {} deletes, {} sources \
             forgotten, {} numbers used again, {} recalled, {} changes of rules, {} disk operations",
            self.steps,
            self.rows,
            self.checks,
            self.crashes,
            self.kills,
            self.errors,
            self.damages,
            self.rejections,
            self.too_old,
            self.blocks,
            begun(Work::Seal),
            begun(Work::Merge),
            begun(Work::Drop),
            begun(Work::RollUp),
            begun(Work::Delete),
            self.forgotten,
            self.reused,
            self.recalled,
            self.rule_changes,
            self.operations
        )
    }
}

/// A run in progress.
pub struct World {
    seed: u64,
    rng: Rng,
    plan: RunPlan,
    generator: Generator,
    source_index: SourceIndex,
    oracle: Oracle,
    disk: SimDisk,
    wrap: Wrap,
    crash_injector: CrashInjector,
    clock: SimClock,
    /// `None` only before the first start.
    engine: Option<Arc<Engine>>,
    /// Numbers of the sources in the running engine.
    ids: HashMap<u32, SourceId>,
    /// Positions in the journal, each with the number of rows accepted up to it.
    positions: Vec<(u64, u64)>,
    /// Way in which the program ends when the disk stops working.
    end: ProgramEnd,
    /// True if a sync may have failed since the last power cut. Then data that a restarted program
    /// reads may not be durable, and the program cannot detect that.
    sync_doubtful: bool,
    report: Report,
    step: u64,
    events: Vec<String>,
    verbose: bool,
}

type Done = Result<(), Violation>;

/// Wall time at the start of a run, ns.
const BEGIN: i64 = 1_700_000_000_000_000_000;

impl World {
    /// Returns the run of a seed with a store that keeps everything. `verbose` prints every step to
    /// stderr.
    pub fn new(seed: u64, wrap: Wrap, verbose: bool) -> World {
        let mut rng = Rng::new(seed);
        let plan = RunPlan::draw(&mut rng);
        let generator = Generator::draw(&mut rng, plan.sources);
        let oracle = Oracle::new(plan.fault_kind == FaultKind::Damage);
        World::with(seed, rng, plan, generator, oracle, wrap, verbose)
    }

    /// Returns the run of a seed with a store with retention: the disk budget is small, retention
    /// classes change, and data is deleted.
    pub fn expiring(seed: u64, wrap: Wrap, verbose: bool) -> World {
        let mut rng = Rng::new(!seed);
        let plan = RunPlan::draw_expiring(&mut rng);
        let generator = Generator::numbered(&mut rng, plan.sources, !plan.journals());
        let oracle = Oracle::expiring(retention::model(&plan, &generator, BEGIN));
        World::with(seed, rng, plan, generator, oracle, wrap, verbose)
    }

    /// Returns the run of a seed with a store whose sources come and go.
    pub fn churning(seed: u64, wrap: Wrap, verbose: bool) -> World {
        let mut rng = Rng::new(seed.rotate_left(16) ^ 0x90e5);
        let plan = RunPlan::draw_churning(&mut rng);
        let generator = Generator::numbered(&mut rng, plan.sources, !plan.journals());
        let generator = generator.with_churn(&mut rng);
        let oracle = Oracle::expiring(retention::model(&plan, &generator, BEGIN));
        World::with(seed, rng, plan, generator, oracle, wrap, verbose)
    }

    /// Returns the run of a seed with a store with roll-ups and changing rules.
    pub fn rolling_up(seed: u64, wrap: Wrap, verbose: bool) -> World {
        let mut rng = Rng::new(seed.rotate_left(32) ^ 0xc0a2);
        let plan = RunPlan::draw_rolling_up(&mut rng);
        let generator = Generator::numbered(&mut rng, plan.sources, !plan.journals());
        let generator = generator.with_lateness(4_000_000_000);
        let oracle = Oracle::rolling_up(rollup::model(&plan, &generator, BEGIN));
        World::with(seed, rng, plan, generator, oracle, wrap, verbose)
    }

    fn with(
        seed: u64,
        mut rng: Rng,
        plan: RunPlan,
        generator: Generator,
        oracle: Oracle,
        wrap: Wrap,
        verbose: bool,
    ) -> World {
        World {
            seed,
            source_index: SourceIndex::of(&generator),
            oracle,
            disk: SimDisk::new(rng.next_u64()),
            clock: SimClock::new(BEGIN),
            rng,
            plan,
            generator,
            wrap,
            crash_injector: CrashInjector::new(),
            engine: None,
            ids: HashMap::new(),
            positions: Vec::new(),
            end: ProgramEnd::PowerCut,
            sync_doubtful: false,
            report: Report::default(),
            step: 0,
            events: Vec::new(),
            verbose,
        }
    }

    /// Returns the disk without a wrapper.
    pub fn plain(disk: SimDisk) -> Arc<dyn Disk> {
        Arc::new(disk)
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// The first violation.
    pub fn run(mut self) -> Result<Report, Violation> {
        self.event(format!("{:?}", self.plan));
        self.start(ProgramEnd::Closed)?;
        while self.step < self.plan.steps {
            self.step += 1;
            match (self.plan.expiring, self.plan.rolls_up) {
                (true, _) => self.act_expiring()?,
                (_, true) => self.act_rolling_up()?,
                _ => self.act()?,
            }
        }
        self.set_faults(Faults::default());
        self.disk.set_capacity(None);
        self.cancel_crash();
        let how = if self.plan.crashes() {
            ProgramEnd::PowerCut
        } else {
            ProgramEnd::Closed
        };
        self.restart(how)?;
        self.check_everything()?;
        self.report.steps = self.step;
        self.report.operations = self.disk.operations();
        self.report.trace = self.report.trace.wrapping_add(self.disk.trace());
        self.report.works = self.crash_injector.works();
        Ok(self.report)
    }

    fn act(&mut self) -> Done {
        match self.rng.below(100) {
            0..38 => self.append_batch(),
            38..45 => self.append_columns(),
            45..51 => self.append_samples(),
            51..60 => self.commit(),
            60..70 => self.background(),
            70..72 => self.flush(),
            72..77 => self.check_select(),
            77..82 => self.check_aggregate(),
            82..84 => self.check_catalog(),
            84..87 => self.pass_time(),
            87..90 => self.wait_durable(),
            90..92 => self.restart(ProgramEnd::Closed),
            _ => self.inject_fault(),
        }
    }

    /// Injects a fault of the kind in the plan.
    fn inject_fault(&mut self) -> Done {
        match (self.plan.fault_kind, self.rng.below(8)) {
            (FaultKind::None, _) => self.check_everything(),
            (FaultKind::Damage, 0..3) => self.damage(),
            (FaultKind::Damage, _) => Ok(()),
            (_, 0) => self.restart(ProgramEnd::Killed),
            (_, 1) => self.restart(ProgramEnd::PowerCut),
            (_, 2 | 3) => self.check_power_cut(),
            (FaultKind::Crashes, _) => self.schedule_crash(),
            (FaultKind::Errors, 4..7) => self.raise_faults(),
            (FaultKind::Full, 4..7) => self.limit_capacity(),
            _ => self.schedule_crash(),
        }
    }

    fn schedule_crash(&mut self) -> Done {
        self.cancel_crash();
        let most = *self.rng.pick(&[4, 20, 60, 200]);
        let operations = self.rng.between(1, most);
        self.end = *self.rng.pick(&[
            ProgramEnd::PowerCut,
            ProgramEnd::PowerCut,
            ProgramEnd::Killed,
        ]);
        self.event(format!("in {operations} operations: {:?}", self.end));
        self.disk.crash_after(Some(operations));
        Ok(())
    }

    fn cancel_crash(&mut self) {
        self.disk.crash_after(None);
        self.crash_injector.set_target(None);
    }

    fn raise_faults(&mut self) -> Done {
        let mut chance = || Chance(*self.rng.pick(&[0, 0, 1_000, 20_000, 300_000]));
        let faults = Faults {
            read_error: chance(),
            write_error: chance(),
            sync_error: chance(),
            change_error: chance(),
            lost_write: Chance::NEVER,
        };
        self.event(format!("{faults:?}"));
        self.set_faults(faults);
        Ok(())
    }

    fn set_faults(&mut self, faults: Faults) {
        self.sync_doubtful |= faults.sync_error != Chance::NEVER;
        self.disk.set_faults(faults);
    }

    fn limit_capacity(&mut self) -> Done {
        let capacity = self.disk.used() + self.rng.below(100_000);
        self.event(format!("space for {capacity} bytes"));
        self.disk.set_capacity(Some(capacity));
        Ok(())
    }

    fn pass_time(&mut self) -> Done {
        let ns = *self.rng.pick(&[
            1_000_000,
            100_000_000,
            2_000_000_000,
            700_000_000_000,
            36_000_000_000_000,
        ]);
        self.event(format!("{ns} ns pass"));
        self.clock.advance(ns);
        if self.rng.chance(1, 10) {
            self.clock.set_wall(self.rng.next_u64() as i64 / 4);
        }
        Ok(())
    }

    fn commit(&mut self) -> Done {
        self.event("commit".to_string());
        let result = self.engine().commit();
        if self.done("commit", result)?.is_some() && self.plan.journals() {
            self.oracle.set_all_durable();
            let unsynced = self.engine().status().unsynced_samples;
            if unsynced > 0 {
                return self.violation(format!(
                    "{unsynced} samples are unsynced right after a commit"
                ));
            }
            if self.plan.crashes() && self.rng.chance(1, 6) {
                return self.check_power_cut();
            }
        }
        Ok(())
    }

    fn background(&mut self) -> Done {
        let most = *self.rng.pick(&[1, 3, 50]);
        self.event(format!("at most {most} steps in the background"));
        for _ in 0..most {
            let result = self.engine().step();
            if self.done("step", result)? != Some(true) {
                break;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Done {
        self.event("flush".to_string());
        let result = self.engine().flush();
        if self.done("flush", result)?.is_some() {
            self.oracle.set_all_durable();
        }
        Ok(())
    }

    fn wait_durable(&mut self) -> Done {
        if self.positions.is_empty() || !self.plan.journals() {
            return Ok(());
        }
        let at = self.rng.below(self.positions.len() as u64) as usize;
        let (position, accepted) = self.positions.swap_remove(at);
        if self.engine().is_durable(position) {
            self.event(format!("position {position} is durable"));
            self.oracle.set_durable(accepted);
            return Ok(());
        }
        self.event(format!("wait for position {position}"));
        let result = self.engine().wait_durable(position);
        if self.done("wait_durable", result)?.is_some() {
            self.oracle.set_durable(accepted);
        }
        Ok(())
    }

    fn check_everything(&mut self) -> Done {
        if self.plan.expiring || self.plan.rolls_up {
            return self.observe().map(|_| ());
        }
        self.compare(&answers::everything())
    }

    fn check_select(&mut self) -> Done {
        if self.rng.chance(1, 3) {
            return self.check_everything();
        }
        if !self.observe()? {
            return Ok(());
        }
        let query = answers::draw_query(&mut self.rng, &self.generator, self.oracle.live());
        self.compare(&query)
    }

    /// Compares an answer of the store with the oracle's.
    fn compare(&mut self, query: &Query) -> Done {
        let result = answers::check_select(
            &self.engine(),
            &self.source_index,
            query,
            &self.generator,
            self.oracle.live(),
        );
        self.answered(result)
    }

    fn check_aggregate(&mut self) -> Done {
        if !self.observe()? {
            return Ok(());
        }
        let query = answers::draw_query(&mut self.rng, &self.generator, self.oracle.live());
        let step = match self.rng.below(4) {
            0 => Step::Whole,
            1 => Step::Every(7_000_000_000),
            2 => Step::Every(3_600_000_000_000),
            _ => Step::Every(self.rng.between(1, i64::MAX as u64) as i64),
        };
        let live = self.oracle.live();
        let result = answers::check_aggregate(
            &self.engine(),
            &self.source_index,
            &query,
            step,
            &self.generator,
            live,
        );
        self.answered(result)
    }

    fn check_catalog(&mut self) -> Done {
        if !self.observe()? {
            return Ok(());
        }
        let selector = self.generator.selector(&mut self.rng);
        let live = self.oracle.live();
        let result = answers::check_catalog(
            &self.engine(),
            &self.source_index,
            &selector,
            &self.generator,
            live,
        );
        self.answered(result)
    }

    fn answered(&mut self, result: Result<(), CheckError>) -> Done {
        self.report.checks += 1;
        match result {
            Ok(()) => Ok(()),
            Err(CheckError::Wrong(what)) => self.violation(what),
            Err(CheckError::Failed(error)) => self.failed("a read", error),
        }
    }

    fn engine(&self) -> Arc<Engine> {
        self.engine
            .clone()
            .expect("a run begins with a start of the engine")
    }

    /// Returns the value of an engine call; `None` after a handled error, such as an injected fault.
    fn done<T>(&mut self, what: &str, result: Result<T, Error>) -> Result<Option<T>, Violation> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error @ Error::Full { .. }) => self.is_full(what, error).map(|()| None),
            Err(error) => self.failed(what, error).map(|()| None),
        }
    }

    fn event(&mut self, event: String) {
        if self.verbose {
            eprintln!("{:4} {event}", self.step);
        }
        self.events.push(format!("{:4} {event}", self.step));
    }

    fn violation<T>(&mut self, what: String) -> Result<T, Violation> {
        const TOLD: usize = 12;
        let events = self
            .events
            .split_off(self.events.len().saturating_sub(TOLD));
        Err(Violation {
            seed: self.seed,
            step: Some(self.step),
            what,
            events,
        })
    }
}
