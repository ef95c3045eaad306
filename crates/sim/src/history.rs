//! What a store that lets go of data may still show, and what it must: all rows, in the order of
//! acceptance, with the deletes and the rules that they were under.
//!
//! Every row bears a number that no other has, so that of what is found it can be told which rows
//! it came from. A source shows its rows from some first one on, less those that were deleted or
//! are too old; which one is first, rings, quotas and shedding decide, within bounds.

use crate::cast::{Entry, NUMBER, VALUE};
use crate::datum::Datum;
use crate::oracle::Samples;
use seiner_engine::{Class, Keep, WhenFull};
use seiner_model::Interval;
use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;

/// The bytes that a row takes in a buffer at least.
const LEAST_ROW: u64 = 2;

/// The rules of a store, and the class of each source of the cast.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) classes: Vec<Class>,
    pub(crate) of: Vec<u8>,
    /// Which classes let go by the clock: the others' rows stay until they are in the next level.
    pub(crate) by_clock: Vec<bool>,
    /// Whether there is a budget, so that classes may be shed.
    pub(crate) budget: bool,
}

impl Rules {
    fn keep(&self, source: usize) -> Keep {
        self.classes[self.of[source] as usize].keep
    }

    /// Whether a source may lose its oldest blocks to others' needs, or to its class's.
    fn is_loose(&self, source: usize) -> bool {
        let class = &self.classes[self.of[source] as usize];
        class.keep.bytes.is_some() || self.budget && class.when_full == WhenFull::Shed
    }

    /// Whether a store may refuse rows: some have a class that is not shed.
    pub(crate) fn may_refuse(&self) -> bool {
        let refuses = |class: &u8| self.classes[*class as usize].when_full == WhenFull::Refuse;
        self.of.iter().any(refuses)
    }

    /// Whether a store would take the others for the same.
    pub(crate) fn is_same(&self, other: &Rules) -> bool {
        let same = |(a, b): (&Class, &Class)| {
            (&a.name, &a.sources, a.keep, &a.coarser) == (&b.name, &b.sources, b.keep, &b.coarser)
        };
        self.classes.len() == other.classes.len()
            && self.classes.iter().zip(&other.classes).all(same)
    }

    /// How far ahead of the clock a store may tell the disk that it is, for it to be believed after a
    /// crash: a 64th of the shortest age, 1 s to 60 s.
    pub(crate) fn promise(&self) -> i64 {
        const SECOND: i64 = 1_000_000_000;
        let classes = self.classes.iter().zip(&self.by_clock);
        let by_clock = classes.filter(|(_, by_clock)| **by_clock);
        let shortest = by_clock.filter_map(|(class, _)| class.keep.age).min();
        shortest.map_or(0, |age| {
            (age.as_nanos() as i64 / 64).clamp(SECOND, 60 * SECOND)
        })
    }
}

/// A row that was accepted.
#[derive(Clone, Debug)]
struct Row {
    /// How many rows were accepted before, of all sources.
    at: u64,
    number: i64,
    time: i64,
    cells: Vec<(u32, Datum)>,
}

/// What hides rows of some times that were accepted before something.
#[derive(Clone, Debug)]
struct Grave {
    before: u64,
    /// What is hidden for certain.
    sure: Interval,
    /// What may be.
    maybe: Interval,
    /// The delete, if it is not known whether it came to pass.
    doubtful: Option<u64>,
}

/// Whether a row is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    Shown,
    Maybe,
    Hidden,
}

/// One source.
#[derive(Clone, Debug, Default)]
struct Past {
    /// Its rows that may still be there.
    rows: Vec<Row>,
    /// How many there were before these.
    gone: u64,
    graves: Vec<Grave>,
    /// Rows that can have been let go of under earlier rules, and those that were.
    may: u64,
    must: u64,
    /// Rows up to here were seen to be gone for good.
    seen: u64,
    /// How many more or fewer rows than the engine we may count.
    doubt: u64,
}

