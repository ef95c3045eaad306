//! Model of a store with retention: the rows that it must return, and the rows that it may return.
//!
//! The model keeps all rows in the order of acceptance, with the deletes and the rules that applied
//! to them. Every row has a number that no other row has, so an answer identifies its rows. A
//! source returns its rows from a first row on, except for rows that were deleted or are too old.
//! Rings, quotas and shedding determine the first row. The model computes bounds for that row.

use crate::datum::Datum;
use crate::generator::Entry;
use crate::rules::Rules;
use crate::samples::Samples;
use crate::source_history::{
    HiddenInterval, NOTHING, NumberedRow, SamplesByField, SourceHistory, Visibility, by_source,
    is_there,
};
use seiner_model::Interval;
use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;

/// Minimum size of a row in a buffer, bytes.
const LEAST_ROW: u64 = 2;

/// Model of a store with retention: rules, rows, and the number of durable rows.
#[derive(Clone, Debug)]
pub(crate) struct RetentionModel {
    rules: Rules,
    /// Rules that apply from the next start on.
    coming: Option<Rules>,
    sources: Vec<SourceHistory>,
    accepted: u64,
    durable: u64,
    /// Maximum number of rows in a block.
    block_rows: u64,
    /// Earliest and latest time that the engine may use as the present time, ns.
    now: RangeInclusive<i64>,
    /// Latest time of the wall clock, ns.
    latest: i64,
    deletes: u64,
    /// True if nothing was shed so far.
    pub(crate) never_shed: bool,
    /// True if a crash may lose earlier rows and keep later ones, as without a journal.
    holes: bool,
}

