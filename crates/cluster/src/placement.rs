//! Placement: the classes, numbers and shelves of an engine's sources.

use crate::classes::Classes;
use crate::columns::Fields;
use crate::failure::HandoverError;
use crate::names::{Names, Wanted};
use crate::shelves::Grid;
use seiner_engine::Engine;
use seiner_model::{Interval, Selector, SourceId, SourceKey};
use seiner_store::Query;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Source of an engine with its number in the distributed store.
pub(crate) struct Placed {
    /// Source of the engine.
    pub id: SourceId,
    /// Measurement and tags.
    pub key: Arc<SourceKey>,
    /// Number in the distributed store.
    pub number: u32,
}

/// Sources by class and shelf.
pub(crate) type Placement = BTreeMap<(usize, u32), Vec<Placed>>;

/// Returns all sources of an engine by class and shelf, each list by number. New sources and fields are registered.
///
/// # Errors
/// If too few replicas answer, or the disk fails.
pub(crate) fn placed(
    engine: &Engine,
    names: &Names,
    classes: &Classes,
    grid: &Grid,
) -> Result<Placement, HandoverError> {
    let mut found = Placement::new();
    for source in register(engine, names, engine.sources(&Selector::all()))? {
        let place = (classes.class_of(&source.key), grid.shelf(source.number));
        found.entry(place).or_default().push(source);
    }
    for sources in found.values_mut() {
        sources.sort_by_key(|source| source.number);
    }
    Ok(found)
}

/// Registers sources of an engine with their fields, and returns them with their numbers.
///
/// # Errors
/// If too few replicas answer, or the disk fails.
pub(crate) fn register(
    engine: &Engine,
    names: &Names,
    sources: Vec<SourceId>,
) -> Result<Vec<Placed>, HandoverError> {
    // No row has this time, so that the scan returns the names and fields of all sources without decoding rows.
    let nothing = Query {
        selector: Selector::all(),
        fields: None,
        interval: Interval::new(i64::MAX, i64::MAX),
    };
    let mut found: Vec<(SourceId, Arc<SourceKey>, Fields)> = Vec::new();
    let mut scan = engine.scan_before(sources, &nothing, u64::MAX);
    while let Some(source) = scan.next_source() {
        let source = source?;
        found.push((source.source(), source.key().clone(), source.fields()));
    }
    let wanted = found.iter().map(|(_, key, fields)| (key, &fields[..]));
    let wanted: Vec<Wanted<'_>> = wanted.collect();
    let numbers = names.register(&wanted)?;
    let placed = found.into_iter().zip(numbers);
    let placed = placed.map(|((id, key, _), number)| Placed { id, key, number });
    Ok(placed.collect())
}
