//! Model of a store with roll-ups: the aggregates of all samples, and young samples themselves.
//!
//! All steps divide [`WINDOW`], and aggregates are compared window by window. So the result is the
//! same if a window contains samples, rows of one level, or rows of several levels. A sample is
//! uncertain if it was too old on arrival, belongs to a failed delete, or was not durable in a
//! crash. The aggregates of a window with uncertain samples are compared with bounds.

use crate::change::{AcceptedRow, Cell, Cells, Change, is_there};
use crate::datum::Datum;
use crate::generator::Entry;
use crate::rules::Rules;
use crate::samples::{Samples, Series, each};
use seiner_engine::{Bucket, Classes, LevelSpan, LogStatus};
use seiner_model::{FieldType, Interval};
use std::collections::BTreeMap;
use std::time::Duration;

/// A multiple of every step of every level, ns.
pub(crate) const WINDOW: i64 = 120_000_000_000;

/// Answers of a store.
pub(crate) struct StoreAnswers {
    pub(crate) samples: Samples,
    /// Aggregates by window.
    pub(crate) figures: BTreeMap<Series, (FieldType, Vec<Bucket>)>,
    pub(crate) levels: Vec<LevelSpan>,
    pub(crate) log: LogStatus,
}

impl StoreAnswers {
    /// Returns the first 8 samples shown in a window.
    fn rows(&self, series: Series, window: i64) -> Vec<(i64, Datum)> {
        let samples = self.samples.get(&series).into_iter();
        let shown = samples.flat_map(|samples| samples.range(window..window + WINDOW));
        shown
            .take(8)
            .map(|(&time, datum)| (time, datum.clone()))
            .collect()
    }
}

/// Model of a store with roll-ups: rules, samples, and the durable part of them.
#[derive(Clone, Debug)]
pub(crate) struct RollupModel {
    rules: Rules,
    classes: Classes,
    coming: Option<(Rules, Classes)>,
    /// Samples that must exist after a power cut.
    durable: Cells,
    /// Changes since `durable`, in order.
    changes: Vec<Change>,
    /// Current samples: `durable` with all changes applied.
    live: Cells,
    accepted: u64,
    /// Number of rows before the first of `changes`.
    before_changes: u64,
    /// Latest time that the engine may use as the present time, ns. `latest` is the latest time of
    /// the wall clock, ns.
    now: i64,
    latest: i64,
    /// Exclusive end of the times for which levels of earlier rules may exist, by source, ns.
    older: Vec<i64>,
    /// `hidden_before` of the last observation, by class, ns.
    hidden: Vec<i64>,
    /// True if a crash may lose earlier rows and keep later ones, as without a journal.
    holes: bool,
}

