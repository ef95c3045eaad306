//! Guard of the default strategy: measurements that correct its estimates.
//!
//! From time to time, the guard lets one of the plain strategies decide for a short while. The strategy that serves requests
//! sooner goes on.
//!
//! The guard compares the *cost* of strategies: the time for which requests were outstanding, summed over requests and divided
//! by the number of answered blocks. By Little's law the cost is the mean time of a block. If clients keep the same number of
//! requests outstanding, the cost is least where the rate is highest, so one measure serves both kinds of clients. Clients of a
//! third kind need time of their own between requests, so that their number of outstanding requests varies. Therefore the
//! *time* per answered block decides where strategies differ in it by more than chance explains.
//!
//! - Time is divided into *slices* of a number of answers. The strategy in use is measured in every slice. Another strategy has
//!   a *visit*: the answers to earlier requests, which are not counted, and a slice. If the result of a visit is not clear, the
//!   next visit is longer, because streams need a while to fill stripes, and the effect in the long run shows only then.
//! - A visit ends early if its cost would be too high even if all outstanding requests were answered now. Holding writes that
//!   never become a whole stripe shows after two or three of the usual answer times.
//! - In the long run, visits may cost one two-hundredth of the time. Strategies that cannot differ are not visited: no holding
//!   where nothing is sequential, no plain batching where nothing was held.
//! - A strategy that seems to be no better is visited less often the longer that remains unclear. A strategy that seems to be
//!   better has half of the time until the difference is clear.
//! - A strategy takes over if its cost is lower by more than chance explains. It hands back if, in the long run, its time or its
//!   cost is higher than that of its predecessor by more than chance explains. Plain batching takes over if it makes no
//!   difference, because nothing has to be held then.
//! - If the load changes, the guard forgets everything that it learned. Of a slice in which clients paused, only the kinds of
//!   requests are compared: the number of outstanding requests depends on how much of a burst lies in the slice.

use super::adaptive::Adaptive;
use super::cost::{Record, Signature, Tally};
use super::view::{Question, View, micros};
use super::{Arrival, Look, Mark, Strategy, Verdict};
use crate::request::Nanos;
use std::collections::BTreeSet;

/// Parameters of the guard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuardSettings {
    /// Share of the time that visits may cost in the long run.
    pub share: f64,
    /// Maximum time that visits may save up, ns.
    pub credit: f64,
    /// Maximum overdraft of that time, ns, for visits of strategies that were not given up since the load changed.
    pub debt: f64,
    /// First and longest pause of a strategy that was given up, ns. Each pause is twice the one before, or four times after a
    /// hopeless visit.
    pub pauses: (Nanos, Nanos),
    /// Maximum number of slices of a visited strategy that are compared before it is given up.
    pub most_slices: u32,
}

impl Default for GuardSettings {
    fn default() -> GuardSettings {
        GuardSettings {
            share: 0.005,
            credit: 1_000_000.0,
            debt: 5_000_000.0,
            pauses: (20_000_000, 320_000_000),
            most_slices: 8,
        }
    }
}

/// Answers that are not counted after a change, and answers of a slice: a number per outstanding request, and a constant.
const SETTLING: (f64, f64) = (1.5, 8.0);
const SLICE: (f64, f64) = (4.0, 64.0);
/// Answers that are not counted at the start.
const FIRST: u64 = 256;
/// A visit ends early if its cost exceeds the best by this factor. The second number is the share of the outstanding requests
/// that counts as answered.
const HOPELESS: (f64, f64) = (1.2, 1.0);
/// As [`HOPELESS`], for holding everything while that is in use.
const STUCK: (f64, f64) = (2.0, 2.0);
/// Differences that are too small to matter, and differences for which one slice is enough.
const SMALL: f64 = 0.01;
const CLEAR: f64 = 0.2;
/// Time without a request after which clients count as paused, ns. Clients need shorter times between requests.
const PAUSE: Nanos = 100_000;

/// Returns the share by which the mean of a visited strategy is below the usual one, and the part of it that chance explains.
fn advantage(usual: &Record, visitor: &Record, of: impl Fn(&Record) -> (f64, f64)) -> (f64, f64) {
    let ((mean, all), (visited, some)) = (of(usual), of(visitor));
    let usual_variance = match usual.slices {
        0 | 1 => all,
        slices => all / f64::from(slices),
    };
    let visitor_variance = match visitor.slices {
        0 | 1 => all,
        slices => some / f64::from(slices),
    };
    let noise = 2.0 * (usual_variance + visitor_variance).sqrt() / mean;
    (1.0 - visited / mean, noise)
}

