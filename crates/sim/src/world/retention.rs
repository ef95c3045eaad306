//! Expiry of data: deletes, changing rules, a budget, and the passing of time.

use super::{Done, Violation, World};
use crate::answers::{self, CheckError};
use crate::crash_injector::{Target, Work};
use crate::generator::Generator;
use crate::plan::{FaultKind, RunPlan};
use crate::retention_model::RetentionModel;
use crate::rollup_model::RollupModel;
use crate::rules::Rules;
use seiner_engine::{Engine, Error};
use seiner_model::{Interval, Selector};
use seiner_platform::{Clock, Disk};

const SECOND: u64 = 1_000_000_000;

/// Returns the model of a new store under a plan.
pub(super) fn model(plan: &RunPlan, generator: &Generator, now: i64) -> RetentionModel {
    let holes = !plan.journals();
    RetentionModel::new(rules(plan, generator), plan.options.block_bytes, now, holes)
}

pub(super) fn rules(plan: &RunPlan, generator: &Generator) -> Rules {
    let classes = &plan.options.classes;
    let of = generator
        .sources
        .iter()
        .map(|member| classes.of(&member.key));
    Rules {
        classes: classes.list().to_vec(),
        of: of.collect(),
        by_clock: (0..classes.list().len() as u8)
            .map(|class| classes.next_step(class).is_none())
            .collect(),
        // Without a budget, the store may use the whole file system.
        budget: plan.options.disk.is_some() || plan.fault_kind == FaultKind::Full,
    }
}

/// Returns true if the store may distrust its clock: the clock jumped by at least the shortest lifetime, and no
/// lifetime has passed since the jump.
pub(super) fn is_held(engine: &Engine) -> bool {
    let classes = engine.log().classes.into_iter();
    let shortest = classes.filter_map(|shown| shown.class.keep.age).min();
    let held = u128::from(engine.status().clock_held_ns);
    held > 0 && shortest.is_some_and(|age| held >= age.as_nanos())
}

impl World {
    /// Executes a step of a store that expires data.
    pub(super) fn act_expiring(&mut self) -> Done {
        if self.plan.churns && self.rng.chance(1, 6) {
            self.turn_over()?;
        }
        match self.rng.below(100) {
            0..38 => self.append_batch(),
            38..46 => self.append_columns(),
            46..50 => self.crash_in_work(),
            50..54 => self.append_samples(),
            54..61 => self.commit(),
            61..72 => self.background(),
            72..74 => self.flush(),
            74..77 => self.check_select(),
            77..79 => self.check_aggregate(),
            79 => self.check_catalog(),
            80..85 => self.pass_a_while(),
            85..87 => self.wait_durable(),
            87..90 => self.delete(),
            90..93 => self.restart(super::ProgramEnd::Closed),
            _ => self.inject_fault(),
        }?;
        let second = self.rng.below(SECOND);
        self.clock.advance(second);
        self.pass();
        self.check_budget()
    }

    /// Deletes all data of some sources, and lets so much time pass that their numbers are used again.
    fn turn_over(&mut self) -> Done {
        let selector = self.generator.selector(&mut self.rng);
        self.delete_of(&selector, Interval::ALL)?;
        if self.rng.chance(1, 2) {
            self.flush()?;
        }
        self.background()?;
        self.clock.advance(61 * SECOND);
        self.event("61 s pass".to_string());
        self.pass();
        self.background()
    }

    /// Schedules a crash in the middle of some work of the engine, then starts that work.
    fn crash_in_work(&mut self) -> Done {
        if !self.plan.crashes() {
            return Ok(());
        }
        let work = *self.rng.pick(&[
            Work::Seal,
            Work::Checkpoint,
            Work::Merge,
            Work::Drop,
            // Expiry is the shortest of these.
            Work::Expire,
            Work::Expire,
            Work::Expire,
            Work::Delete,
            Work::Forget,
        ]);
        self.aim_at(work);
        match work {
            Work::Delete => self.delete(),
            _ => self.background(),
        }
    }

