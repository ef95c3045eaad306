//! Explorer of the default strategy: trials of other strategies, which correct its estimates.
//!
//! From time to time, the explorer gives one of the plain strategies control for a short while. The strategy that
//! serves requests sooner stays in use.
//!
//! The explorer compares the *cost* of strategies: the time for which requests were outstanding, summed over
//! requests and divided by the number of answered blocks. By Little's law the cost is the mean time of a block. The
//! cost serves two kinds of clients:
//!
//! 1. Clients that send at a fixed rate. The lowest cost means the shortest answer time.
//! 2. Clients that keep the same number of requests outstanding. The lowest cost means the highest rate.
//!
//! Clients of a third kind need time between requests, so their number of outstanding requests varies. If the *time*
//! per answered block of two strategies differs by more than chance explains, the time decides instead of the cost.
//!
//! - Time is divided into *slices* of a number of answers. The strategy in use is measured in every slice. A
//!   *trial* of another strategy consists of a warm-up, whose answers are not counted, and a slice. If the result
//!   of a trial is not clear, the next trial is longer: streams need a while to fill stripes, and only then does
//!   the long-term effect show.
//! - A trial ends early if its cost would be too high even if all outstanding requests were answered now. Holding
//!   writes that never become a whole stripe shows after two or three of the usual answer times.
//! - In the long run, trials may cost 1/200 of the time. Strategies that cannot differ are not tried: no holding
//!   where nothing is sequential, no plain batching where nothing was held.
//! - A strategy that does not look better is tried with decreasing frequency. A strategy that looks better has half
//!   of the time until the difference is clear.
//! - A strategy takes over if its cost is lower by more than chance explains. The previous strategy returns if, in
//!   the long run, the time or the cost of the new one is higher by more than chance explains. Plain batching takes
//!   over if there is no difference, because nothing has to be held then.
//! - If the load changes, the explorer discards all measurements. Of a slice in which clients paused, only the
//!   kinds of requests are compared: the number of outstanding requests depends on how much of a burst lies in the
//!   slice.

use super::adaptive::Adaptive;
use super::cost::{LoadSignature, SliceCounts, StrategyCost};
use super::view::{View, ViewRequest, micros};
use super::{Arrival, Strategy, Verdict, WaitingWrites, WriteTag};
use crate::request::Nanos;
use std::collections::BTreeSet;

/// Parameters of the explorer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExplorerSettings {
    /// Share of the time that trials may cost in the long run.
    pub share: f64,
    /// Maximum credit of time for trials, ns.
    pub credit: f64,
    /// Maximum overdraft of that time, ns, for trials of strategies that were not given up since the load changed.
    pub debt: f64,
    /// First and longest pause of a strategy that was given up, ns. Each pause is twice as long as the previous
    /// pause, or four times as long after a hopeless trial.
    pub pauses: (Nanos, Nanos),
    /// Maximum number of slices of a tried strategy that are compared before it is given up.
    pub most_slices: u32,
}

impl Default for ExplorerSettings {
    fn default() -> ExplorerSettings {
        ExplorerSettings {
            share: 0.005,
            credit: 1_000_000.0,
            debt: 5_000_000.0,
            pauses: (20_000_000, 320_000_000),
            most_slices: 8,
        }
    }
}

/// Number of answers in the warm-up after a change of the strategy, and in a slice: a number per outstanding
/// request, and a constant.
const WARM_UP: (f64, f64) = (1.5, 8.0);
const SLICE: (f64, f64) = (4.0, 64.0);
/// Number of answers in the first warm-up.
const FIRST: u64 = 256;
/// Factor on the best cost above which a trial ends early, and share of the outstanding requests that counts as
/// answered.
const HOPELESS: (f64, f64) = (1.2, 1.0);
/// Values that replace [`HOPELESS`] for the strategy in use.
const STUCK: (f64, f64) = (2.0, 2.0);
/// Differences that are too small to matter, and differences for which one slice is enough.
const SMALL: f64 = 0.01;
const CLEAR: f64 = 0.2;
/// Time without a request after which clients count as paused, ns. Clients need shorter times between requests.
const PAUSE: Nanos = 100_000;