/// Strategy that the guard can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Estimates of the default strategy.
    Model,
    /// Merges writes that queue behind a busy stripe, and holds nothing.
    Batch,
    /// Holds every write.
    Always,
}

const WAYS: [Way; 3] = [Way::Model, Way::Batch, Way::Always];

/// Default strategy with its guard.
pub struct Guard {
    settings: GuardSettings,
    model: Adaptive,
    records: [Record; 3],
    /// Strategy in use, and strategy that is tried.
    used: Way,
    tried: Way,
    outstanding: u32,
    last: Nanos,
    /// Time in which clients did not pause. It is the clock of all measurements, so that idle time does not count.
    busy: Nanos,
    settling: bool,
    /// Number of answers until the slice ends.
    left: u64,
    slice: Tally,
    /// Counts since the visit began.
    visit: Tally,
    signature: Option<Signature>,
    /// Strategy that was in use before under the same load, and its record.
    before: Option<(Way, Record)>,
    /// True if, in the last slice, some writes continued a stream, and if the default held some.
    continues: bool,
    holds: bool,
    /// True if holding was known to pay in the last slice. Batching is not visited then: with short holds, stripes that
    /// batching writes in parts may never become whole again.
    pays: bool,
    credit: f64,
    credited: Nanos,
    /// Mean number of blocks of a request.
    size: f64,
    held: BTreeSet<u64>,
    stirred: Vec<u64>,
}