    /// Schedules a crash during the next start.
    pub(super) fn crash_in_start(&mut self) {
        let work = *self.rng.pick(&[Work::Start, Work::Rules]);
        self.aim_at(work);
    }

    pub(super) fn aim_at(&mut self, work: Work) {
        self.cancel_crash();
        let most = match work {
            Work::Start
            | Work::Seal
            | Work::Checkpoint
            | Work::Merge
            | Work::RollUp
            | Work::Forget => *self.rng.pick(&[8, 60]),
            _ => 4,
        };
        let target = Target {
            work,
            operation: self.rng.between(1, most),
        };
        self.end = *self.rng.pick(&[
            super::ProgramEnd::PowerCut,
            super::ProgramEnd::PowerCut,
            super::ProgramEnd::Killed,
        ]);
        self.event(format!("{target:?}: {:?}", self.end));
        self.crash_injector.set_target(Some(target));
    }

    pub(super) fn pass_a_while(&mut self) -> Done {
        let seconds = *self.rng.pick(&[1, 5, 60, 60, 600, 4000]);
        self.clock.advance(seconds * SECOND);
        self.event(format!("{seconds} s pass"));
        let seldom = if self.plan.rolls_up { 30 } else { 8 };
        if self.rng.chance(1, seldom) {
            let back = self.rng.below(1000 * SECOND) as i64;
            self.event(format!("the clock is set back by {back} ns"));
            self.clock.set_wall(self.clock.now() - back);
        }
        Ok(())
    }

    /// Passes the current time to the oracle.
    pub(super) fn pass(&mut self) {
        let now = self.clock.now();
        if let Some(rollups) = &mut self.oracle.rollups {
            rollups.pass(now);
        }
        if let Some(retention) = &mut self.oracle.retention {
            retention.pass(now);
        }
    }

    /// Checks the guarantee that disk usage never exceeds the budget.
    pub(super) fn check_budget(&mut self) -> Done {
        let (used, budget) = (self.disk.most_used(), self.plan.options.disk);
        match budget.filter(|&budget| used > budget) {
            Some(budget) => self.violation(format!("{used} bytes were taken of {budget}")),
            None => Ok(()),
        }
    }

    /// Checks that a store that expires data contains all rows that it must contain, and only rows that it may
    /// contain. Returns true if the store could be queried. Other stores are checked more thoroughly later.
    pub(super) fn observe(&mut self) -> Result<bool, Violation> {
        if self.plan.rolls_up {
            return self.observe_levels();
        }
        if !self.plan.expiring {
            return Ok(true);
        }
        self.note_shed(&self.engine());
        let found =
            match answers::select(&self.engine(), &self.source_index, &answers::everything()) {
                Ok(found) => found,
                Err(CheckError::Wrong(what)) => return self.violation(what),
                Err(CheckError::Failed(error)) => {
                    return self.failed("a read", error).map(|()| false);
                }
            };
        self.report.checks += 1;
        let (looked, now) = (self.looked(), self.clock.now());
        let retention = self.oracle.retention.as_mut();
        let retention = retention.expect("a plan with expiry has a retention model");
        match looked {
            true => retention.look(now),
            false => retention.pass(now),
        }
        let result = retention.observe(&found);
        self.oracle.set_live(found);
        result.or_else(|what| self.violation(what))?;
        Ok(true)
    }

    /// Returns true if the engine has already applied the current time to its retention. A disk fault may prevent
    /// that.
    pub(super) fn looked(&self) -> bool {
        let now = self.clock.now();
        let rules = &self.plan.options.classes;
        let classes = (0..).zip(self.engine().log().classes);
        let mut by_clock = classes.filter(|(number, _)| rules.next_step(*number).is_none());
        let all_hidden = by_clock.all(|(_, shown)| {
            let age = shown.class.keep.age.map(|age| age.as_nanos() as i64);
            age.is_none_or(|age| shown.hidden_before >= now - age)
        });
        let fails = matches!(self.plan.fault_kind, FaultKind::Errors | FaultKind::Full);
        all_hidden || !(fails || is_held(&self.engine()) || self.disk.is_off())
    }