/// What is found of one source.
type Found<'a> = BTreeMap<u32, &'a BTreeMap<i64, Datum>>;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct History {
    rules: Rules,
    /// Rules that the next start brings.
    coming: Option<Rules>,
    sources: Vec<Past>,
    accepted: u64,
    durable: u64,
    /// The most rows of a block.
    block_rows: u64,
    /// The time that the engine has seen at least, and at most.
    now: RangeInclusive<i64>,
    /// The latest time that the clock said.
    latest: i64,
    deletes: u64,
    /// Whether nothing was let go of so far to get room.
    pub(crate) never_shed: bool,
    /// Whether a crash may keep later rows and lose earlier ones.
    holes: bool,
}

impl History {
    pub(crate) fn new(rules: Rules, block_bytes: u32, now: i64, holes: bool) -> History {
        History {
            sources: vec![Past::default(); rules.of.len()],
            rules,
            coming: None,
            accepted: 0,
            durable: 0,
            block_rows: u64::from(block_bytes) / LEAST_ROW,
            now: now..=now,
            latest: now,
            deletes: 0,
            never_shed: true,
            holes,
        }
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.accepted
    }

    pub(crate) fn set_durable(&mut self, accepted: u64) {
        self.durable = self.durable.max(accepted.min(self.accepted));
    }

    /// What the clock says. An engine that has not looked at it meanwhile does not know.
    pub(crate) fn pass(&mut self, now: i64) {
        self.latest = self.latest.max(now);
        self.now = *self.now.start()..=(*self.now.end()).max(now);
    }

    /// What the clock says to an engine that is looking at it.
    pub(crate) fn look(&mut self, now: i64) {
        self.latest = self.latest.max(now);
        self.now = (*self.now.start()).max(now)..=(*self.now.end()).max(now);
    }

    pub(crate) fn accept(&mut self, entry: &Entry) {
        let (_, first) = &entry.cells[0];
        let number = match first {
            Datum::I64(number) => *number,
            other => other.number() as i64,
        };
        self.sources[entry.source as usize].rows.push(Row {
            at: self.accepted,
            number,
            time: entry.time,
            cells: entry.cells.clone(),
        });
        self.accepted += 1;
    }

    /// Whether a row may be refused because it is too old for its class.
    pub(crate) fn may_be_too_old(&self, entry: &Entry) -> bool {
        let age = self.rules.keep(entry.source as usize).age;
        age.is_some_and(|age| entry.time < *self.now.end() - age.as_nanos() as i64)
    }

    /// Rows of sources were deleted; `done`: for certain.
    pub(crate) fn delete(&mut self, sources: &[u32], interval: Interval, done: bool) {
        self.deletes += 1;
        for &source in sources {
            self.sources[source as usize].graves.push(Grave {
                before: self.accepted,
                sure: match done {
                    true => interval,
                    false => NOTHING,
                },
                maybe: interval,
                doubtful: (!done).then_some(self.deletes),
            });
        }
    }

    /// The next start brings rules; answers whether they are others.
    pub(crate) fn change_rules(&mut self, rules: Rules) -> bool {
        let changes = !rules.is_same(&self.rules);
        self.coming = Some(rules);
        changes
    }

    /// Holds what a running store shows against what it should.
    ///
    /// # Errors
    /// What is missing, or should not be there.
    pub(crate) fn observe(&mut self, found: &Samples) -> Result<(), String> {
        let found = by_source(found);
        let mut firsts = Vec::new();
        for source in 0..self.sources.len() {
            let past = &self.sources[source];
            let total = past.rows.len();
            let first = self.first_shown(source, found.get(&source), total)?;
            let first = self.judge(source, first, total as u64 + past.gone)?;
            firsts.push(*first.end());
            self.sources[source].seen = self.sources[source].seen.max(*first.start());
        }
        self.check_order(&firsts)?;
        self.prune();
        Ok(())
    }