impl Guard {
    /// Around a model.
    pub fn new(settings: GuardSettings, model: Adaptive) -> Guard {
        Guard {
            settings,
            model,
            records: [Record::new(settings.pauses.0); 3],
            used: Way::Model,
            tried: Way::Model,
            outstanding: 0,
            last: 0,
            busy: 0,
            settling: true,
            left: FIRST,
            slice: Tally::default(),
            visit: Tally::default(),
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

    fn record(&mut self, way: Way) -> &mut Record {
        &mut self.records[way as usize]
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
        self.visit.outstanding += time;
        self.last = now;
    }

    fn answered(&mut self, now: Nanos, blocks: u32, read: bool) {
        self.advance(now);
        self.outstanding -= 1;
        self.size += 0.02 * (f64::from(blocks) - self.size);
        for tally in [&mut self.slice, &mut self.visit] {
            tally.answers += 1;
            tally.reads += u64::from(read);
            tally.blocks += u64::from(blocks);
        }
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.end_slice();
        }
    }

    /// Answers of something for each request outstanding; of a visitor more with every visit.
    fn count(&self, (each, besides): (f64, f64)) -> u64 {
        let visits = match self.tried == self.used {
            true => 0,
            false => self.records[self.tried as usize].slices,
        };
        let once = each * f64::from(self.outstanding) + besides;
        (once * f64::from(1 + visits)) as u64
    }

    fn begin_slice(&mut self) {
        self.settling = false;
        self.slice = Tally::from(self.busy);
        self.left = self.count(SLICE);
    }

    fn end_slice(&mut self) {
        if self.settling {
            if self.tried == self.used && self.records[self.used as usize].slices > 0 {
                self.pay();
            }
            return self.begin_slice();
        }
        self.credit_up_to();
        let slice = self.slice;
        let time = slice.time(self.busy);
        self.record(self.tried).add(slice.cost(), time);
        if self.tried != self.used {
            self.pay();
            self.compare();
            return self.turn_to(self.used);
        }
        self.note_load(&slice);
        if self.goes_back() {
            return;
        }
        match self.visitor() {
            Some(way) => self.turn_to(way),
            None if !self.settling => self.begin_slice(),
            None => {}
        }
    }

    /// Adds to the time that visits may cost.
    fn credit_up_to(&mut self) {
        let earned = (self.busy - self.credited) as f64 * self.settings.share;
        self.credit = (self.credit + earned).min(self.settings.credit);
        self.credited = self.busy;
    }

    /// A visit has ended, or what followed it: what it cost more than the way in use would have.
    fn pay(&mut self) {
        let time = (self.busy - self.visit.began) as f64;
        let usual = self.records[self.used as usize].cost;
        self.credit -= time * (1.0 - usual / self.visit.cost()).max(0.0);
    }

    /// Forgets what was learned if the load is another one.
    fn note_load(&mut self, slice: &Tally) {
        let found = slice.signature(self.busy);
        self.continues = found.continued > 0.05;
        self.holds = slice.held * 100 > slice.arrivals;
        self.pays = slice.pays(self.model.partial());
        match &mut self.signature {
            None => self.signature = Some(found),
            Some(known) if !found.differs(known) => known.approach(&found),
            Some(_) => {
                // What was measured may be of both loads.
                self.forget();
                self.signature = Some(found);
                if self.used == Way::Batch {
                    self.used = Way::Model;
                    self.turn_to(self.used);
                }
            }
        }
    }

    /// Returns to the previous strategy if the present one, which did well in visits, does worse in the long run by more than
    /// chance explains. Returns whether that happened.
    fn goes_back(&mut self) -> bool {
        let used = self.records[self.used as usize];
        let noise = 2.0 * used.recent_variance().sqrt();
        let is_slower = |known: &Record| {
            let noise = 2.0 * (used.recent_time_variance() + known.mean_time_variance()).sqrt();
            used.recent_time > known.time + noise.max(SMALL * known.time)
        };
        let is_worse = |known: &Record| {
            is_slower(known)
                || used.recent > known.cost + noise.max(SMALL * known.cost)
                    && used.recent_time > known.time * (1.0 - SMALL)
        };
        match self.before {
            Some((before, known)) if is_worse(&known) => {
                let failed = std::mem::replace(&mut self.used, before);
                self.forget();
                self.record(failed).pause = self.settings.pauses.1 / 4;
                self.dismiss(failed, 4);
                self.turn_to(before);
                true
            }
            _ => false,
        }
    }

    fn forget(&mut self) {
        self.records = [Record::new(self.settings.pauses.0); 3];
        self.signature = None;
        self.before = None;
    }

    /// Returns the strategy to visit now.
    fn visitor(&self) -> Option<Way> {
        if self.records[self.used as usize].slices < 2 {
            return None;
        }
        let affordable = |way: Way| {
            let record = &self.records[way as usize];
            self.credit
                > if record.dismissed {
                    0.0
                } else {
                    -self.settings.debt
                }
        };
        let may_differ = |way: Way| match way {
            Way::Model => true,
            Way::Batch => self.used != Way::Model || (self.holds && !self.pays),
            Way::Always => self.continues,
        };
        let ways = WAYS.into_iter().filter(|&way| {
            way != self.used
                && may_differ(way)
                && affordable(way)
                && self.records[way as usize].not_before <= self.busy
        });
        ways.min_by_key(|&way| self.records[way as usize].not_before)
    }

    /// Compares a visitor with what is used.
    fn compare(&mut self) {
        let (usual, visitor) = (
            self.records[self.used as usize],
            self.records[self.tried as usize],
        );
        let (by_time, chance) = advantage(&usual, &visitor, |record| {
            (record.time, record.time_variance)
        });
        let (gain, noise) = match by_time.abs() > chance.max(SMALL) {
            true => (by_time, chance),
            false => advantage(&usual, &visitor, |record| (record.cost, record.variance)),
        };
        let better = gain > noise.max(SMALL) && (visitor.slices > 1 || gain > CLEAR);
        let alike = visitor.slices >= self.settings.most_slices && gain.abs() <= noise.max(SMALL);
        // Where there is no difference, nothing need be held.
        if better || (alike && self.tried == Way::Batch) {
            let ousted = std::mem::replace(&mut self.used, self.tried);
            // What is known of the third way holds still: it was compared with one that is no better.
            self.signature = None;
            *self.record(ousted) = Record::new(self.settings.pauses.0);
            self.dismiss(ousted, 2);
            self.before = Some((ousted, usual));
        } else if (gain < -noise.max(SMALL / 2.0) && by_time < SMALL)
            || visitor.slices >= self.settings.most_slices
        {
            self.dismiss(self.tried, 2);
        } else {
            // The less clear it is, the more of the time the way in use has for itself, unless visits seem to cost nothing.
            let visit = self.busy - self.visit.began;
            let visits = if gain.max(by_time) > 0.0 {
                1
            } else {
                visitor.slices
            };
            let after = self.busy + visit * Nanos::from(visits);
            self.record(self.tried).not_before = after;
        }
    }

    /// A way brought nothing; the pause after the next time is longer.
    fn dismiss(&mut self, way: Way, longer: Nanos) {
        let (longest, now) = (self.settings.pauses.1, self.busy);
        let record = self.record(way);
        record.dismissed = true;
        record.slices = 0;
        record.not_before = now + record.pause;
        record.pause = (longer * record.pause).min(longest);
    }

    /// Another way has the array; what is held is judged anew.
    fn turn_to(&mut self, way: Way) {
        self.tried = way;
        self.model.follow(way == Way::Model);
        self.settling = true;
        self.left = self.count(SETTLING);
        self.slice = Tally::from(self.busy);
        self.visit = Tally::from(self.busy);
        self.stirred.extend(std::mem::take(&mut self.held));
    }

    /// Returns the additional outstanding time after which the visited strategy is given up, ns.
    fn patience(&self) -> f64 {
        let usual = self.records[self.used as usize].cost;
        let ((factor, ahead), tally) = if self.tried == self.used {
            (STUCK, &self.slice)
        } else {
            (HOPELESS, &self.visit)
        };
        if self.records[self.used as usize].slices == 0 {
            return f64::INFINITY;
        }
        let ahead = ahead * f64::from(self.outstanding) * self.size;
        factor * usual * (tally.blocks as f64 + ahead) - tally.outstanding
    }

    /// Gives up what is tried, if it is hopeless.
    fn give_up(&mut self) {
        self.credit_up_to();
        if self.tried == self.used {
            // The load must have changed, and the model follows at once.
            self.used = Way::Model;
            self.forget();
        } else {
            self.pay();
            self.dismiss(self.tried, 4);
        }
        self.turn_to(self.used);
    }
}

impl Strategy for Guard {
    fn arrived(&mut self, arrival: &Arrival) -> Mark {
        self.advance(arrival.now);
        self.outstanding += 1;
        let mark = self.model.arrived(arrival);
        self.slice.arrivals += 1;
        self.slice.continued += u64::from(self.model.continues(mark));
        mark
    }

