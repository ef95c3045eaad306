//! Roll-up: passes that aggregate samples into the next roll-up level before the samples expire.
//!
//! A pass covers a class, or a level, up to a certain time. It proceeds source by source, one
//! portion per step, and appends rows to the sources of the next level like rows from a client. The
//! journal, buffers and segments store these rows, and of two rows of a step the later counts. When
//! all rows are on disk, the catalog records the end of the pass. Only then do the samples expire.
//!
//! Invariant: a row is a function of the remaining data of its step. A row that counts fewer
//! samples does not replace it. A pass that a crash or a delete interrupts is therefore repeated,
//! and does not change rows that already exist.

pub(crate) mod pass;

use self::pass::RollupPass;
use crate::answer::{Bucket, is_integer};
use crate::commit::write_journal;
use crate::core::Core;
use crate::error::{Error, Reason};
use crate::jobs::segments::make_durable;
use crate::jobs::writing::Writing;
use crate::levels::rows::LevelField;
use crate::levels::{column_of, level_fields, level_of_samples, sample_counts, spans_of, times_of};
use crate::names::known_key;
use crate::options::Durability;
use crate::retention::Retention;
use crate::retention::rollup::{FIELDS_A_PART, Figure, exact_column, exact_text, step_start};
use seiner_model::{Cell, FieldType, Interval, LevelId, SourceId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Sources rolled up per step, and rows after which a step ends.
const SOURCES_A_STEP: usize = 64;
const ROWS_A_STEP: u64 = 8192;
/// Sources examined under one lock.
const LOOK_AHEAD: u32 = 4096;
/// Rows of a source that are rolled up at once.
const ROWS_AT_ONCE: u64 = 1 << 16;
/// Rows appended under one lock.
const ROWS_A_LOCK: usize = 256;

/// Inputs of a pass for one source.
struct RollupInputs {
    /// Number of the source, or of the parts of its next finer level.
    members: Vec<u32>,
    /// Levels of the source with shorter steps, including levels of earlier rules.
    finer: Vec<(LevelId, u32)>,
    /// Existing parts of the level that is being made.
    made: Vec<(LevelId, u32)>,
}

/// Cells of rows to be written, by time.
type Cells = BTreeMap<i64, Vec<(String, Owned)>>;

/// Value of a cell.
enum Owned {
    Figure(Figure, Bucket),
    Text(String),
}

/// Returns whether a pass should begin.
pub(super) fn is_rollup_due(retention: &Retention) -> bool {
    plan(retention).is_some()
}

/// Returns the next pass that is due. Classes come before their levels.
fn plan(retention: &Retention) -> Option<RollupPass> {
    (0..retention.classes().len() as u8).find_map(|class| {
        Some(RollupPass {
            class,
            from: retention.made(class),
            to: retention.due(class)?,
            step: retention.rules().next_step(class)?,
            cursor: 0,
        })
    })
}

/// Makes a portion of the next level of old data. Returns whether more is waiting.
pub(crate) fn roll_up(core: &Core, writing: &mut Writing) -> Result<bool, Error> {
    if writing.rollup.is_none() {
        writing.rollup = plan(&core.log().retention);
    }
    let Some(mut pass) = writing.rollup else {
        return Ok(false);
    };
    if !has_space_for_rollup(core) {
        return Ok(false);
    }
    let _span = tracing::trace_span!("rollup").entered();
    let Some((sources, next)) = members_of(core, &pass) else {
        end_pass(core, writing, &pass)?;
        writing.rollup = None;
        return Ok(true);
    };
    let mut rows = 0;
    let mut waits = None;
    for source in sources {
        pass.cursor = source;
        if rows >= ROWS_A_STEP {
            break;
        }
        match roll_up_source(core, &pass, source)? {
            ControlFlow::Continue(made) => rows += made,
            ControlFlow::Break(reason) => {
                waits = Some(reason.to_string());
                break;
            }
        }
        pass.cursor = source + 1;
    }
    if rows < ROWS_A_STEP && waits.is_none() {
        pass.cursor = next;
    }
    writing.rollup = Some(pass);
    let continues = waits.is_none();
    core.head().counters.level_rows += rows;
    let is_new = core.health.note_rollup(waits.as_deref());
    if let Some(why) = waits.filter(|_| is_new) {
        tracing::error!("samples stay beyond their age because they cannot be rolled up: {why}");
    }
    // Synced: of two unsynced records, a power cut may keep only the second. That would look like
    // damage to the first.
    write_journal(core, true)?;
    Ok(continues)
}

/// Returns whether there is space for more rows. Writers leave some space free, so that old data
/// can expire even while writers wait for space.
fn has_space_for_rollup(core: &Core) -> bool {
    let (head, log) = core.both();
    log.has_space_for_rollup(&head.load())
}

/// Returns the next sources of a pass, and the source at which it continues. Returns `None` at the
/// end.
fn members_of(core: &Core, pass: &RollupPass) -> Option<(Vec<u32>, u32)> {
    let head = core.head();
    let members = head.members();
    let all = head.sources();
    if pass.cursor >= all {
        return None;
    }
    let rules = members.classes();
    let named = rules.level(pass.class).map_or(pass.class, |of| of.class);
    let end = all.min(pass.cursor + LOOK_AHEAD);
    let is_own = |source: u32| !members.is_level(source) && !members.is_absent(source);
    let own = |source: &u32| is_own(*source) && members.class_of(*source) == named;
    let own = (pass.cursor..end).filter(own).take(SOURCES_A_STEP);
    let sources: Vec<u32> = own.collect();
    let end = match sources.last() {
        Some(last) if sources.len() == SOURCES_A_STEP => last + 1,
        _ => end,
    };
    Some((sources, end))
}

/// Makes the next level of a source. Returns the number of rows, or the reason for the rejection.
fn roll_up_source(
    core: &Core,
    pass: &RollupPass,
    base: u32,
) -> Result<ControlFlow<Reason, u64>, Error> {
    let inputs = inputs_of(core, pass, base);
    let mut made = 0;
    let mut at = pass.from;
    while at < pass.to {
        let rest = Interval::new(at, pass.to - 1);
        let mut spans = Vec::new();
        for &member in &inputs.members {
            spans.extend(spans_of(core, SourceId(member), rest)?);
        }
        if spans.is_empty() {
            break;
        }
        for (span, _) in &mut spans {
            span.start = span.start.max(at);
        }
        let end = portion(spans, pass).min(pass.to);
        let part = Interval::new(at, end - 1);
        let mut fields = match inputs.members.contains(&base) {
            true => figures_of_samples(core, base, &inputs.finer, part, pass.step)?,
            false => figures_of_levels(core, base, &inputs.finer, part, pass.step)?,
        };
        let known = sample_counts(core, &inputs.made, part)?;
        keep_better_rows(&mut fields, &known);
        for (part, cells) in cells(fields) {
            let id = LevelId {
                step_ns: pass.step,
                part,
            };
            match append_level(core, base, id, &cells)? {
                Ok(rows) => made += rows,
                Err(reason) => return Ok(ControlFlow::Break(reason)),
            }
        }
        at = end;
    }
    Ok(ControlFlow::Continue(made))
}

/// Returns the inputs of a pass for one source.
fn inputs_of(core: &Core, pass: &RollupPass, base: u32) -> RollupInputs {
    let head = core.head();
    let members = head.members();
    let levels = head.levels_of(base);
    let of = |wanted: fn(&u64, &u64) -> bool| {
        let levels = levels.iter().copied();
        levels.filter(move |(id, _)| wanted(&id.step_ns, &pass.step))
    };
    let own = |level: &u32| members.class_of(*level) == pass.class;
    let finer: Vec<(LevelId, u32)> = of(u64::lt).collect();
    RollupInputs {
        members: match members.classes().level(pass.class) {
            None => vec![base],
            Some(_) => finer.iter().map(|(_, level)| *level).filter(own).collect(),
        },
        finer,
        made: of(u64::eq).collect(),
    }
}

/// Returns the figures of the samples of a source, by step. A step that began under other rules
/// also includes the figures of the levels of those rules.
fn figures_of_samples(
    core: &Core,
    base: u32,
    older: &[(LevelId, u32)],
    interval: Interval,
    step: u64,
) -> Result<Vec<(usize, LevelField)>, Error> {
    let source = SourceId(base);
    let mut found = level_of_samples(core, source, interval, step)?;
    let buckets = found.iter().flat_map(|(_, field)| &field.buckets);
    let samples: u64 = buckets.map(|bucket| bucket.count).sum();
    core.head().counters.aged_samples += samples;
    if !older.is_empty() {
        let times = times_of(core, source, interval)?;
        let touched: BTreeSet<i64> = times.iter().map(|&time| step_start(time, step)).collect();
        let mut fields = level_fields(core, older, interval, &times)?;
        for field in &mut fields {
            field.retain(|time| touched.contains(&step_start(time, step)));
        }
        put_together(core, base, &mut found, fields, step);
    }
    Ok(found)
}

/// Returns the combined figures of the finer levels of a source.
fn figures_of_levels(
    core: &Core,
    base: u32,
    levels: &[(LevelId, u32)],
    interval: Interval,
    step: u64,
) -> Result<Vec<(usize, LevelField)>, Error> {
    let mut found = Vec::new();
    let fields = level_fields(core, levels, interval, &[])?;
    put_together(core, base, &mut found, fields, step);
    Ok(found)
}

/// Combines figures with those of the same fields, by column.
fn put_together(
    core: &Core,
    base: u32,
    found: &mut Vec<(usize, LevelField)>,
    fields: Vec<LevelField>,
    step: u64,
) {
    for mut field in fields {
        let Some((column, field_type)) = column_of(core, base, &field.field) else {
            continue;
        };
        if is_integer(field_type) {
            field.take_for_integers();
        }
        match found.iter_mut().find(|(known, _)| *known == column) {
            Some((_, known)) => known.extend(&field),
            None => found.push((column, field)),
        }
    }
    for (_, field) in found {
        field.join(step);
    }
}

/// Appends rows to a level of a source, and registers the level if it is new. The inner error is a
/// rejection.
fn append_level(
    core: &Core,
    base: u32,
    id: LevelId,
    cells: &Cells,
) -> Result<Result<u64, Reason>, Error> {
    let rows: Vec<(i64, Vec<Cell<'_>>)> = cells
        .iter()
        .map(|(&time, cells)| (time, cells.iter().map(cell).collect()))
        .collect();
    let key = known_key(core, base)?.level(id);
    let mut values = Vec::new();
    let mut source = None;
    for some in rows.chunks(ROWS_A_LOCK) {
        let mut head = core.head();
        core.prepare(&mut head)?;
        let source = match source {
            Some(source) => source,
            None => {
                let dictionary = head.dictionary().clone();
                let mut dictionary = dictionary
                    .write()
                    .expect("no panic while the dictionary is locked");
                match head.register(&mut dictionary, &key) {
                    Ok(new) => *source.insert(new),
                    Err(reason) => return Ok(Err(reason)),
                }
            }
        };
        for (time, cells) in some {
            if let Err(reason) = head.append_level(source, *time, cells, &mut values) {
                return Ok(Err(reason));
            }
        }
        if core.durability() == Durability::Memory {
            // No other copy would survive a crash.
            head.seal(source);
        }
        if head.staging.since == 0 && !head.staging.is_empty() {
            head.staging.since = core.clock.monotonic().max(1);
        }
    }
    Ok(Ok(rows.len() as u64))
}

/// Ends a pass: the next level is complete up to its end. Records this in the catalog, after which
/// the inputs expire.
fn end_pass(core: &Core, writing: &mut Writing, pass: &RollupPass) -> Result<(), Error> {
    match core.durability() {
        Durability::Memory => make_durable(core, writing)?,
        _ => write_journal(core, true)?,
    }
    core.log().retention.note_made(pass.class, pass.to);
    core.write_catalog()?;
    let mut log = core.log();
    log.retention.expire_rolled_up(pass.class, pass.to);
    let sealed = log.sealed().clone();
    for segment in sealed.values().filter(|one| one.span().start < pass.to) {
        let stats = log.stats_mut(segment.trailer.number);
        if let Some(stats) = stats
            && stats.shares.iter().any(|share| share.class == pass.class)
        {
            stats.request_scan();
        }
    }
    Ok(())
}

/// Removes the steps for which the level has a row with more samples. Finer levels of earlier rules
/// may contain less than the samples from which that row was made, and of two rows the later
/// counts.
fn keep_better_rows(fields: &mut [(usize, LevelField)], known: &BTreeMap<i64, u64>) {
    if known.is_empty() {
        return;
    }
    let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
    for bucket in fields.iter().flat_map(|(_, field)| &field.buckets) {
        let count = counts.entry(bucket.start).or_default();
        *count = bucket.count.max(*count);
    }
    for (_, field) in fields {
        field.retain(|time| counts.get(&time) >= known.get(&time));
    }
}

/// Returns the rows of a level by part, with fields by their column in the source.
fn cells(fields: Vec<(usize, LevelField)>) -> BTreeMap<u32, Cells> {
    let mut parts: BTreeMap<u32, Cells> = BTreeMap::new();
    for (column, field) in fields {
        let rows = parts.entry((column / FIELDS_A_PART) as u32).or_default();
        let kind = match field.texts {
            Some(_) => FieldType::Str,
            None => FieldType::F64,
        };
        for (at, bucket) in field.buckets.iter().enumerate() {
            let row = rows.entry(bucket.start).or_default();
            for &figure in Figure::of(kind) {
                let value = match (&field.texts, figure) {
                    (Some(texts), Figure::Last) => Owned::Text(texts.get(at).to_string()),
                    _ => Owned::Figure(figure, *bucket),
                };
                row.push((figure.column(&field.field), value));
            }
            if let Some(text) = exact_text(bucket) {
                row.push((exact_column(&field.field), Owned::Text(text)));
            }
        }
    }
    parts
}

fn cell((name, value): &(String, Owned)) -> Cell<'_> {
    Cell {
        field: name.as_bytes(),
        value: match value {
            Owned::Figure(figure, bucket) => figure.value(bucket, None),
            Owned::Text(text) => Figure::Last.value(&Bucket::of(0, 0, 0.0), Some(text)),
        },
    }
}

/// Returns the end of the portion of a source's rows that is rolled up at once: a bounded number
/// of rows, but whole steps.
fn portion(mut spans: Vec<(Interval, u64)>, pass: &RollupPass) -> i64 {
    spans.sort_unstable_by_key(|(span, _)| span.start);
    let first = spans.first().map_or(pass.to, |(span, _)| span.start);
    let least = step_start(first, pass.step).saturating_add(pass.step as i64);
    let mut rows = 0;
    for (span, more) in spans {
        if rows > 0 && rows + more > ROWS_AT_ONCE && span.start > least {
            return step_start(span.start, pass.step).max(least);
        }
        rows += more;
    }
    pass.to
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::testing::{SECOND, World, options};
    use crate::options::Options;
    use crate::retention::class::{Class, Classes};
    use seiner_store::Level;
    use std::time::Duration;

    fn minutely() -> Options {
        let mut class = Class::forever();
        class.keep.age = Some(Duration::from_secs(3600));
        class.rollup = vec![Level {
            step: Duration::from_secs(60),
            keep: None,
        }];
        Options {
            classes: Classes::new(vec![class]).unwrap(),
            ..options()
        }
    }

    #[test]
    fn rows_that_are_too_old_become_steps_of_a_minute() {
        let world = World::new(minutely());
        world.append("m", 0..600);
        // The first pass covers everything from the beginning of time to an hour ago.
        world.run(roll_up);
        assert_eq!(world.core.head().counters.level_rows, 0);
        assert!(plan(&world.core.log().retention).is_none());
        world.wait(3600 + 600);
        drop(world.core.present());
        let pass = plan(&world.core.log().retention).unwrap();
        assert_eq!((pass.class, pass.step), (0, 60 * SECOND as u64));
        assert!(world.run(roll_up) > 0);
        assert!(plan(&world.core.log().retention).is_none());
        assert_eq!(world.core.head().counters.level_rows, 600 / 60);
    }

    /// Regression: without a journal, rows of a level in a full segment were lost, and their samples had expired.
    #[test]
    fn a_level_is_complete_after_a_power_cut() {
        let world = World::new(minutely());
        for number in 0..60 {
            world.append(&format!("m{number}"), 0..3600);
            world.run_all();
        }
        world.wait(2 * 3600);
        drop(world.core.present());
        world.run(roll_up);
        assert!(plan(&world.core.log().retention).is_none());
        assert_eq!(world.rows(), 60 * 60);
        let found = world.on(world.disk.fork(1).crash(), minutely());
        assert_eq!(found.rows(), 60 * 60);
    }
}