/// Returns the share by which the mean of a tried strategy is below the usual one, and the part of that share that
/// chance explains.
fn advantage(
    usual: &StrategyCost,
    challenger: &StrategyCost,
    of: impl Fn(&StrategyCost) -> (f64, f64),
) -> (f64, f64) {
    let ((mean, all), (tried, some)) = (of(usual), of(challenger));
    let usual_variance = match usual.slices {
        0 | 1 => all,
        slices => all / f64::from(slices),
    };
    let challenger_variance = match challenger.slices {
        0 | 1 => all,
        slices => some / f64::from(slices),
    };
    let noise = 2.0 * (usual_variance + challenger_variance).sqrt() / mean;
    (1.0 - tried / mean, noise)
}

/// Strategy that the explorer can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// Estimates of the default strategy.
    Model,
    /// Merges writes that queue behind a busy stripe, and holds nothing.
    Batch,
    /// Holds every write.
    Always,
}

const CHOICES: [Choice; 3] = [Choice::Model, Choice::Batch, Choice::Always];

/// Default strategy with its explorer.
pub struct Explorer {
    settings: ExplorerSettings,
    model: Adaptive,
    costs: [StrategyCost; 3],
    /// Strategy in use, and strategy that is tried.
    used: Choice,
    tried: Choice,
    outstanding: u32,
    last: Nanos,
    /// Time in which clients did not pause. It is the clock of all measurements, so that idle time does not count.
    busy: Nanos,
    warming_up: bool,
    /// Number of answers until the slice ends.
    left: u64,
    slice: SliceCounts,
    /// Counts since the trial began.
    trial: SliceCounts,
    signature: Option<LoadSignature>,
    /// Strategy that was in use before under the same load, with its costs.
    before: Option<(Choice, StrategyCost)>,
    /// True if some writes of the last slice continued a stream, and if the default strategy held some.
    continues: bool,
    holds: bool,
    /// True if holding was known to pay in the last slice. Batching is not tried then: with short holds, stripes that
    /// batching writes in parts may never become whole again.
    pays: bool,
    credit: f64,
    credited: Nanos,
    /// Mean number of blocks of a request.
    size: f64,
    held: BTreeSet<u64>,
    stirred: Vec<u64>,
}

impl Explorer {
    /// Creates an explorer around the default strategy.
    pub fn new(settings: ExplorerSettings, model: Adaptive) -> Explorer {
        Explorer {
            settings,
            model,
            costs: [StrategyCost::new(settings.pauses.0); 3],
            used: Choice::Model,
            tried: Choice::Model,
            outstanding: 0,
            last: 0,
            busy: 0,
            warming_up: true,
            left: FIRST,
            slice: SliceCounts::default(),
            trial: SliceCounts::default(),
            signature: None,
            before: None,
            continues: false,
            holds: false,
            pays: false,
            credit: settings.credit,
            credited: 0,
            size: 1.0,
            held: BTreeSet::new(),
            stirred: Vec::new(),
        }
    }

    fn cost_of(&mut self, choice: Choice) -> &mut StrategyCost {
        &mut self.costs[choice as usize]
    }

    fn advance(&mut self, now: Nanos) {
        let passed = now.saturating_sub(self.last);
        // Clients that need time of their own between requests are not idle.
        if self.outstanding > 0 || passed <= PAUSE {
            self.busy += passed;
        } else {
            self.slice.paused = true;
        }
        let time = passed as f64 * f64::from(self.outstanding);
        self.slice.outstanding += time;
        self.trial.outstanding += time;
        self.last = now;
    }