    fn judge(&mut self, look: &Look) -> Verdict {
        self.advance(look.now);
        let watched = self.tried != self.used || self.tried == Way::Always;
        let patience = self.patience();
        if watched && patience <= 0.0 {
            self.give_up();
        }
        let verdict = match self.tried {
            Way::Model => self.model.judge(look),
            Way::Batch => Verdict::Together,
            Way::Always
                if look.missing == 0
                    || look.now >= look.deadline
                    || (self.settling && self.model.is_complete(look.stripe)) =>
            {
                Verdict::Together
            }
            Way::Always => {
                let patience = (patience / f64::from(self.outstanding.max(1))).max(1000.0);
                Verdict::Hold(
                    look.deadline
                        .min(look.now.saturating_add(patience as Nanos)),
                )
            }
        };
        if matches!(verdict, Verdict::Hold(_)) {
            self.slice.held += 1;
            self.held.insert(look.stripe);
        }
        verdict
    }

    fn started(&mut self, stripe: u64, mark: Mark, blocks: u32) {
        self.held.remove(&stripe);
        self.model.started(stripe, mark, blocks);
    }

    fn ended(&mut self, now: Nanos, mark: Mark, blocks: u32) {
        self.model.ended(now, mark, blocks);
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

    fn view(&self, question: &Question) -> View {
        let mut view = self.model.view(question);
        view.why = self.explain();
        let all = match self.used {
            Way::Model => return view,
            Way::Batch => "plain batching was measured to be cheaper than any holding",
            Way::Always => "holding everything was measured to be cheaper",
        };
        for area in &mut view.areas {
            area.holds = self.used == Way::Always;
            area.why = all.to_string();
        }
        view
    }
}

impl Guard {
    /// Describes the strategy in use and the measured costs.
    fn explain(&self) -> String {
        let cost = |way: Way| {
            let record = &self.records[way as usize];
            match record.slices {
                0 => format!("{} not tried", way.name()),
                _ => format!("{} {}", way.name(), micros(record.cost)),
            }
        };
        let costs: Vec<String> = WAYS.into_iter().map(cost).collect();
        let tried = match self.tried == self.used {
            true => String::new(),
            false => format!(", {} is being tried", self.tried.name()),
        };
        format!(
            "{} decides{tried}; outstanding time a block: {}",
            self.used.name(),
            costs.join(", ")
        )
    }
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Model => "the estimate",
            Way::Batch => "plain batching",
            Way::Always => "holding everything",
        }
    }
}
