//! Steps of a store with roll-ups: passes, changing rules, deletes. Aggregates must be the same for every level from
//! which they are computed.

use super::{Done, Violation, World};
use crate::answers::{self, CheckError, SourceIndex};
use crate::crash_injector::Work;
use crate::generator::Generator;
use crate::plan::RunPlan;
use crate::rollup_model::{RollupModel, StoreAnswers, WINDOW};
use seiner_engine::{Engine, Step};
use seiner_platform::Clock;
use seiner_platform::sim::SimDisk;
use std::collections::BTreeMap;
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;

/// Returns the model of a new store under a plan.
pub(super) fn model(plan: &RunPlan, generator: &Generator, now: i64) -> RollupModel {
    let rules = super::retention::rules(plan, generator);
    let classes = plan.options.classes.clone();
    RollupModel::new(rules, classes, now, !plan.journals())
}

/// Returns the answers of a store: samples, aggregates by window, levels and status.
pub(super) fn find(
    engine: &Engine,
    source_index: &SourceIndex,
) -> Result<StoreAnswers, CheckError> {
    let all = answers::everything();
    let samples = answers::select(engine, source_index, &all)?;
    let mut figures = BTreeMap::new();
    for summary in engine.aggregate(&all, Step::Every(WINDOW))? {
        let summary = summary?;
        let series = source_index.series(&summary.key, &summary.field)?;
        let of = (summary.field_type, summary.buckets);
        if figures.insert(series, of).is_some() {
            return Err(CheckError::Wrong(format!("figures of {series:?} twice")));
        }
    }
    Ok(StoreAnswers {
        samples,
        figures,
        levels: engine.levels(&all),
        log: engine.log(),
    })
}

impl World {
    /// Carries out one step of a store with roll-ups.
    pub(super) fn act_rolling_up(&mut self) -> Done {
        match self.rng.below(100) {
            0..32 => self.append_batch(),
            32..40 => self.append_columns(),
            40..44 => self.append_samples(),
            44..49 => self.commit(),
            49..66 => self.run_background(),
            66..70 => self.crash_in_rollup(),
            70..72 => self.flush(),
            72..80 => self.check_everything(),
            80..88 => self.pass_a_while(),
            88..90 => self.delete(),
            90..93 => self.restart(super::ProgramEnd::Closed),
            _ => self.inject_fault(),
        }?;
        let second = self.rng.below(SECOND);
        self.clock.advance(second);
        self.pass();
        self.check_budget()
    }

    /// Runs background work. If a pass of the roll-up ended, all accepted rows are durable, because a pass ends only
    /// after these rows are on disk.
    fn run_background(&mut self) -> Done {
        let engine = self.engine();
        let before = self.made(&engine);
        self.background()?;
        let is_same = Arc::ptr_eq(&engine, &self.engine());
        if is_same && self.plan.journals() && self.made(&engine) != before {
            self.oracle.set_all_durable();
        }
        Ok(())
    }

    /// Returns, for each class with a level, the end of the times that the next level contains, ns.
    fn made(&self, engine: &Engine) -> Vec<i64> {
        let rules = &self.plan.options.classes;
        let classes = (0..).zip(engine.log().classes);
        let rolled_up = classes.filter(|(number, _)| rules.next_step(*number).is_some());
        rolled_up.map(|(_, class)| class.hidden_before).collect()
    }

    /// Schedules a crash during a work of the engine, most often a roll-up, then runs the engine.
    fn crash_in_rollup(&mut self) -> Done {
        if !self.plan.crashes() {
            return Ok(());
        }
        let work = *self.rng.pick(&[
            Work::RollUp,
            Work::RollUp,
            Work::RollUp,
            Work::Seal,
            Work::Checkpoint,
            Work::Drop,
            Work::Delete,
        ]);
        self.aim_at(work);
        match work {
            Work::Delete => self.delete(),
            _ => self.background(),
        }
    }

    /// Checks the answers of the store against the model. Returns false if a read failed.
    pub(super) fn observe_levels(&mut self) -> Result<bool, Violation> {
        let found = match find(&self.engine(), &self.source_index) {
            Ok(found) => found,
            Err(CheckError::Wrong(what)) => return self.violation(what),
            Err(CheckError::Failed(error)) => return self.failed("a read", error).map(|()| false),
        };
        self.report.checks += 1;
        let rollups = self
            .oracle
            .rollups
            .as_mut()
            .expect("a plan with roll-ups has a roll-up model");
        rollups.pass(self.clock.now());
        let result = rollups.observe(&found);
        result.or_else(|what| self.violation(what))?;
        Ok(true)
    }

    /// Simulates a power cut on a copy of the disk, opens the copy and checks the answers.
    pub(super) fn check_power_cut_with_levels(&mut self, disk: &SimDisk) -> Done {
        let clock = Arc::new(self.clock.clone());
        let options = self.plan.options.clone();
        let engine = Engine::open((self.wrap)(disk.clone()), clock, options);
        let found = engine
            .map_err(CheckError::from)
            .and_then(|engine| find(&engine, &self.source_index));
        match found {
            Ok(found) => {
                let mut rollups = self
                    .oracle
                    .rollups
                    .clone()
                    .expect("a plan with roll-ups has a roll-up model");
                let result = rollups.adopt(&found, true, true, self.clock.now());
                result
                    .or_else(|what| self.violation(format!("after a power cut on a copy: {what}")))
            }
            Err(CheckError::Wrong(what)) => self.violation(what),
            Err(CheckError::Failed(error)) => {
                self.violation(format!("start after a power cut on a copy fails: {error}"))
            }
        }
    }
}
