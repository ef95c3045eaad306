//! Ends and starts of the program.

use super::retention::is_held;
use super::{Done, World, rollup};
use crate::answers::{self, CheckError, SourceIndex};
use crate::plan::FaultKind;
use crate::samples::Samples;
use seiner_engine::{Engine, Error};
use seiner_platform::Clock;
use seiner_platform::sim::{Faults, SimDisk};
use std::sync::Arc;

/// Ways in which the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgramEnd {
    /// The store was closed.
    Closed,
    /// The program was killed. The machine continues.
    Killed,
    /// The power failed.
    PowerCut,
}

impl World {
    /// Ends the program and starts it again.
    pub(super) fn restart(&mut self, how: ProgramEnd) -> Done {
        // After a failed sync, data look written to a restarted program, but are not durable. Only a power cut
        // reveals the difference.
        let how = if self.sync_doubtful && self.plan.fault_kind == FaultKind::Errors {
            ProgramEnd::PowerCut
        } else {
            how
        };
        self.event(format!("restart: {how:?}"));
        self.change_rules();
        if how == ProgramEnd::Closed {
            let result = self.engine().close();
            match result {
                Ok(()) => self.oracle.set_all_durable(),
                Err(error) => return self.failed("close", error),
            }
        }
        self.end(how);
        self.start(how)
    }

    /// Ends the program. The program's file handles become invalid first, so that dropping the program writes nothing.
    fn end(&mut self, how: ProgramEnd) {
        if how == ProgramEnd::PowerCut {
            self.report.crashes += 1;
            self.disk = self.disk.crash();
            self.sync_doubtful = false;
        } else {
            self.report.kills += u64::from(how == ProgramEnd::Killed);
            self.disk = self.disk.restart();
        }
        self.disk.set_faults(Faults::default());
        self.crash_injector.set_target(None);
        if let Some(engine) = self.engine.take() {
            self.note_shed(&engine);
            let status = engine.status();
            self.report.blocks += status.blocks_sealed;
            self.report.forgotten += status.sources_forgotten;
            self.report.reused += status.numbers_reused;
            self.report.recalled += status.sources_recalled;
        }
        self.ids.clear();
        self.positions.clear();
    }

    /// Starts the program and examines the contents. Repeats the start if the power fails during it.
    pub(super) fn start(&mut self, mut how: ProgramEnd) -> Done {
        let mut attempts = 0;
        let found = loop {
            attempts += 1;
            if self.plan.crashes() && attempts < 4 && self.rng.chance(1, 4) {
                match (self.plan.expiring || self.plan.rolls_up) && self.rng.chance(1, 2) {
                    true => self.crash_in_start(),
                    false => self.schedule_crash()?,
                }
            }
            let disk = (self.wrap)(self.disk.clone());
            let disk = self.crash_injector.wrap(disk, &self.disk);
            let error = match Engine::open(
                disk,
                Arc::new(self.clock.clone()),
                self.plan.options.clone(),
            ) {
                Ok(engine) => {
                    self.event(format!("started: {}", engine.recovery()));
                    self.engine = Some(Arc::new(engine));
                    match answers::select(
                        &self.engine(),
                        &self.source_index,
                        &answers::everything(),
                    ) {
                        Ok(found) => break found,
                        Err(CheckError::Wrong(what)) => return self.violation(what),
                        Err(CheckError::Failed(error)) => error,
                    }
                }
                Err(error) => error,
            };
            self.event(format!("start fails: {error}"));
            if self.disk.is_off() {
                // After a power failure, unsynced data are lost permanently.
                how = if how == ProgramEnd::PowerCut {
                    how
                } else {
                    self.end
                };
                self.end(self.end);
            } else if self.plan.fault_kind == FaultKind::Full && attempts < 6 {
                self.disk.set_capacity(None);
                self.end(ProgramEnd::Killed);
            } else {
                return self.violation(format!("start fails: {error}"));
            }
        };
        self.cancel_crash();
        self.adopt(found, how)?;
        // Data found after a kill may not be durable, but a commit claims that they are.
        if how == ProgramEnd::Killed && self.rng.chance(1, 2) {
            self.commit()?;
            return self.check_power_cut();
        }
        Ok(())
    }