impl RollupModel {
    pub(crate) fn new(rules: Rules, classes: Classes, now: i64, holes: bool) -> RollupModel {
        RollupModel {
            older: vec![i64::MIN; rules.of.len()],
            hidden: vec![i64::MIN; rules.classes.len()],
            rules,
            classes,
            coming: None,
            durable: Cells::new(),
            changes: Vec::new(),
            live: Cells::new(),
            accepted: 0,
            before_changes: 0,
            now,
            latest: now,
            holes,
        }
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Records the time of the wall clock.
    pub(crate) fn pass(&mut self, now: i64) {
        self.latest = self.latest.max(now);
        self.now = self.now.max(now);
    }

    /// Sets the rules of the next start. Returns true if they differ from the present ones.
    pub(crate) fn change_rules(&mut self, rules: Rules, classes: Classes) -> bool {
        let changes = !rules.is_same(&self.rules);
        self.coming = Some((rules, classes));
        changes
    }

    // ---- changes

    pub(crate) fn may_be_too_old(&self, entry: &Entry) -> bool {
        let age = self.age_of(entry.source);
        // Times that earlier rules have rolled up accept no samples.
        entry.time < self.older[entry.source as usize]
            || age.is_some_and(|age| entry.time < self.now - age)
    }

    pub(crate) fn accept(&mut self, entry: &Entry) {
        self.happen(Change::Row(AcceptedRow {
            source: entry.source,
            time: entry.time,
            cells: entry.cells.clone(),
            late: self.may_be_too_old(entry),
        }));
        self.accepted += 1;
    }

    /// Records a delete. `done` is true if the delete certainly succeeded; otherwise its outcome is unknown.
    pub(crate) fn delete(&mut self, sources: &[u32], interval: Interval, done: bool) {
        if interval.is_empty() {
            return;
        }
        for &source in sources {
            self.happen(match done {
                true => Change::Gone(source, interval),
                false => Change::Doubt(source, interval),
            });
            // In rolled-up times a delete removes whole steps.
            let coarse = self.coarse_before(source).saturating_sub(1);
            let Interval { start, end } = interval;
            let before = Interval::new(start.saturating_sub(WINDOW), start.saturating_sub(1));
            let behind = Interval::new(end.saturating_add(1), end.saturating_add(WINDOW));
            for Interval { start, end } in [before, behind] {
                let part = Interval::new(start, end.min(coarse));
                if !part.is_empty() {
                    self.happen(Change::Doubt(source, part));
                }
            }
        }
    }

    fn happen(&mut self, change: Change) {
        change.apply(&mut self.live);
        self.changes.push(change);
    }

    /// Records that the first `accepted` rows survive a power cut.
    pub(crate) fn set_durable(&mut self, accepted: u64) {
        let mut rows = accepted.saturating_sub(self.before_changes);
        let mut done = 0;
        for change in &self.changes {
            if matches!(change, Change::Row(_)) {
                if rows == 0 {
                    break;
                }
                rows -= 1;
                self.before_changes += 1;
            }
            change.apply(&mut self.durable);
            done += 1;
        }
        self.changes.drain(..done);
    }

    // ---- limits of times

    fn age_of(&self, source: u32) -> Option<i64> {
        let class = &self.rules.classes[self.rules.of[source as usize] as usize];
        class.keep.age.map(nanos)
    }

    /// Returns the numbers of a source's class and of its levels.
    fn chain(&self, source: u32) -> Vec<u8> {
        let class = self.rules.of[source as usize];
        let levels = self.classes.levels_of(class);
        let levels = levels.into_iter().map(|(number, _)| number);
        std::iter::once(class).chain(levels).collect()
    }

    /// Returns the exclusive end of the times for which a source may have levels, ns.
    fn coarse_before(&self, source: u32) -> i64 {
        let class = self.rules.of[source as usize];
        let older = self.older[source as usize];
        match self.classes.next_step(class) {
            // A pass may have ended since the last observation.
            Some(_) => older.max(self.now - self.age_of(source).unwrap_or(0)),
            None => older,
        }
    }

    /// Returns the age at which the last level of a source expires, ns; `None` if it is kept for
    /// ever.
    fn kept(&self, source: u32) -> Option<i64> {
        let last = *self.chain(source).last().expect("a source has a class");
        self.rules.classes[last as usize].keep.age.map(nanos)
    }

    /// Returns true if a sample has certainly not expired by age.
    fn is_spared(&self, source: u32, time: i64) -> bool {
        let kept = self.kept(source);
        kept.is_none_or(|kept| time - WINDOW >= self.now - kept)
    }

    /// Returns the exclusive end of the times of a source that have expired by age in all levels, in
    /// ns.
    fn gone_before(&self, source: u32) -> i64 {
        let hidden = self.chain(source).into_iter();
        let hidden = hidden.map(|class| self.hidden[class as usize]).min();
        hidden.expect("a source has a class")
    }

    // ---- crashes

    /// Checks the answers of a store after a start, and adopts them as the current state.
    ///
    /// # Errors
    /// A description of samples or aggregates that are missing or wrong.
    pub(crate) fn adopt(
        &mut self,
        found: &StoreAnswers,
        crashed: bool,
        power_failed: bool,
        now: i64,
    ) -> Result<(), String> {
        self.pass(now);
        if crashed {
            // The persisted clock may be ahead of the wall clock, and a start never uses an earlier time.
            let coming = self.coming.as_ref();
            let ahead = coming.map_or(0, |(rules, _)| rules.promise());
            let ahead = self.rules.promise().max(ahead);
            self.now = self.now.max(self.latest + ahead);
        }
        let coming = self.coming.take();
        if let Some((rules, classes)) = coming.filter(|(new, _)| !new.is_same(&self.rules)) {
            self.leave_rules();
            self.hidden = vec![i64::MIN; rules.classes.len()];
            (self.rules, self.classes) = (rules, classes);
        }
        if crashed && self.holes {
            self.make_holes(&found.samples);
        } else if crashed {
            self.cut(found)?;
        }
        self.observe(found)?;
        if power_failed {
            self.mark_all_durable();
        }
        Ok(())
    }

    /// Records that all current samples survive a power cut.
    fn mark_all_durable(&mut self) {
        self.durable.clone_from(&self.live);
        self.changes.clear();
        self.before_changes = self.accepted;
    }

    /// Marks samples that may have expired under the present rules. Records the end of the times for
    /// which levels may exist.
    fn leave_rules(&mut self) {
        for source in 0..self.older.len() as u32 {
            if let Some(kept) = self.kept(source) {
                let end = self.now - kept + WINDOW;
                self.happen(Change::Doubt(source, Interval::new(i64::MIN, end)));
            }
            self.older[source as usize] = self.coarse_before(source);
        }
    }

    /// Applies a crash of a store with a journal: a prefix of the changes survives, over all
    /// sources.
    fn cut(&mut self, found: &StoreAnswers) -> Result<(), String> {
        let is_row = |change: &Change| match change {
            Change::Row(row) => Some(is_there(row, &found.samples)),
            _ => None,
        };
        let last = self
            .changes
            .iter()
            .rposition(|one| is_row(one) == Some(true));
        let least = last.map_or(0, |last| last + 1);
        // The first row that would be shown if it had survived bounds the prefix.
        let next = (least..self.changes.len()).find(|&at| self.would_be_seen(at, found));
        let most = next.unwrap_or(self.changes.len());
        let rows = |changes: &[Change]| {
            let rows = changes.iter().filter(|one| is_row(one).is_some());
            rows.count() as u64
        };
        let lost = rows(&self.changes[most..]);
        let mut at = 0;
        self.changes.retain_mut(|change| {
            let (is_kept, is_sure) = (at < most, at < least);
            at += 1;
            match change {
                Change::Row(row) => {
                    row.late |= !is_sure;
                    is_kept
                }
                _ => true,
            }
        });
        self.accepted -= lost;
        self.live.clone_from(&self.durable);
        for change in &self.changes {
            change.apply(&mut self.live);
        }
        Ok(())
    }

    /// Returns true if a row would certainly be among the samples if it had survived.
    fn would_be_seen(&self, at: usize, found: &StoreAnswers) -> bool {
        let Change::Row(row) = &self.changes[at] else {
            return false;
        };
        let class = self.rules.of[row.source as usize] as usize;
        let shown = found.log.classes[class].hidden_before;
        let young = row.time >= shown.max(self.coarse_before(row.source));
        let hides = |change: &Change| match change {
            Change::Row(_) => false,
            Change::Gone(source, interval) | Change::Doubt(source, interval) => {
                *source == row.source && interval.contains(row.time)
            }
        };
        !row.late
            && young
            && self.is_spared(row.source, row.time)
            && !self.changes[at..].iter().any(hides)
    }

    /// Applies a crash of a store without a journal: each block survives or is lost, and a level
    /// may include samples that are lost.
    fn make_holes(&mut self, found: &Samples) {
        for change in &mut self.changes {
            if let Change::Row(row) = change {
                row.late |= !is_there(row, found);
            }
        }
        self.live.clone_from(&self.durable);
        for change in &self.changes {
            change.apply(&mut self.live);
        }
    }

    // ---- comparison with answers

    /// Checks the answers of a store.
    ///
    /// # Errors
    /// A description of samples or aggregates that are missing or wrong.
    pub(crate) fn observe(&mut self, found: &StoreAnswers) -> Result<(), String> {
        self.check_levels(found)?;
        for source in 0..self.older.len() as u32 {
            let gone = self.gone_before(source);
            if gone > i64::MIN {
                let interval = Interval::new(i64::MIN, gone - 1);
                self.happen(Change::Gone(source, interval));
            }
        }
        self.check_samples(found)?;
        self.check_figures(found)
    }

    /// Checks that passes end at a step, only among old samples, and that the ends of passes never move back.
    fn check_levels(&mut self, found: &StoreAnswers) -> Result<(), String> {
        for (number, class) in found.log.classes.iter().enumerate() {
            let (before, hidden) = (self.hidden[number], class.hidden_before);
            if hidden < before {
                return Err(format!(
                    "class {:?} hid times before {before}, and now times before {hidden}",
                    class.class.name
                ));
            }
            let next = self.classes.next_step(number as u8);
            if let (Some(step), Some(age)) = (next, class.class.keep.age) {
                let made = hidden > i64::MIN;
                if made && (hidden % step as i64 != 0 || hidden > self.now - nanos(age)) {
                    return Err(format!(
                        "class {:?} is rolled up to {hidden}; steps {step}, now {:?}",
                        class.class.name, self.now
                    ));
                }
            }
            self.hidden[number] = hidden;
        }
        Ok(())
    }

    /// Checks the samples: young samples are returned as sent. For every other row the store reports
    /// a level.
    fn check_samples(&mut self, found: &StoreAnswers) -> Result<(), String> {
        for ((source, field), time, datum) in each(&found.samples) {
            let cells = self.live.get(&(source, field));
            let cell = cells.and_then(|cells| cells.get(&time));
            if cell.is_some_and(|cell| cell.datums.contains(datum)) {
                continue;
            }
            let coarse = self.coarse_before(source);
            let listed = found.levels.iter().any(|span| {
                (span.from..=span.to).contains(&time) && time % span.step_ns as i64 == 0
            });
            let within = time..time.saturating_add(WINDOW);
            let of_some = cells.is_some_and(|cells| cells.range(within).next().is_some());
            if time >= coarse || !listed || !of_some {
                return Err(format!(
                    "source {source}, field {field} shows {datum:?} at {time}, which is {cell:?}; rolled up before \
                     {coarse}, listed: {listed}, of samples: {of_some}; levels {:?}",
                    found.levels
                ));
            }
        }
        for (&(source, field), cells) in &mut self.live.clone() {
            let young = self.coarse_before(source);
            let shown = found.samples.get(&(source, field));
            for (&time, cell) in cells.range(young..) {
                match shown.and_then(|shown| shown.get(&time)) {
                    // The returned value is certain from now on.
                    Some(datum) => self.learn(source, field, time, Some(datum.clone())),
                    None if cell.sure && self.is_spared(source, time) => {
                        return Err(format!(
                            "source {source}, field {field}: {cell:?} at {time} is not shown; rolled up before {young}, \
                             hidden {:?}, now {:?}",
                            self.hidden, self.now
                        ));
                    }
                    None => self.learn(source, field, time, None),
                }
            }
        }
        Ok(())
    }

    fn learn(&mut self, source: u32, field: u32, time: i64, datum: Option<Datum>) {
        let cells = self.live.entry((source, field)).or_default();
        match datum {
            Some(datum) => {
                let cell = Cell {
                    datums: vec![datum],
                    sure: true,
                };
                cells.insert(time, cell);
            }
            None => {
                cells.remove(&time);
            }
        }
    }

    fn check_figures(&self, found: &StoreAnswers) -> Result<(), String> {
        let empty = BTreeMap::new();
        let none = (FieldType::F64, Vec::new());
        let mut all: Vec<Series> = self
            .live
            .keys()
            .chain(found.figures.keys())
            .copied()
            .collect();
        all.sort_unstable();
        all.dedup();
        for series in all {
            let cells = self.live.get(&series).unwrap_or(&empty);
            let (kind, buckets) = found.figures.get(&series).unwrap_or(&none);
            let buckets: BTreeMap<i64, &Bucket> = buckets
                .iter()
                .map(|bucket| (bucket.start, bucket))
                .collect();
            let windows = cells.keys().map(|time| time.div_euclid(WINDOW) * WINDOW);
            let mut windows: Vec<i64> = windows.chain(buckets.keys().copied()).collect();
            windows.sort_unstable();
            windows.dedup();
            for window in windows {
                let cells: Vec<(i64, &Cell)> = cells
                    .range(window..window + WINDOW)
                    .map(|(&time, cell)| (time, cell))
                    .collect();
                let bucket = buckets.get(&window).copied();
                self.check_window(series.0, *kind, &cells, bucket)
                    .map_err(|what| {
                        format!(
                            "series {series:?}, window {window}: {what}: {bucket:?} of {} samples, {} for certain, {:?}, shown {:?}; \
                             rolled up before {}, older {}, hidden {:?}, now {:?}",
                            cells.len(),
                            cells.iter().filter(|(_, cell)| cell.sure).count(),
                            &cells[..cells.len().min(8)],
                            found.rows(series, window),
                            self.coarse_before(series.0),
                            self.older[series.0 as usize],
                            self.hidden,
                            self.now
                        )
                    })?;
            }
        }
        Ok(())
    }

    fn check_window(
        &self,
        source: u32,
        kind: FieldType,
        cells: &[(i64, &Cell)],
        bucket: Option<&Bucket>,
    ) -> Result<(), String> {
        let is_sure = |(time, cell): &&(i64, &Cell)| cell.sure && self.is_spared(source, *time);
        let sure = cells.iter().filter(is_sure).count();
        let Some(bucket) = bucket else {
            let missing = format!("{sure} samples are missing");
            return if sure == 0 { Ok(()) } else { Err(missing) };
        };
        let check = |what: &str, holds: bool| match holds {
            true => Ok(()),
            false => Err(what.to_string()),
        };
        let count = bucket.count as usize;
        check("count", (sure..=cells.len()).contains(&count))?;
        if kind == FieldType::Str {
            return Ok(());
        }
        let datums = cells.iter().flat_map(|(_, cell)| &cell.datums);
        let numbers: Vec<f64> = datums.map(Datum::number).collect();
        let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        check("bounds", bucket.min >= least && bucket.max <= most)?;
        let exact = cells.iter().all(|(_, cell)| cell.datums.len() == 1);
        if !exact || sure < cells.len() {
            return Ok(());
        }
        // Values are whole numbers, so sums are exact in any order.
        check("sum", bucket.sum == numbers.iter().sum::<f64>())?;
        check(
            "least and largest",
            (bucket.min, bucket.max) == (least, most),
        )?;
        let ends = (numbers[0], numbers[numbers.len() - 1]);
        check("first and last", (bucket.first.1, bucket.last.1) == ends)
    }
}

fn nanos(duration: Duration) -> i64 {
    duration.as_nanos() as i64
}