    /// Takes what a store shows after a crash for what is true from now on.
    ///
    /// # Errors
    /// What is missing, or should not be there.
    pub(crate) fn adopt(
        &mut self,
        found: &Samples,
        crashed: bool,
        power_failed: bool,
        looked: bool,
        now: i64,
    ) -> Result<(), String> {
        let by_source = by_source(found);
        if self.rules.promise() == 0 {
            // Nobody told the disk how late it was, and nothing was hidden by that.
            self.now = now..=*self.now.end();
        }
        match looked {
            true => self.look(now),
            false => self.pass(now),
        }
        if crashed {
            // What was said to the disk may be ahead of the clock, and is never forgotten.
            let coming = self.coming.as_ref().map_or(0, Rules::promise);
            let end = self.latest + self.rules.promise().max(coming);
            self.now = *self.now.start()..=(*self.now.end()).max(end);
        }
        let coming = self.coming.take().filter(|new| !new.is_same(&self.rules));
        let before = self.rules.clone();
        let changes = coming.is_some();
        if let Some(new) = coming {
            self.bury_aged();
            self.rules = new;
        }
        self.settle_doubts(&by_source, &before)?;
        if crashed && self.holes {
            self.make_holes(&by_source);
        } else if crashed {
            self.cut(&by_source, &before)?;
        }
        self.forget_rings(&before);
        if changes {
            self.freeze(&before);
        }
        if power_failed {
            self.durable = self.accepted;
        }
        self.observe(found)
    }

    // ---- crashes

    /// The rows after the last that survived are lost, of all sources alike.
    fn cut(&mut self, found: &BTreeMap<usize, Found<'_>>, before: &Rules) -> Result<(), String> {
        let last_shown: Vec<Option<u64>> = (0..self.sources.len())
            .map(|source| {
                let found = found.get(&source);
                let rows = self.sources[source].rows.iter();
                rows.rev()
                    .find(|row| is_there(row, found))
                    .map(|row| row.at)
            })
            .collect();
        let shown = last_shown.iter().flatten().map(|at| at + 1).max();
        let least = self.durable.max(shown.unwrap_or(0));
        let mut most = self.accepted;
        for (source, past) in self.sources.iter().enumerate() {
            // Where nothing is shown, rules may have let all go up to here, if all rows were kept.
            let let_go = match last_shown[source] {
                Some(_) => 0,
                None => self.last_let_go(source, before),
            };
            // The next that would be seen if it were there. Earlier ones are there, seen or not.
            let kept = past.rows.partition_point(|row| row.at < least).max(let_go);
            let next = (kept..past.rows.len())
                .find(|&at| self.sight(source, &past.rows[at]) == Sight::Shown);
            most = next.map_or(most, |at| most.min(past.rows[at].at));
        }
        if least > most {
            return Err(format!(
                "rows up to {least} of {} were kept, and some from {most} on were not, {} were durable",
                self.accepted, self.durable
            ));
        }
        for source in 0..self.sources.len() {
            let past = &self.sources[source];
            let kept = past.rows.partition_point(|row| row.at < most);
            let sure = past.rows.partition_point(|row| row.at < least);
            // They are not shown: whether they were lost or let go of, they are gone.
            let is_gone = |at: &usize| self.sight(source, &past.rows[*at]) == Sight::Shown;
            let gone: Vec<usize> = (sure..kept).filter(is_gone).collect();
            let past = &mut self.sources[source];
            gone.into_iter().for_each(|at| past.rows[at].cells.clear());
            past.doubt += (kept - sure) as u64;
            past.rows.truncate(kept);
        }
        Ok(())
    }

    /// Without a journal, blocks survive or do not.
    fn make_holes(&mut self, found: &BTreeMap<usize, Found<'_>>) {
        for (source, past) in self.sources.iter_mut().enumerate() {
            let durable = past.rows.partition_point(|row| row.at < self.durable);
            let shown = past
                .rows
                .iter()
                .rposition(|row| is_there(row, found.get(&source)));
            let kept = durable.max(shown.map_or(0, |at| at + 1));
            past.doubt += (past.rows.len() - kept) as u64;
            past.rows.truncate(kept);
            for row in &mut past.rows[durable.min(kept)..] {
                if !is_there(row, found.get(&source)) {
                    // A row that is lost counts in its ring all the same.
                    row.cells.clear();
                }
            }
        }
    }

