//! A store that lets go of data: deletes, rules that change, a budget, time that passes.

use super::{Done, Violation, World};
use crate::answers::{self, Amiss};
use crate::cast::Cast;
use crate::history::{History, Rules};
use crate::plan::{Plan, Trouble};
use seiner_engine::{Engine, Error};
use seiner_model::{Interval, Selector};
use seiner_platform::{Clock, Disk};

const SECOND: u64 = 1_000_000_000;

/// What is known of the store of a plan at its beginning.
pub(super) fn history(plan: &Plan, cast: &Cast, now: i64) -> History {
    let holes = !plan.journals();
    History::new(rules(plan, cast), plan.options.block_bytes, now, holes)
}

fn rules(plan: &Plan, cast: &Cast) -> Rules {
    let classes = &plan.options.classes;
    let of = cast.members.iter().map(|member| classes.of(&member.key));
    Rules {
        classes: classes.list().to_vec(),
        of: of.collect(),
        // Without a budget of its own, a store has what the file system has.
        budget: plan.options.disk.is_some() || plan.trouble == Trouble::Full,
    }
}

impl World {
    /// A step of a store that lets go of data.
    pub(super) fn act_forgetful(&mut self) -> Done {
        match self.rng.below(100) {
            0..42 => self.append_batch(),
            42..50 => self.append_columns(),
            50..54 => self.append_samples(),
            54..61 => self.commit(),
            61..72 => self.background(),
            72..74 => self.settle(),
            74..77 => self.check_select(),
            77..79 => self.check_aggregate(),
            79 => self.check_catalog(),
            80..85 => self.pass_a_while(),
            85..87 => self.wait_durable(),
            87..90 => self.delete(),
            90..93 => self.restart(super::How::Closed),
            _ => self.trouble(),
        }?;
        let second = self.rng.below(SECOND);
        self.clock.advance(second);
        self.pass();
        self.check_budget()
    }

    fn pass_a_while(&mut self) -> Done {
        let seconds = *self.rng.pick(&[1, 5, 60, 60, 600, 4000]);
        self.clock.advance(seconds * SECOND);
        self.event(format!("{seconds} s pass"));
        if self.rng.chance(1, 8) {
            let back = self.rng.below(1000 * SECOND) as i64;
            self.event(format!("the clock is set back by {back} ns"));
            self.clock.set_wall(self.clock.now() - back);
        }
        Ok(())
    }

    /// Tells the history what the clock says.
    fn pass(&mut self) {
        let now = self.clock.now();
        if let Some(history) = &mut self.oracle.history {
            history.pass(now);
        }
    }

    /// The promise: at no moment was more taken than the budget.
    fn check_budget(&mut self) -> Done {
        let (used, budget) = (self.disk.most_used(), self.plan.options.disk);
        match budget.filter(|&budget| used > budget) {
            Some(budget) => self.violation(format!("{used} bytes were taken of {budget}")),
            None => Ok(()),
        }
    }

    /// Holds what a store that lets go shows against what it may and must; answers whether it
    /// could be asked. Other stores are held against more later.
    pub(super) fn observe(&mut self) -> Result<bool, Violation> {
        if !self.plan.forgetful {
            return Ok(true);
        }
        self.note_shed(&self.engine());
        let now = self.clock.now();
        let found = match answers::select(&self.engine(), &self.places, &answers::everything()) {
            Ok(found) => found,
            Err(Amiss::Wrong(what)) => return self.violation(what),
            Err(Amiss::Failed(error)) => return self.failed("a read", error).map(|()| false),
        };
        self.report.checks += 1;
        let history = self.oracle.history.as_mut().expect("kept for such plans");
        history.look(now);
        let result = history.observe(&found);
        self.oracle.set_live(found);
        result.or_else(|what| self.violation(what))?;
        Ok(true)
    }

    pub(super) fn note_shed(&mut self, engine: &Engine) {
        if let Some(history) = &mut self.oracle.history {
            history.never_shed &= engine.status().shed_bytes == 0;
        }
    }

    /// Deletes samples of some sources, and some times.
    fn delete(&mut self) -> Done {
        let selector = self.cast.selector(&mut self.rng);
        let now = self.clock.now();
        let mut time = || now - self.rng.below(2000 * SECOND) as i64;
        let (a, b) = (time(), time());
        let interval = match self.rng.below(4) {
            0 => Interval::ALL,
            1 => Interval::new(i64::MIN, a),
            _ => Interval::new(a.min(b), a.max(b)),
        };
        self.event(format!("delete {selector:?} {interval:?}"));
        let meant: Vec<u32> = (0..self.cast.members.len() as u32)
            .filter(|&source| selector.holds(&self.cast.members[source as usize].key))
            .collect();
        let result = self.engine().delete(&selector, interval);
        let history = self.oracle.history.as_mut().expect("kept for such plans");
        history.delete(&meant, interval, result.is_ok());
        self.done("delete", result).map(|_| ())
    }

    /// The next start may bring other rules.
    pub(super) fn change_rules(&mut self) {
        if !self.plan.forgetful || !self.rng.chance(1, 3) {
            return;
        }
        self.plan.redraw(&mut self.rng);
        self.event(format!("from now on {:?}", self.plan.options));
        let rules = rules(&self.plan, &self.cast);
        let history = self.oracle.history.as_mut().expect("kept for such plans");
        self.report.rule_changes += u64::from(history.change_rules(rules));
    }

    /// A store whose budget is used up refuses rows, if that is what its classes say. Then
    /// somebody makes room.
    pub(super) fn refused(&mut self, what: &str, error: Error) -> Done {
        self.event(format!("{what} fails: {error}"));
        self.report.refusals += 1;
        if matches!(self.disk.free(), Ok(Some(_))) {
            // Others fill the disk; then they make room, and the store goes on.
            self.disk.set_capacity(None);
            self.clock.advance(2_000_000_000);
            return Ok(());
        }
        let history = self.oracle.history.as_ref();
        let Some(history) = history.filter(|_| self.plan.options.disk.is_some()) else {
            return self.violation(format!("{what} fails without a budget: {error}"));
        };
        if !history.rules().may_refuse() {
            return self.violation(format!("{what} fails, and all could be shed: {error}"));
        }
        match self.rng.below(3) {
            0 => {
                let result = self.engine().delete(&Selector::all(), Interval::ALL);
                let meant: Vec<u32> = (0..self.cast.members.len() as u32).collect();
                let history = self.oracle.history.as_mut().expect("kept for such plans");
                history.delete(&meant, Interval::ALL, result.is_ok());
                self.event("delete everything".to_string());
                self.done("delete", result).map(|_| ())
            }
            1 => {
                let disk = self.plan.options.disk.as_mut().expect("there is a budget");
                *disk += *disk / 2;
                self.restart(super::How::Closed)
            }
            _ => Ok(()),
        }
    }
}