    fn answered(&mut self, now: Nanos, blocks: u32, read: bool) {
        self.advance(now);
        self.outstanding -= 1;
        self.size += 0.02 * (f64::from(blocks) - self.size);
        for counts in [&mut self.slice, &mut self.trial] {
            counts.answers += 1;
            counts.reads += u64::from(read);
            counts.blocks += u64::from(blocks);
        }
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.end_slice();
        }
    }

    /// Returns a number of answers: `each` for each outstanding request, and `besides`. The number grows with every
    /// trial of a strategy.
    fn answers(&self, (each, besides): (f64, f64)) -> u64 {
        let trials = match self.tried == self.used {
            true => 0,
            false => self.costs[self.tried as usize].slices,
        };
        let once = each * f64::from(self.outstanding) + besides;
        (once * f64::from(1 + trials)) as u64
    }

    fn begin_slice(&mut self) {
        self.warming_up = false;
        self.slice = SliceCounts::from(self.busy);
        self.left = self.answers(SLICE);
    }

    fn end_slice(&mut self) {
        if self.warming_up {
            if self.tried == self.used && self.costs[self.used as usize].slices > 0 {
                self.charge_trial();
            }
            return self.begin_slice();
        }
        self.add_credit();
        let slice = self.slice;
        let time = slice.time(self.busy);
        self.cost_of(self.tried).add(slice.cost(), time);
        if self.tried != self.used {
            self.charge_trial();
            self.compare();
            return self.switch_to(self.used);
        }
        self.note_load(&slice);
        if self.reverts() {
            return;
        }
        match self.challenger() {
            Some(choice) => self.switch_to(choice),
            None if !self.warming_up => self.begin_slice(),
            None => {}
        }
    }

    /// Adds the earned share of the time to the credit for trials.
    fn add_credit(&mut self) {
        let earned = (self.busy - self.credited) as f64 * self.settings.share;
        self.credit = (self.credit + earned).min(self.settings.credit);
        self.credited = self.busy;
    }

    /// Charges the credit with the time that the trial cost more than the strategy in use would have.
    fn charge_trial(&mut self) {
        let time = (self.busy - self.trial.began) as f64;
        let usual = self.costs[self.used as usize].cost;
        self.credit -= time * (1.0 - usual / self.trial.cost()).max(0.0);
    }

    /// Discards the measurements if the load has changed.
    fn note_load(&mut self, slice: &SliceCounts) {
        let found = slice.signature(self.busy);
        self.continues = found.continued > 0.05;
        self.holds = slice.held * 100 > slice.arrivals;
        self.pays = slice.pays(self.model.partial());
        match &mut self.signature {
            None => self.signature = Some(found),
            Some(known) if !found.differs(known) => known.approach(&found),
            Some(_) => {
                // The measurements may come from both loads.
                self.forget();
                self.signature = Some(found);
                if self.used == Choice::Batch {
                    self.used = Choice::Model;
                    self.switch_to(self.used);
                }
            }
        }
    }

    /// Returns to the previous strategy if the present strategy is worse in the long run by more than chance
    /// explains, although it did well in trials. Returns true if the strategy changed.
    fn reverts(&mut self) -> bool {
        let used = self.costs[self.used as usize];
        let noise = 2.0 * used.recent_variance().sqrt();
        let is_slower = |known: &StrategyCost| {
            let noise = 2.0 * (used.recent_time_variance() + known.mean_time_variance()).sqrt();
            used.recent_time > known.time + noise.max(SMALL * known.time)
        };
        let is_worse = |known: &StrategyCost| {
            is_slower(known)
                || used.recent > known.cost + noise.max(SMALL * known.cost)
                    && used.recent_time > known.time * (1.0 - SMALL)
        };
        match self.before {
            Some((before, known)) if is_worse(&known) => {
                let failed = std::mem::replace(&mut self.used, before);
                self.forget();
                self.cost_of(failed).pause = self.settings.pauses.1 / 4;
                self.dismiss(failed, 4);
                self.switch_to(before);
                true
            }
            _ => false,
        }
    }

    fn forget(&mut self) {
        self.costs = [StrategyCost::new(self.settings.pauses.0); 3];
        self.signature = None;
        self.before = None;
    }

    /// Returns the strategy to try now.
    fn challenger(&self) -> Option<Choice> {
        if self.costs[self.used as usize].slices < 2 {
            return None;
        }
        let affordable = |choice: Choice| {
            let cost = &self.costs[choice as usize];
            self.credit
                > if cost.dismissed {
                    0.0
                } else {
                    -self.settings.debt
                }
        };
        let may_differ = |choice: Choice| match choice {
            Choice::Model => true,
            Choice::Batch => self.used != Choice::Model || (self.holds && !self.pays),
            Choice::Always => self.continues,
        };
        let choices = CHOICES.into_iter().filter(|&choice| {
            choice != self.used
                && may_differ(choice)
                && affordable(choice)
                && self.costs[choice as usize].not_before <= self.busy
        });
        choices.min_by_key(|&choice| self.costs[choice as usize].not_before)
    }

    /// Compares the tried strategy with the strategy in use.
    fn compare(&mut self) {
        let (usual, challenger) = (
            self.costs[self.used as usize],
            self.costs[self.tried as usize],
        );
        let (by_time, chance) =
            advantage(&usual, &challenger, |cost| (cost.time, cost.time_variance));
        let (gain, noise) = match by_time.abs() > chance.max(SMALL) {
            true => (by_time, chance),
            false => advantage(&usual, &challenger, |cost| (cost.cost, cost.variance)),
        };
        let better = gain > noise.max(SMALL) && (challenger.slices > 1 || gain > CLEAR);
        let alike =
            challenger.slices >= self.settings.most_slices && gain.abs() <= noise.max(SMALL);
        // If there is no difference, nothing has to be held.
        if better || (alike && self.tried == Choice::Batch) {
            let replaced = std::mem::replace(&mut self.used, self.tried);
            // Measurements of the third strategy stay valid: they compare it with the replaced strategy, which is
            // no better than the new one.
            self.signature = None;
            *self.cost_of(replaced) = StrategyCost::new(self.settings.pauses.0);
            self.dismiss(replaced, 2);
            self.before = Some((replaced, usual));
        } else if (gain < -noise.max(SMALL / 2.0) && by_time < SMALL)
            || challenger.slices >= self.settings.most_slices
        {
            self.dismiss(self.tried, 2);
        } else {
            // An unclear result keeps the strategy in use for longer, unless trials seem to cost nothing.
            let trial = self.busy - self.trial.began;
            let trials = if gain.max(by_time) > 0.0 {
                1
            } else {
                challenger.slices
            };
            let after = self.busy + trial * Nanos::from(trials);
            self.cost_of(self.tried).not_before = after;
        }
    }

    /// Records that a strategy is no better. Each pause before its next trial is longer than the previous pause.
    fn dismiss(&mut self, choice: Choice, longer: Nanos) {
        let (longest, now) = (self.settings.pauses.1, self.busy);
        let cost = self.cost_of(choice);
        cost.dismissed = true;
        cost.slices = 0;
        cost.not_before = now + cost.pause;
        cost.pause = (longer * cost.pause).min(longest);
    }

    /// Gives control to another strategy, which decides again which writes are held.
    fn switch_to(&mut self, choice: Choice) {
        self.tried = choice;
        self.model.follow(choice == Choice::Model);
        self.warming_up = true;
        self.left = self.answers(WARM_UP);
        self.slice = SliceCounts::from(self.busy);
        self.trial = SliceCounts::from(self.busy);
        self.stirred.extend(std::mem::take(&mut self.held));
    }

    /// Returns the additional outstanding time after which the tried strategy is given up, ns.
    fn patience(&self) -> f64 {
        let usual = self.costs[self.used as usize].cost;
        let ((factor, ahead), counts) = if self.tried == self.used {
            (STUCK, &self.slice)
        } else {
            (HOPELESS, &self.trial)
        };
        if self.costs[self.used as usize].slices == 0 {
            return f64::INFINITY;
        }
        let ahead = ahead * f64::from(self.outstanding) * self.size;
        factor * usual * (counts.blocks as f64 + ahead) - counts.outstanding
    }

    /// Ends a hopeless trial, or gives up a strategy in use that is stuck.
    fn give_up(&mut self) {
        self.add_credit();
        if self.tried == self.used {
            // The load must have changed. The default strategy adapts to the change at once.
            self.used = Choice::Model;
            self.forget();
        } else {
            self.charge_trial();
            self.dismiss(self.tried, 4);
        }
        self.switch_to(self.used);
    }
}