    /// A ring begins further back when rows are lost, and knows nothing of rows at its end that
    /// were deleted and are gone.
    fn forget_rings(&mut self, before: &Rules) {
        for source in 0..self.sources.len() {
            let past = &self.sources[source];
            let ring = before.keep(source).rows.or(self.rules.keep(source).rows);
            let hidden = past
                .rows
                .iter()
                .rev()
                .take_while(|row| self.sight(source, row) != Sight::Shown)
                .count();
            let past = &mut self.sources[source];
            past.doubt += hidden as u64;
            if ring.is_some() {
                past.seen = past.gone;
            }
        }
    }

    /// A delete came to pass for all that it meant, or for nothing.
    fn settle_doubts(
        &mut self,
        found: &BTreeMap<usize, Found<'_>>,
        before: &Rules,
    ) -> Result<(), String> {
        let doubts: HashSet<u64> = self
            .sources
            .iter()
            .flat_map(|past| past.graves.iter().filter_map(|grave| grave.doubtful))
            .collect();
        for doubt in doubts {
            let (mut shown, mut hidden) = (0, 0);
            for (source, past) in self.sources.iter().enumerate() {
                let Some(at) = past
                    .graves
                    .iter()
                    .position(|grave| grave.doubtful == Some(doubt))
                else {
                    continue;
                };
                let mut without = past.clone();
                let grave = without.graves.remove(at);
                // Earlier rows may be hidden for other reasons.
                let first = self.last_let_go(source, before);
                for (at, row) in past.rows.iter().enumerate() {
                    let meant = row.at < grave.before && grave.maybe.contains(row.time);
                    if !meant || row.cells.is_empty() {
                        continue;
                    }
                    if is_there(row, found.get(&source)) {
                        shown += 1;
                    } else if at >= first
                        && row.at < self.durable
                        && self.sight_of(&without, source, row) == Sight::Shown
                        && !is_overwritten(past, row)
                    {
                        hidden += 1;
                    }
                }
            }
            if shown > 0 && hidden > 0 {
                return Err(format!(
                    "half a delete: {shown} rows are shown, {hidden} are not"
                ));
            }
            for past in &mut self.sources {
                let of = |grave: &Grave| grave.doubtful == Some(doubt);
                if shown > 0 {
                    past.graves.retain(|grave| !of(grave));
                }
                for grave in past.graves.iter_mut().filter(|grave| of(grave)) {
                    if hidden > 0 {
                        (grave.sure, grave.doubtful) = (grave.maybe, None);
                    }
                }
            }
        }
        Ok(())
    }

    // ---- rules

    /// What was too old under the rules so far stays hidden.
    fn bury_aged(&mut self) {
        for source in 0..self.sources.len() {
            let Some(age) = self.rules.keep(source).age else {
                continue;
            };
            let end = |now: i64| now - age.as_nanos() as i64 - 1;
            self.sources[source].graves.push(Grave {
                before: self.accepted,
                sure: Interval::new(i64::MIN, end(*self.now.start())),
                maybe: Interval::new(i64::MIN, end(*self.now.end())),
                doubtful: None,
            });
        }
    }

    /// What rings let go of under the rules so far stays gone.
    fn freeze(&mut self, rules: &Rules) {
        for source in 0..self.sources.len() {
            let total = self.sources[source].gone + self.sources[source].rows.len() as u64;
            let bounds = self.bounds_by(rules, source, total);
            let past = &mut self.sources[source];
            past.may = match rules.is_loose(source) {
                // What was let go of to get room was seen, or will be.
                true => total,
                false => *bounds.end(),
            };
            past.must = *bounds.start();
        }
    }

    // ---- what is shown

    fn sight(&self, source: usize, row: &Row) -> Sight {
        self.sight_of(&self.sources[source], source, row)
    }

    fn sight_of(&self, past: &Past, source: usize, row: &Row) -> Sight {
        let mut sight = Sight::Shown;
        if row.cells.is_empty() {
            return Sight::Hidden;
        }
        for grave in past.graves.iter().filter(|grave| row.at < grave.before) {
            if grave.sure.contains(row.time) {
                return Sight::Hidden;
            }
            if grave.maybe.contains(row.time) {
                sight = Sight::Maybe;
            }
        }
        if let Some(age) = self.rules.keep(source).age {
            let age = age.as_nanos() as i64;
            if row.time < *self.now.start() - age {
                return Sight::Hidden;
            }
            if row.time < *self.now.end() - age {
                sight = Sight::Maybe;
            }
        }
        sight
    }

