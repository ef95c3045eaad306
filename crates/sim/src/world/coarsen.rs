//! Steps of a store with roll-ups: rounds, rules that change, deletes. Aggregates must stay the
//! same, whatever level they are computed from.

use super::{Done, Violation, World};
use crate::answers::{self, Amiss, Places};
use crate::cast::Cast;
use crate::ladder::{Found, Ladder, WINDOW};
use crate::plan::Plan;
use crate::witness::Work;
use seiner_engine::{Engine, Step};
use seiner_platform::Clock;
use seiner_platform::sim::SimDisk;
use std::collections::BTreeMap;
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;

/// Returns the model of a new store under a plan.
pub(super) fn ladder(plan: &Plan, cast: &Cast, now: i64) -> Ladder {
    let rules = super::forget::rules(plan, cast);
    let classes = plan.options.classes.clone();
    Ladder::new(rules, classes, now, !plan.journals())
}

/// Returns the answers of a store: samples, aggregates by window, levels and status.
pub(super) fn find(engine: &Engine, places: &Places) -> Result<Found, Amiss> {
    let all = answers::everything();
    let samples = answers::select(engine, places, &all)?;
    let mut figures = BTreeMap::new();
    for summary in engine.aggregate(&all, Step::Every(WINDOW))? {
        let summary = summary?;
        let series = places.series(&summary.key, &summary.field)?;
        let of = (summary.field_type, summary.buckets);
        if figures.insert(series, of).is_some() {
            return Err(Amiss::Wrong(format!("figures of {series:?} twice")));
        }
    }
    Ok(Found {
        samples,
        figures,
        levels: engine.levels(&all),
        log: engine.log(),
    })
}

impl World {
    /// Carries out one step of a store with roll-ups.
    pub(super) fn act_coarsening(&mut self) -> Done {
        match self.rng.below(100) {
            0..32 => self.append_batch(),
            32..40 => self.append_columns(),
            40..44 => self.append_samples(),
            44..49 => self.commit(),
            49..66 => self.make_coarser(),
            66..70 => self.end_a_round(),
            70..72 => self.settle(),
            72..80 => self.check_everything(),
            80..88 => self.pass_a_while(),
            88..90 => self.delete(),
            90..93 => self.restart(super::How::Closed),
            _ => self.trouble(),
        }?;
        let second = self.rng.below(SECOND);
        self.clock.advance(second);
        self.pass();
        self.check_budget()
    }

    /// Runs background work. If a round ended, all accepted rows are durable: a round ends only
    /// after they are on disk.
    fn make_coarser(&mut self) -> Done {
        let engine = self.engine();
        let before = self.made(&engine);
        self.background()?;
        let goes_on = Arc::ptr_eq(&engine, &self.engine());
        if goes_on && self.plan.journals() && self.made(&engine) != before {
            self.oracle.set_all_durable();
        }
        Ok(())
    }

    /// For each class with a level, returns the end of the times that its next level has, ns.
    fn made(&self, engine: &Engine) -> Vec<i64> {
        let rules = &self.plan.options.classes;
        let classes = (0..).zip(engine.log().classes);
        let coarser = classes.filter(|(number, _)| rules.next_step(*number).is_some());
        coarser.map(|(_, class)| class.hidden_before).collect()
    }

    /// Schedules a crash during a work, most often a roll-up, and lets the store work.
    fn end_a_round(&mut self) -> Done {
        if !self.plan.crashes() {
            return Ok(());
        }
        let work = *self.rng.pick(&[
            Work::Downsample,
            Work::Downsample,
            Work::Downsample,
            Work::Seal,
            Work::Chapter,
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
        let found = match find(&self.engine(), &self.places) {
            Ok(found) => found,
            Err(Amiss::Wrong(what)) => return self.violation(what),
            Err(Amiss::Failed(error)) => return self.failed("a read", error).map(|()| false),
        };
        self.report.checks += 1;
        let ladder = self.oracle.ladder.as_mut().expect("kept for such plans");
        ladder.pass(self.clock.now());
        let result = ladder.observe(&found);
        result.or_else(|what| self.violation(what))?;
        Ok(true)
    }

    /// Opens a copy of the disk as it would be after a power cut, and checks its answers.
    pub(super) fn imagine_levels(&mut self, disk: &SimDisk) -> Done {
        let clock = Arc::new(self.clock.clone());
        let options = self.plan.options.clone();
        let engine = Engine::open((self.wrap)(disk.clone()), clock, options);
        let found = engine
            .map_err(Amiss::from)
            .and_then(|engine| find(&engine, &self.places));
        match found {
            Ok(found) => {
                let mut ladder = self.oracle.ladder.clone().expect("kept for such plans");
                let result = ladder.adopt(&found, true, true, self.clock.now());
                result
                    .or_else(|what| self.violation(format!("after an imagined power cut: {what}")))
            }
            Err(Amiss::Wrong(what)) => self.violation(what),
            Err(Amiss::Failed(error)) => {
                self.violation(format!("start after an imagined power cut fails: {error}"))
            }
        }
    }
}