impl RetentionModel {
    pub(crate) fn new(rules: Rules, block_bytes: u32, now: i64, holes: bool) -> RetentionModel {
        RetentionModel {
            sources: vec![SourceHistory::default(); rules.of.len()],
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

    /// Records the time of the wall clock. The engine may not have read the clock since then.
    pub(crate) fn pass(&mut self, now: i64) {
        self.latest = self.latest.max(now);
        self.now = *self.now.start()..=(*self.now.end()).max(now);
    }

    /// Records a time of the wall clock that the engine has read.
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
        self.sources[entry.source as usize].rows.push(NumberedRow {
            at: self.accepted,
            number,
            time: entry.time,
            cells: entry.cells.clone(),
        });
        self.accepted += 1;
    }

    /// Returns true if a row may be rejected as too old for its class.
    pub(crate) fn may_be_too_old(&self, entry: &Entry) -> bool {
        let age = self.age(entry.source as usize);
        age.is_some_and(|age| entry.time < *self.now.end() - age)
    }

    /// Records a delete. `done` is true if the delete certainly succeeded; otherwise its outcome is unknown.
    pub(crate) fn delete(&mut self, sources: &[u32], interval: Interval, done: bool) {
        self.deletes += 1;
        for &source in sources {
            self.sources[source as usize].hidden.push(HiddenInterval {
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

    /// Sets the rules of the next start. Returns true if they differ from the present ones.
    pub(crate) fn change_rules(&mut self, rules: Rules) -> bool {
        let changes = !rules.is_same(&self.rules);
        self.coming = Some(rules);
        changes
    }

    /// Checks the answer of a running store.
    ///
    /// # Errors
    /// A description of samples that are missing or must not exist.
    pub(crate) fn observe(&mut self, found: &Samples) -> Result<(), String> {
        let found = by_source(found);
        let mut firsts = Vec::new();
        for source in 0..self.sources.len() {
            let history = &self.sources[source];
            let total = history.rows.len();
            let first = self.first_shown(source, found.get(&source), total)?;
            let first = self.judge(source, first, total as u64 + history.gone)?;
            firsts.push(*first.end());
            self.sources[source].seen = self.sources[source].seen.max(*first.start());
        }
        self.check_order(&firsts)?;
        self.prune();
        Ok(())
    }

    /// Checks the answer of a store after a start, and adopts it as the current state.
    ///
    /// # Errors
    /// A description of samples that are missing or must not exist.
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
            // No class has an age, so the disk has no persisted clock. A start that distrusts the wall
            // clock may use any earlier time.
            let least = if looked { now } else { 0 };
            self.now = least..=*self.now.end();
        }
        match looked {
            true => self.look(now),
            false => self.pass(now),
        }
        if crashed {
            // The persisted clock may be ahead of the wall clock, and a start never uses an earlier time.
            let coming = self.coming.as_ref().map_or(0, Rules::promise);
            let end = self.latest + self.rules.promise().max(coming);
            self.now = *self.now.start()..=(*self.now.end()).max(end);
        }
        let coming = self.coming.take().filter(|new| !new.is_same(&self.rules));
        let before = self.rules.clone();
        let changes = coming.is_some();
        if let Some(new) = coming {
            self.hide_expired();
            self.rules = new;
        }
        self.resolve_deletes(&by_source, &before)?;
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

    /// Applies a crash of a store with a journal: a prefix of the accepted rows survives, over all
    /// sources.
    fn cut(
        &mut self,
        found: &BTreeMap<usize, SamplesByField<'_>>,
        before: &Rules,
    ) -> Result<(), String> {
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
        for (source, history) in self.sources.iter().enumerate() {
            // If a source returns nothing, retention may have expired all its rows up to
            // `first_unexpired`.
            let unexpired = match last_shown[source] {
                Some(_) => 0,
                None => self.first_unexpired(source, before),
            };
            // The first row that would be shown if it had survived bounds the prefix. Rows before
            // `kept` survived, or retention may have expired them.
            let kept = history
                .rows
                .partition_point(|row| row.at < least)
                .max(unexpired);
            let next = (kept..history.rows.len())
                .find(|&at| self.visibility(source, &history.rows[at]) == Visibility::Shown);
            most = next.map_or(most, |at| most.min(history.rows[at].at));
        }
        if least > most {
            return Err(format!(
                "rows up to {least} of {} were kept, and some from {most} on were not, {} were durable",
                self.accepted, self.durable
            ));
        }
        for source in 0..self.sources.len() {
            let history = &self.sources[source];
            let kept = history.rows.partition_point(|row| row.at < most);
            let sure = history.rows.partition_point(|row| row.at < least);
            // Rows that should be shown but are missing were lost or have expired. In both cases they
            // are gone.
            let is_gone =
                |at: &usize| self.visibility(source, &history.rows[*at]) == Visibility::Shown;
            let gone: Vec<usize> = (sure..kept).filter(is_gone).collect();
            let history = &mut self.sources[source];
            gone.into_iter()
                .for_each(|at| history.rows[at].cells.clear());
            history.doubt += (kept - sure) as u64;
            history.truncate(kept);
        }
        Ok(())
    }

    /// Applies a crash of a store without a journal: each block survives or is lost.
    fn make_holes(&mut self, found: &BTreeMap<usize, SamplesByField<'_>>) {
        for (source, history) in self.sources.iter_mut().enumerate() {
            let durable = history.rows.partition_point(|row| row.at < self.durable);
            let shown = history
                .rows
                .iter()
                .rposition(|row| is_there(row, found.get(&source)));
            let kept = durable.max(shown.map_or(0, |at| at + 1));
            history.doubt += (history.rows.len() - kept) as u64;
            history.truncate(kept);
            for row in &mut history.rows[durable.min(kept)..] {
                if !is_there(row, found.get(&source)) {
                    // A lost row still counts in its ring.
                    row.cells.clear();
                }
            }
        }
    }

    /// Widens the bounds of rings after a start. Lost rows move the start of a ring back, and deleted
    /// rows at the end of the ring may no longer count.
    fn forget_rings(&mut self, before: &Rules) {
        for source in 0..self.sources.len() {
            let history = &self.sources[source];
            let ring = before.keep(source).rows.or(self.rules.keep(source).rows);
            let hidden = history
                .rows
                .iter()
                .rev()
                .take_while(|row| self.visibility(source, row) != Visibility::Shown)
                .count();
            let history = &mut self.sources[source];
            history.doubt += hidden as u64;
            if ring.is_some() {
                history.seen = history.gone;
            }
        }
    }

    /// Decides each delete of unknown outcome. Such a delete must have hidden all of its rows or none.
    ///
    /// # Errors
    /// Some rows of a delete are shown and others are not.
    fn resolve_deletes(
        &mut self,
        found: &BTreeMap<usize, SamplesByField<'_>>,
        before: &Rules,
    ) -> Result<(), String> {
        let doubts: HashSet<u64> = self
            .sources
            .iter()
            .flat_map(SourceHistory::doubtful_deletes)
            .collect();
        for doubt in doubts {
            let (mut shown, mut hidden) = (0, 0);
            for (source, history) in self.sources.iter().enumerate() {
                let Some(at) = history
                    .hidden
                    .iter()
                    .position(|interval| interval.doubtful == Some(doubt))
                else {
                    continue;
                };
                let mut without = history.clone();
                let interval = without.hidden.remove(at);
                // Earlier rows may be hidden for other reasons.
                let first = self.first_unexpired(source, before);
                for (at, row) in history.rows.iter().enumerate() {
                    let meant = row.at < interval.before && interval.maybe.contains(row.time);
                    if !meant || row.cells.is_empty() {
                        continue;
                    }
                    if is_there(row, found.get(&source)) {
                        shown += 1;
                    } else if at >= first
                        && row.at < self.durable
                        && without.visibility(row, self.age(source), &self.now) == Visibility::Shown
                        && !history.is_overwritten(row)
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
            if shown + hidden > 0 {
                let sources = self.sources.iter_mut();
                sources.for_each(|history| history.resolve_delete(doubt, hidden > 0));
            }
        }
        Ok(())
    }

    // ---- rules

    /// Adds hidden intervals for rows that are too old under the present rules, because these rows stay
    /// hidden under later rules.
    fn hide_expired(&mut self) {
        for source in 0..self.sources.len() {
            let Some(age) = self.age(source) else {
                continue;
            };
            let end = |now: i64| now - age - 1;
            self.sources[source].hidden.push(HiddenInterval {
                before: self.accepted,
                sure: Interval::new(i64::MIN, end(*self.now.start())),
                maybe: Interval::new(i64::MIN, end(*self.now.end())),
                doubtful: None,
            });
        }
    }

    /// Stores the bounds under the present rules, because rows that expired from rings stay expired
    /// under later rules.
    fn freeze(&mut self, rules: &Rules) {
        for source in 0..self.sources.len() {
            let total = self.sources[source].gone + self.sources[source].rows.len() as u64;
            let bounds = self.bounds_by(rules, source, total);
            let history = &mut self.sources[source];
            history.may = match rules.is_loose(source) {
                // Quotas and shedding may have expired any row; observations tighten the bound.
                true => total,
                false => *bounds.end(),
            };
            history.must = *bounds.start();
        }
    }

    // ---- visible rows

    /// Returns the age in ns at which the rows of a source expire.
    fn age(&self, source: usize) -> Option<i64> {
        let age = self.rules.keep(source).age;
        age.map(|age| age.as_nanos() as i64)
    }

    fn visibility(&self, source: usize, row: &NumberedRow) -> Visibility {
        self.sources[source].visibility(row, self.age(source), &self.now)
    }

    /// Returns the range that contains the first shown row of a source, counted from the first row that the source
    /// ever had. The shown rows from there on are exactly `found`. `kept` is the number of rows to consider.
    ///
    /// # Errors
    /// A description of the mismatch, if there is no such row.
    fn first_shown(
        &self,
        source: usize,
        found: Option<&SamplesByField<'_>>,
        kept: usize,
    ) -> Result<RangeInclusive<u64>, String> {
        let history = &self.sources[source];
        let get = |field: u32, time: i64| found.and_then(|found| found.get(&field)?.get(&time));
        let total: usize = found.map_or(0, |found| found.values().map(|times| times.len()).sum());
        let mut made: HashSet<(u32, i64)> = HashSet::new();
        let (mut low, mut high) = (kept, (total == 0).then_some(kept));
        let mut stop = None;
        'rows: for at in (0..kept).rev() {
            let row = &history.rows[at];
            let visibility = self.visibility(source, row);
            for (field, datum) in &row.cells {
                let key = (*field, row.time);
                if visibility == Visibility::Hidden || made.contains(&key) {
                    continue;
                }
                if get(*field, row.time) == Some(datum) {
                    made.insert(key);
                } else if visibility == Visibility::Shown {
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
            Some(high) => Ok(low as u64 + history.gone..=high as u64 + history.gone),
            None => {
                let invented = found.into_iter().flatten().find_map(|(field, times)| {
                    let odd = times
                        .keys()
                        .find(|&&time| !made.contains(&(*field, time)))?;
                    Some((*field, *odd, times[odd].clone()))
                });
                let known = invented.as_ref().and_then(|(_, time, _)| {
                    let of_time = |row: &&NumberedRow| row.time == *time;
                    let row = history.rows.iter().rev().find(of_time)?;
                    Some((row.at, self.visibility(source, row)))
                });
                let missing =
                    stop.map(|(at, field)| (at, field, history.rows[at].time, history.rows[at].at));
                Err(format!(
                    "source {source}: of {total} samples {} are accounted for; of {kept} rows, (row, field, time, \
                     accepted) {missing:?} should be shown and is not; (field, time, datum) {invented:?} is \
                     shown, its row: {known:?}; {} rows before, hidden {:?}, now {:?}, {:?}",
                    made.len(),
                    history.gone,
                    history.hidden,
                    self.now,
                    self.rules.keep(source)
                ))
            }
        }
    }

    /// Returns the range in which the first shown row of a source with `total` rows must lie.
    fn bounds(&self, source: usize, total: u64) -> RangeInclusive<u64> {
        self.bounds_by(&self.rules, source, total)
    }

    fn bounds_by(&self, rules: &Rules, source: usize, total: u64) -> RangeInclusive<u64> {
        let history = &self.sources[source];
        let (mut least, mut most) = (history.must, history.may);
        if let Some(ring) = rules.keep(source).rows {
            least = least.max((total + 1).saturating_sub(ring + self.block_rows + history.doubt));
            most = most.max((total + history.doubt).saturating_sub(ring));
        }
        if self.sheds(rules, source) {
            most = total;
        }
        least.min(total).max(history.seen)..=most.max(history.seen)
    }

    /// Returns the upper bound of the rows of a source that may have expired, under the rules before
    /// or after the start.
    fn first_unexpired(&self, source: usize, before: &Rules) -> usize {
        let history = &self.sources[source];
        let total = history.gone + history.rows.len() as u64;
        let ends = [before, &self.rules].map(|rules| *self.bounds_by(rules, source, total).end());
        ends[0].max(ends[1]).saturating_sub(history.gone) as usize
    }

    /// Returns true if a source may have lost any of its blocks to a quota or to shedding.
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
            let history = &self.sources[source];
            let before = first.start().checked_sub(history.gone + 1);
            let before = before.and_then(|at| history.rows.get(at as usize));
            let before =
                before.map(|row| (row.number, row.at, row.time, self.visibility(source, row)));
            return Err(format!(
                "source {source} shows its rows from {first:?} of {total} on; it should be from {bounds:?} on: \
                 (number, accepted, time, visibility) {before:?} is not shown; now {:?}, hidden {:?}, {:?}, seen {}, doubt {}, may {}, must {}, never shed: {}",
                self.now,
                history.hidden,
                self.rules.keep(source),
                history.seen,
                history.doubt,
                history.may,
                history.must,
                self.never_shed
            ));
        }
        Ok(both)
    }

    /// Checks that only the oldest blocks of a class were shed: every shown block was begun after every
    /// shed block. `firsts` has, for each source, the last row that can be the first shown row.
    fn check_order(&self, firsts: &[u64]) -> Result<(), String> {
        for class in 0..self.rules.classes.len() {
            let simple = |source: &usize| {
                let keep = self.rules.keep(*source);
                let history = &self.sources[*source];
                self.rules.of[*source] as usize == class
                    && (keep.age, keep.rows, history.may) == (None, None, 0)
            };
            let sources: Vec<usize> = (0..self.sources.len()).filter(simple).collect();
            let begun = |source: usize, row: u64| {
                let history = &self.sources[source];
                Some(
                    history
                        .rows
                        .get(row.checked_sub(history.gone)? as usize)?
                        .at,
                )
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

    /// Drops expired rows that no crash can restore.
    fn prune(&mut self) {
        for source in 0..self.sources.len() {
            let keep = self.rules.keep(source);
            let history = &self.sources[source];
            let durable = history.rows.partition_point(|row| row.at < self.durable) as u64;
            let total = history.gone + durable;
            let sure = match keep.rows {
                Some(ring) => total.saturating_sub(ring + 2 * self.block_rows + 2 * history.doubt),
                None => history.seen.saturating_sub(2 * self.block_rows).min(total),
            };
            let sure = sure.saturating_sub(history.gone) as usize;
            let history = &mut self.sources[source];
            history.rows.drain(..sure);
            history.gone += sure as u64;
            history.seen = history.seen.max(history.gone);
        }
    }
}