    /// The rows, counted from the first ever, one of which is the first that is shown, of `kept`
    /// rows: from it on, exactly what is found is shown.
    fn first_shown(
        &self,
        source: usize,
        found: Option<&Found<'_>>,
        kept: usize,
    ) -> Result<RangeInclusive<u64>, String> {
        let past = &self.sources[source];
        let get = |field: u32, time: i64| found.and_then(|found| found.get(&field)?.get(&time));
        let total: usize = found.map_or(0, |found| found.values().map(|times| times.len()).sum());
        let mut made: HashSet<(u32, i64)> = HashSet::new();
        let (mut low, mut high) = (kept, (total == 0).then_some(kept));
        let mut stop = None;
        'rows: for at in (0..kept).rev() {
            let row = &past.rows[at];
            let sight = self.sight(source, row);
            for (field, datum) in &row.cells {
                let key = (*field, row.time);
                if sight == Sight::Hidden || made.contains(&key) {
                    continue;
                }
                if get(*field, row.time) == Some(datum) {
                    made.insert(key);
                } else if sight == Sight::Shown {
                    stop = Some((at, *field));
                    break 'rows;
                }
            }
            if made.len() == total {
                low = at;
                high.get_or_insert(at);
            }
        }
        match high {
            Some(high) => Ok(low as u64 + past.gone..=high as u64 + past.gone),
            None => {
                let invented = found.into_iter().flatten().find_map(|(field, times)| {
                    let odd = times
                        .keys()
                        .find(|&&time| !made.contains(&(*field, time)))?;
                    Some((*field, *odd, times[odd].clone()))
                });
                let known = invented.as_ref().and_then(|(_, time, _)| {
                    let of_time = |row: &&Row| row.time == *time;
                    let row = past.rows.iter().rev().find(of_time)?;
                    Some((row.at, self.sight(source, row)))
                });
                let missing =
                    stop.map(|(at, field)| (at, field, past.rows[at].time, past.rows[at].at));
                Err(format!(
                    "source {source}: of {total} samples {} are accounted for; of {kept} rows, (row, field, time, \
                     accepted) {missing:?} should be shown and is not; (field, time, datum) {invented:?} is \
                     shown, its row: {known:?}; {} rows before, graves {:?}, now {:?}, {:?}",
                    made.len(),
                    past.gone,
                    past.graves,
                    self.now,
                    self.rules.keep(source)
                ))
            }
        }
    }

    /// Where what a source shows may begin, when it had so many rows.
    fn bounds(&self, source: usize, total: u64) -> RangeInclusive<u64> {
        self.bounds_by(&self.rules, source, total)
    }

    fn bounds_by(&self, rules: &Rules, source: usize, total: u64) -> RangeInclusive<u64> {
        let past = &self.sources[source];
        let (mut least, mut most) = (past.must, past.may);
        if let Some(ring) = rules.keep(source).rows {
            least = least.max((total + 1).saturating_sub(ring + self.block_rows + past.doubt));
            most = most.max((total + past.doubt).saturating_sub(ring));
        }
        if self.sheds(rules, source) {
            most = total;
        }
        // Rows that were seen may be lost since, without a journal.
        let seen = past.seen.min(total);
        least.min(total).max(seen)..=most.max(seen)
    }

    /// How many of a source's rows rules may have let go of, those before a start or those since.
    fn last_let_go(&self, source: usize, before: &Rules) -> usize {
        let past = &self.sources[source];
        let total = past.gone + past.rows.len() as u64;
        let ends = [before, &self.rules].map(|rules| *self.bounds_by(rules, source, total).end());
        ends[0].max(ends[1]).saturating_sub(past.gone) as usize
    }

    /// Whether a source may lose any of its blocks.
    fn sheds(&self, rules: &Rules, source: usize) -> bool {
        let has_quota = rules.keep(source).bytes.is_some();
        has_quota || rules.is_loose(source) && !self.never_shed
    }

    fn judge(
        &self,
        source: usize,
        first: RangeInclusive<u64>,
        total: u64,
    ) -> Result<RangeInclusive<u64>, String> {
        let bounds = self.bounds(source, total);
        let both = *first.start().max(bounds.start())..=*first.end().min(bounds.end());
        if both.is_empty() {
            let past = &self.sources[source];
            let before = first.start().checked_sub(past.gone + 1);
            let before = before.and_then(|at| past.rows.get(at as usize));
            let before = before.map(|row| (row.number, row.at, row.time, self.sight(source, row)));
            return Err(format!(
                "source {source} shows its rows from {first:?} of {total} on; it should be from {bounds:?} on: \
                 (number, accepted, time, sight) {before:?} is not shown; now {:?}, graves {:?}, {:?}, seen {}, doubt {}, may {}, must {}, never shed: {}",
                self.now,
                past.graves,
                self.rules.keep(source),
                past.seen,
                past.doubt,
                past.may,
                past.must,
                self.never_shed
            ));
        }
        Ok(both)
    }

    /// Only the oldest blocks of a class go to get room: a block that is shown was not begun before
    /// one that is gone. `firsts`: the last row of each source that can be the first shown.
    fn check_order(&self, firsts: &[u64]) -> Result<(), String> {
        for class in 0..self.rules.classes.len() {
            let simple = |source: &usize| {
                let keep = self.rules.keep(*source);
                let past = &self.sources[*source];
                self.rules.of[*source] as usize == class
                    && (keep.age, keep.rows, past.may) == (None, None, 0)
            };
            let sources: Vec<usize> = (0..self.sources.len()).filter(simple).collect();
            let begun = |source: usize, row: u64| {
                let past = &self.sources[source];
                Some(past.rows.get(row.checked_sub(past.gone)? as usize)?.at)
            };
            let seen = |source: usize| {
                let gone = self.sources[source].seen.checked_sub(self.block_rows)?;
                Some((begun(source, gone)?, source))
            };
            let Some((gone, of)) = sources.iter().filter_map(|&one| seen(one)).max() else {
                continue;
            };
            let early = sources
                .iter()
                .find(|&&one| begun(one, firsts[one]).is_some_and(|at| at < gone));
            if let Some(&source) = early {
                return Err(format!(
                    "source {source} shows a row accepted before row {gone} of source {of}, which is gone"
                ));
            }
        }
        Ok(())
    }

    /// Rows that no crash brings back need not be known.
    fn prune(&mut self) {
        for source in 0..self.sources.len() {
            let keep = self.rules.keep(source);
            let past = &self.sources[source];
            let durable = past.rows.partition_point(|row| row.at < self.durable) as u64;
            let total = past.gone + durable;
            let sure = match keep.rows {
                Some(ring) => total.saturating_sub(ring + 2 * self.block_rows + 2 * past.doubt),
                None => past.seen.saturating_sub(2 * self.block_rows).min(total),
            };
            let sure = sure.saturating_sub(past.gone) as usize;
            let past = &mut self.sources[source];
            past.rows.drain(..sure);
            past.gone += sure as u64;
            past.seen = past.seen.max(past.gone);
        }
    }
}

const NOTHING: Interval = Interval { start: 1, end: 0 };

fn by_source(found: &Samples) -> BTreeMap<usize, Found<'_>> {
    let mut sources: BTreeMap<usize, Found<'_>> = BTreeMap::new();
    for ((source, field), samples) in found {
        let of: &mut Found<'_> = sources.entry(*source as usize).or_default();
        of.insert(*field, samples);
    }
    sources
}

/// Whether a row's number is found.
fn is_there(row: &Row, found: Option<&Found<'_>>) -> bool {
    let Some(found) = found else {
        return false;
    };
    [NUMBER, VALUE].iter().any(|field| {
        let datum = found.get(field).and_then(|times| times.get(&row.time));
        datum.is_some_and(|datum| match datum {
            Datum::I64(number) => *number == row.number,
            other => other.number() as i64 == row.number,
        })
    })
}

fn is_overwritten(past: &Past, row: &Row) -> bool {
    let later = past.rows.iter().rev();
    let mut later = later.take_while(|other| other.at > row.at);
    later.any(|other| other.time == row.time)
}
