//! Rounds: before samples are let go for their age, the next coarser level is made of them.
//!
//! A round takes a class, or a level, up to some time, source by source, a portion a step, and appends
//! rows to the sources of the next level as if somebody had sent them: the journal has them, buffers and
//! segments take them, and of two rows of a step the later counts. When all of them are on disk, the
//! catalog notes up to when the round went, and only then does what they were made of die.
//!
//! Invariant: a row is a function of what is left of its step, and is not replaced by one that tells of
//! fewer samples. So a round that a crash or a delete cuts off is begun again, and changes nothing where
//! it had been.

pub(crate) mod round;

use self::round::Round;
use crate::answer::{Bucket, is_integer};
use crate::commit::write_journal;
use crate::core::Core;
use crate::error::{Error, Reason};
use crate::jobs::flush::end_chapters;
use crate::jobs::writing::Writing;
use crate::levels::rows::LevelField;
use crate::levels::{column_of, level_fields, level_of_samples, spans_of, times_of, told};
use crate::options::Durability;
use crate::report::source_key;
use crate::retention::Retention;
use crate::retention::coarser::{FIELDS_A_PART, Figure, exact_column, exact_text, step_start};
use seiner_model::{Cell, FieldType, Interval, LevelId, SourceId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Sources of which a level is made in a step, and rows after which it ends.
const SOURCES_A_STEP: usize = 64;
const ROWS_A_STEP: u64 = 8192;
/// Sources looked at under one lock.
const LOOK_AHEAD: u32 = 4096;
/// Rows of a source that are made coarser at once.
const ROWS_AT_ONCE: u64 = 1 << 16;
/// Rows appended under one lock.
const ROWS_A_LOCK: usize = 256;

/// What a round makes a source's level of.
struct Making {
    /// The source, or parts of its next finer level.
    members: Vec<u32>,
    /// Its levels with shorter steps, of earlier rules too.
    finer: Vec<(LevelId, u32)>,
    /// The level itself, as far as there is one.
    made: Vec<(LevelId, u32)>,
}

/// A column of a row to be.
type Cells = BTreeMap<i64, Vec<(String, Owned)>>;

/// What a cell holds.
enum Owned {
    Figure(Figure, Bucket),
    Text(String),
}

/// Returns whether a round is to begin.
pub(super) fn is_round_due(retention: &Retention) -> bool {
    next_round(retention).is_some()
}

/// Returns the round that is due, classes before their levels.
fn next_round(retention: &Retention) -> Option<Round> {
    (0..retention.classes().len() as u8).find_map(|class| {
        Some(Round {
            class,
            from: retention.made(class),
            to: retention.due(class)?,
            step: retention.rules().next_step(class)?,
            hand: 0,
        })
    })
}

/// Makes a portion of the next level of what is too old; answers whether more is waiting.
pub(crate) fn age(core: &Core, writing: &mut Writing) -> Result<bool, Error> {
    if writing.round.is_none() {
        writing.round = next_round(&core.log().retention);
    }
    let Some(mut round) = writing.round else {
        return Ok(false);
    };
    if !has_room_to_age(core) {
        return Ok(false);
    }
    let _span = tracing::trace_span!("downsample").entered();
    let Some((sources, next)) = members_of(core, &round) else {
        end_round(core, writing, &round)?;
        writing.round = None;
        return Ok(true);
    };
    let mut rows = 0;
    let mut waits = None;
    for source in sources {
        round.hand = source;
        if rows >= ROWS_A_STEP {
            break;
        }
        match age_source(core, &round, source)? {
            ControlFlow::Continue(made) => rows += made,
            ControlFlow::Break(reason) => {
                waits = Some(reason.to_string());
                break;
            }
        }
        round.hand = source + 1;
    }
    if rows < ROWS_A_STEP && waits.is_none() {
        round.hand = next;
    }
    writing.round = Some(round);
    let goes_on = waits.is_none();
    core.head().counters.level_rows += rows;
    let is_new = core.health.note_ageing(waits.as_deref());
    if let Some(why) = waits.filter(|_| is_new) {
        tracing::error!(
            "samples stay beyond their age, for no coarser steps can be made of them: {why}"
        );
    }
    // Synced: of two records that are not, a power cut may keep the second alone, which looks like
    // damage to the first.
    write_journal(core, true)?;
    Ok(goes_on)
}

/// Whether there is room for more rows. Writers leave some, so that what is too old can go although
/// they wait for room.
fn has_room_to_age(core: &Core) -> bool {
    let (head, log) = core.both();
    log.has_room_to_age(&head.load())
}

/// The next sources of a round, and where it goes on behind them; `None` at its end.
fn members_of(core: &Core, round: &Round) -> Option<(Vec<u32>, u32)> {
    let head = core.head();
    let members = head.members();
    let all = head.sources();
    if round.hand >= all {
        return None;
    }
    let rules = members.classes();
    let named = rules.level(round.class).map_or(round.class, |of| of.class);
    let end = all.min(round.hand + LOOK_AHEAD);
    let own = |source: &u32| !members.is_level(*source) && members.class_of(*source) == named;
    let own = (round.hand..end).filter(own).take(SOURCES_A_STEP);
    let sources: Vec<u32> = own.collect();
    let end = match sources.last() {
        Some(last) if sources.len() == SOURCES_A_STEP => last + 1,
        _ => end,
    };
    Some((sources, end))
}

/// Makes the next level of a source; answers how many rows that were, or why it cannot be.
fn age_source(core: &Core, round: &Round, base: u32) -> Result<ControlFlow<Reason, u64>, Error> {
    let making = making_of(core, round, base);
    let mut made = 0;
    let mut at = round.from;
    while at < round.to {
        let rest = Interval::new(at, round.to - 1);
        let mut spans = Vec::new();
        for &member in &making.members {
            spans.extend(spans_of(core, SourceId(member), rest)?);
        }
        if spans.is_empty() {
            break;
        }
        for (span, _) in &mut spans {
            span.start = span.start.max(at);
        }
        let end = portion(spans, round).min(round.to);
        let part = Interval::new(at, end - 1);
        let mut fields = match making.members.contains(&base) {
            true => figures_of_samples(core, base, &making.finer, part, round.step)?,
            false => figures_of_levels(core, base, &making.finer, part, round.step)?,
        };
        let known = told(core, &making.made, part)?;
        leave_what_is_told(&mut fields, &known);
        for (part, cells) in cells(fields) {
            let id = LevelId {
                step_ns: round.step,
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

/// What a round makes a source's level of.
fn making_of(core: &Core, round: &Round, base: u32) -> Making {
    let head = core.head();
    let members = head.members();
    let levels = head.levels_of(base);
    let of = |wanted: fn(&u64, &u64) -> bool| {
        let levels = levels.iter().copied();
        levels.filter(move |(id, _)| wanted(&id.step_ns, &round.step))
    };
    let own = |level: &u32| members.class_of(*level) == round.class;
    let finer: Vec<(LevelId, u32)> = of(u64::lt).collect();
    Making {
        members: match members.classes().level(round.class) {
            None => vec![base],
            Some(_) => finer.iter().map(|(_, level)| *level).filter(own).collect(),
        },
        finer,
        made: of(u64::eq).collect(),
    }
}

/// The figures of a source's samples, step by step. Of a step that began under other
/// rules, with what levels of those tell of it.
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

/// The figures of a source's finer levels, put together.
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

/// Puts figures of fields to those of the same fields, by their columns.
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

/// Appends rows to a level of a source, which is registered where it is new. The inner error is a
/// refusal.
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
    let key = source_key(core, SourceId(base));
    let key = key.expect("members are registered").level(id);
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
            // Nothing else would have it after a crash.
            head.seal(source);
        }
        if head.staging.since == 0 && !head.staging.is_empty() {
            head.staging.since = core.clock.monotonic().max(1);
        }
    }
    Ok(Ok(rows.len() as u64))
}

/// The next level is whole up to the end of the round: now the catalog says so, and then what it was
/// made of dies.
fn end_round(core: &Core, writing: &mut Writing, round: &Round) -> Result<(), Error> {
    match core.durability() {
        Durability::Memory => end_chapters(core, writing, |_| true)?,
        _ => write_journal(core, true)?,
    }
    core.log().retention.note_made(round.class, round.to);
    core.write_catalog()?;
    let mut log = core.log();
    log.retention.let_go_of_made(round.class, round.to);
    let sealed = log.sealed().clone();
    for segment in sealed.values().filter(|one| one.span().start < round.to) {
        let tally = log.tally_mut(segment.trailer.number);
        if let Some(tally) = tally
            && tally.shares.iter().any(|share| share.class == round.class)
        {
            tally.ask();
        }
    }
    Ok(())
}

/// Leaves out the steps of which the level has a row of more samples: what finer levels of earlier rules
/// tell may be less than what there was when it was made, and of two rows the later counts.
fn leave_what_is_told(fields: &mut [(usize, LevelField)], known: &BTreeMap<i64, u64>) {
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

/// Rows of a level, by parts, of fields by their columns in the source.
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

/// Up to where a source's rows are made coarser at once: until there are many, but whole steps.
fn portion(mut spans: Vec<(Interval, u64)>, round: &Round) -> i64 {
    spans.sort_unstable_by_key(|(span, _)| span.start);
    let first = spans.first().map_or(round.to, |(span, _)| span.start);
    let least = step_start(first, round.step).saturating_add(round.step as i64);
    let mut rows = 0;
    for (span, more) in spans {
        if rows > 0 && rows + more > ROWS_AT_ONCE && span.start > least {
            return step_start(span.start, round.step).max(least);
        }
        rows += more;
    }
    round.to
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::testing::{SECOND, World};
    use seiner_store::Level;
    use std::time::Duration;

    #[test]
    fn rows_that_are_too_old_become_steps_of_a_minute() {
        let world = World::of_class(|class| {
            class.keep.age = Some(Duration::from_secs(3600));
            class.coarser = vec![Level {
                step: Duration::from_secs(60),
                keep: None,
            }];
        });
        world.append("m", 0..600);
        // The first round goes from the beginning of time to an hour ago.
        world.run(age);
        assert_eq!(world.core.head().counters.level_rows, 0);
        assert!(next_round(&world.core.log().retention).is_none());
        world.wait(3600 + 600);
        drop(world.core.present());
        let round = next_round(&world.core.log().retention).unwrap();
        assert_eq!((round.class, round.step), (0, 60 * SECOND as u64));
        assert!(world.run(age) > 0);
        assert!(next_round(&world.core.log().retention).is_none());
        assert_eq!(world.core.head().counters.level_rows, 600 / 60);
    }
}