    fn adopt(&mut self, found: Samples, how: ProgramEnd) -> Done {
        let status = self.engine().status();
        let set_aside = self.engine().recovery().set_aside.clone();
        let losses = self.engine().losses();
        if !losses.is_empty() {
            return self.violation(format!("losses without damage: {losses:?}"));
        }
        if status.damaged_segments > 0 || !set_aside.is_empty() {
            return self.violation(format!(
                "set aside without damage: {} segments, {set_aside:?}",
                status.damaged_segments
            ));
        }
        self.report.checks += 1;
        let power_failed = how == ProgramEnd::PowerCut;
        if self.plan.rolls_up {
            let found = match rollup::find(&self.engine(), &self.source_index) {
                Ok(found) => found,
                Err(CheckError::Wrong(what)) => return self.violation(what),
                Err(CheckError::Failed(error)) => return self.failed("a read", error),
            };
            let now = self.clock.now();
            let rollups = self.oracle.rollups.as_mut();
            let rollups = rollups.expect("kept for such plans");
            let result = rollups.adopt(&found, how != ProgramEnd::Closed, power_failed, now);
            return result.or_else(|what| self.violation(format!("after {how:?}: {what}")));
        }
        let looked = self.looked();
        if let Some(retention) = &mut self.oracle.retention {
            let now = self.clock.now();
            let result =
                retention.adopt(&found, how != ProgramEnd::Closed, power_failed, looked, now);
            self.oracle.set_live(found);
            return result.or_else(|what| self.violation(format!("after {how:?}: {what}")));
        }
        let result = if self.plan.journals() {
            self.oracle.adopt_prefix(found, power_failed)
        } else {
            self.oracle.adopt_subset(found, power_failed)
        };
        result.or_else(|what| self.violation(format!("after {how:?}: {what}")))
    }

    /// Simulates a power failure on a copy of the disk and examines the copy, so that one run covers many crashes.
    pub(super) fn check_power_cut(&mut self) -> Done {
        self.event("check a power cut on a copy".to_string());
        self.report.crashes += 1;
        self.note_shed(&self.engine());
        let fork = self.disk.fork(self.rng.next_u64()).crash();
        fork.set_faults(Faults::default());
        fork.set_capacity(None);
        if self.plan.rolls_up {
            return self.check_power_cut_with_levels(&fork);
        }
        match self.look(&fork, &self.source_index) {
            Ok((found, looked)) if self.plan.expiring => {
                let mut retention = self.oracle.retention.clone().expect("kept for such plans");
                let result = retention.adopt(&found, true, true, looked, self.clock.now());
                result
                    .or_else(|what| self.violation(format!("after a power cut on a copy: {what}")))
            }
            Ok((found, _)) => {
                let result = if self.plan.journals() {
                    self.oracle.find_prefix(&found).map(|_| ())
                } else {
                    self.oracle.clone().adopt_subset(found, true)
                };
                result
                    .or_else(|what| self.violation(format!("after a power cut on a copy: {what}")))
            }
            Err(CheckError::Wrong(what)) => self.violation(what),
            Err(CheckError::Failed(error)) => {
                self.violation(format!("start after a power cut on a copy fails: {error}"))
            }
        }
    }

    /// Starts a store on a disk. Returns its contents, and whether it accepts its clock.
    fn look(
        &self,
        disk: &SimDisk,
        source_index: &SourceIndex,
    ) -> Result<(Samples, bool), CheckError> {
        let clock = Arc::new(self.clock.clone());
        let engine = Engine::open((self.wrap)(disk.clone()), clock, self.plan.options.clone())?;
        let found = answers::select(&engine, source_index, &answers::everything())?;
        Ok((found, !is_held(&engine)))
    }

    /// Handles an error of the engine: checks that the error was expected, and continues accordingly.
    pub(super) fn failed(&mut self, what: &str, error: Error) -> Done {
        self.event(format!("{what} fails: {error}"));
        if self.disk.is_off() {
            let how = if self.sync_doubtful {
                ProgramEnd::PowerCut
            } else {
                self.end
            };
            self.end(how);
            return self.start(how);
        }
        let expected = matches!(self.plan.fault_kind, FaultKind::Errors | FaultKind::Full)
            && matches!(error, Error::Io { .. } | Error::Poisoned(_));
        if !expected {
            return self.violation(format!("{what} fails: {error}"));
        }
        self.report.errors += 1;
        if self.engine().status().poisoned.is_some() {
            let entries = self.generator.entries(&mut self.rng, 1, None);
            if self
                .engine()
                .append(&crate::names::Lines, &crate::generator::batch(&entries))
                .is_ok()
            {
                return self.violation(format!(
                    "rows are accepted after a failed write ({what}: {error})"
                ));
            }
        }
        if self.rng.chance(1, 2) {
            self.disk.set_capacity(None);
        }
        let how = if self.sync_doubtful || self.rng.chance(1, 3) {
            ProgramEnd::PowerCut
        } else {
            ProgramEnd::Killed
        };
        self.end(how);
        self.start(how)
    }
}