    pub(super) fn note_shed(&mut self, engine: &Engine) {
        if let Some(retention) = &mut self.oracle.retention {
            retention.never_shed &= engine.status().shed_bytes == 0;
        }
    }

    /// Deletes some intervals of some sources.
    pub(super) fn delete(&mut self) -> Done {
        let selector = self.generator.selector(&mut self.rng);
        let now = self.clock.now();
        let mut time = || now - self.rng.below(2000 * SECOND) as i64;
        let (a, b) = (time(), time());
        let interval = match self.rng.below(4) {
            0 => Interval::ALL,
            1 => Interval::new(i64::MIN, a),
            _ => Interval::new(a.min(b), a.max(b)),
        };
        self.delete_of(&selector, interval)
    }

    fn delete_of(&mut self, selector: &Selector, interval: Interval) -> Done {
        self.event(format!("delete {selector:?} {interval:?}"));
        let meant: Vec<u32> = (0..self.generator.sources.len() as u32)
            .filter(|&source| selector.holds(&self.generator.sources[source as usize].key))
            .collect();
        let result = self.engine().delete(selector, interval);
        self.deleted(&meant, interval, result.is_ok());
        self.done("delete", result).map(|_| ())
    }

    fn deleted(&mut self, meant: &[u32], interval: Interval, done: bool) {
        if let Some(retention) = &mut self.oracle.retention {
            retention.delete(meant, interval, done);
        }
        if let Some(rollups) = &mut self.oracle.rollups {
            rollups.delete(meant, interval, done);
        }
    }

    /// Sometimes changes the rules for the next start.
    pub(super) fn change_rules(&mut self) {
        let keeps_all = !self.plan.expiring && !self.plan.rolls_up;
        if keeps_all || !self.rng.chance(1, 3) {
            return;
        }
        self.plan.redraw(&mut self.rng);
        self.event(format!("from now on {:?}", self.plan.options));
        let rules = rules(&self.plan, &self.generator);
        let classes = self.plan.options.classes.clone();
        let rollups = self.oracle.rollups.as_mut();
        let changes = match (&mut self.oracle.retention, rollups) {
            (Some(retention), _) => retention.change_rules(rules),
            (_, Some(rollups)) => rollups.change_rules(rules, classes),
            _ => false,
        };
        self.report.rule_changes += u64::from(changes);
    }

    /// Handles the rejection of rows when the budget is exhausted, if the classes permit it. The simulation
    /// then frees space.
    pub(super) fn is_full(&mut self, what: &str, error: Error) -> Done {
        self.event(format!("{what} fails: {error}"));
        self.report.rejections += 1;
        if matches!(self.disk.free(), Ok(Some(_))) {
            // Other users fill the disk and then free space, and the store continues.
            self.disk.set_capacity(None);
            self.clock.advance(2_000_000_000);
            return Ok(());
        }
        let rules = self.oracle.retention.as_ref().map(RetentionModel::rules);
        let rules = rules.or(self.oracle.rollups.as_ref().map(RollupModel::rules));
        let Some(rules) = rules.filter(|_| self.plan.options.disk.is_some()) else {
            return self.violation(format!("{what} fails without a budget: {error}"));
        };
        if !rules.may_reject() {
            return self.violation(format!("{what} fails, and all could be shed: {error}"));
        }
        match self.rng.below(3) {
            0 => {
                let result = self.engine().delete(&Selector::all(), Interval::ALL);
                let meant: Vec<u32> = (0..self.generator.sources.len() as u32).collect();
                self.deleted(&meant, Interval::ALL, result.is_ok());
                self.event("delete everything".to_string());
                self.done("delete", result).map(|_| ())
            }
            1 => {
                let disk = self
                    .plan
                    .options
                    .disk
                    .as_mut()
                    .expect("the plan has a disk budget");
                *disk += *disk / 2;
                self.restart(super::ProgramEnd::Closed)
            }
            _ => Ok(()),
        }
    }
}