impl Strategy for Explorer {
    fn arrived(&mut self, arrival: &Arrival) -> WriteTag {
        self.advance(arrival.now);
        self.outstanding += 1;
        let tag = self.model.arrived(arrival);
        self.slice.arrivals += 1;
        self.slice.continued += u64::from(self.model.continues(tag));
        tag
    }

    fn judge(&mut self, waiting: &WaitingWrites) -> Verdict {
        self.advance(waiting.now);
        let watched = self.tried != self.used || self.tried == Choice::Always;
        let patience = self.patience();
        if watched && patience <= 0.0 {
            self.give_up();
        }
        let verdict = match self.tried {
            Choice::Model => self.model.judge(waiting),
            Choice::Batch => Verdict::Together,
            Choice::Always
                if waiting.missing == 0
                    || waiting.now >= waiting.deadline
                    || (self.warming_up && self.model.is_complete(waiting.stripe)) =>
            {
                Verdict::Together
            }
            Choice::Always => {
                let patience = (patience / f64::from(self.outstanding.max(1))).max(1000.0);
                Verdict::Hold(
                    waiting
                        .deadline
                        .min(waiting.now.saturating_add(patience as Nanos)),
                )
            }
        };
        if matches!(verdict, Verdict::Hold(_)) {
            self.slice.held += 1;
            self.held.insert(waiting.stripe);
        }
        verdict
    }

    fn started(&mut self, stripe: u64, tag: WriteTag, blocks: u32) {
        self.held.remove(&stripe);
        self.model.started(stripe, tag, blocks);
    }

    fn ended(&mut self, now: Nanos, tag: WriteTag, blocks: u32) {
        self.model.ended(now, tag, blocks);
        self.answered(now, blocks, false);
    }

    fn written(&mut self, now: Nanos, started: Nanos, full: bool) {
        self.slice.stripes += 1;
        self.slice.whole += u64::from(full);
        self.slice.writing += (now - started) as f64;
        self.model.written(now, started, full);
    }

    fn read_began(&mut self, now: Nanos) {
        self.model.read_began(now);
        self.advance(now);
        self.outstanding += 1;
    }

    fn read_ended(&mut self, now: Nanos, blocks: u32) {
        self.model.read_ended(now, blocks);
        self.answered(now, blocks, true);
    }

    fn stirred(&mut self) -> Option<u64> {
        self.stirred.pop().or_else(|| self.model.stirred())
    }

    fn view(&self, request: &ViewRequest) -> View {
        let mut view = self.model.view(request);
        view.why = self.explain();
        let all = match self.used {
            Choice::Model => return view,
            Choice::Batch => "plain batching was measured to be cheaper than any holding",
            Choice::Always => "holding everything was measured to be cheaper",
        };
        for area in &mut view.areas {
            area.holds = self.used == Choice::Always;
            area.why = all.to_string();
        }
        view
    }
}

impl Explorer {
    /// Describes the strategy in use and the measured costs.
    fn explain(&self) -> String {
        let measured = |choice: Choice| {
            let cost = &self.costs[choice as usize];
            match cost.slices {
                0 => format!("{} not tried", choice.name()),
                _ => format!("{} {}", choice.name(), micros(cost.cost)),
            }
        };
        let costs: Vec<String> = CHOICES.into_iter().map(measured).collect();
        let tried = match self.tried == self.used {
            true => String::new(),
            false => format!(", {} is on trial", self.tried.name()),
        };
        format!(
            "{} is in use{tried}; outstanding time per block: {}",
            self.used.name(),
            costs.join(", ")
        )
    }
}

impl Choice {
    fn name(self) -> &'static str {
        match self {
            Choice::Model => "the estimate",
            Choice::Batch => "plain batching",
            Choice::Always => "holding everything",
        }
    }
}
