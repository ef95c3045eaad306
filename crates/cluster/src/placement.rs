//! Placement: the classes, numbers and shelves of an engine's sources.

use crate::classes::Classes;
use crate::columns::Fields;
use crate::failure::HandoverError;
use crate::locks::locked;
use crate::names::{Names, Wanted};
use crate::places::{Places, SourcePlace};
use crate::shelves::Grid;
use seiner_engine::Engine;
use seiner_model::{Interval, Selector, SourceId, SourceKey};
use seiner_store::Query;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Source of an engine with its place in the distributed store.
#[derive(Clone, Copy)]
pub(crate) struct Placed {
    /// Source of the engine.
    pub id: SourceId,
    /// Place in the distributed store.
    pub place: SourcePlace,
}

/// Sources by class and shelf.
pub(crate) type Placement = BTreeMap<(usize, u32), Vec<Placed>>;

/// Registration of an engine's sources in the distributed store.
#[derive(Clone, Copy)]
pub(crate) struct Registrar<'a> {
    /// Engine.
    pub engine: &'a Engine,
    /// Names in the distributed store.
    pub names: &'a Names,
    /// Retention classes.
    pub classes: &'a Classes,
    /// Places of the engine's sources, as far as they are known.
    pub places: &'a Mutex<Places>,
}

impl Registrar<'_> {
    /// Returns all sources by class and shelf, each list by number. New sources are registered.
    ///
    /// # Errors
    /// If too few replicas answer, or the disk fails.
    pub fn placement(&self, grid: &Grid) -> Result<Placement, HandoverError> {
        let all = self.engine.sources(&Selector::all())?;
        let new = {
            let places = locked(self.places);
            let is_new = |source: &SourceId| places.get(*source).is_none();
            all.iter().copied().filter(is_new).collect()
        };
        self.register(new)?;
        let places = locked(self.places);
        let mut found = Placement::new();
        for id in all {
            let place = places.get(id).expect("all sources are registered");
            let shelf = (place.class as usize, grid.shelf(place.number));
            found.entry(shelf).or_default().push(Placed { id, place });
        }
        for sources in found.values_mut() {
            sources.sort_by_key(|source| source.place.number);
        }
        Ok(found)
    }

    /// Registers sources with their fields, and remembers their places.
    ///
    /// # Errors
    /// If too few replicas answer, or the disk fails.
    pub fn register(&self, sources: Vec<SourceId>) -> Result<(), HandoverError> {
        if sources.is_empty() {
            return Ok(());
        }
        // No row has this time, so that the scan returns the names and fields of all sources without decoding rows.
        let nothing = Query {
            selector: Selector::all(),
            fields: None,
            interval: Interval::new(i64::MAX, i64::MAX),
        };
        let mut found: Vec<(SourceId, Arc<SourceKey>, Fields)> = Vec::new();
        let mut scan = self.engine.scan_before(sources, &nothing, u64::MAX);
        while let Some(source) = scan.next_source() {
            let source = source?;
            found.push((source.source(), source.key().clone(), source.fields()));
        }
        let wanted = found.iter().map(|(_, key, fields)| (key, &fields[..]));
        let wanted: Vec<Wanted<'_>> = wanted.collect();
        let numbers = self.names.register(&wanted)?;
        let mut places = locked(self.places);
        for ((id, key, fields), number) in found.iter().zip(numbers) {
            let place = SourcePlace {
                number,
                class: self.classes.class_of(key) as u32,
                fields: fields.len() as u32,
            };
            places.set(*id, place);
        }
        Ok(())
    }

    /// Registers the fields of a source if it has more than before.
    ///
    /// # Errors
    /// If too few replicas answer.
    pub fn register_fields(
        &self,
        source: Placed,
        key: &Arc<SourceKey>,
        fields: &Fields,
    ) -> Result<(), HandoverError> {
        let mut place = source.place;
        if fields.len() as u32 > place.fields {
            self.names.register(&[(key, &fields[..])])?;
            place.fields = fields.len() as u32;
            locked(self.places).set(source.id, place);
        }
        Ok(())
    }

    /// Returns the name of a source, for messages.
    pub fn name_of(&self, source: SourceId) -> String {
        let key = self.engine.source_key(source).ok().flatten();
        key.map_or_else(|| format!("source {}", source.0), |key| key.to_string())
    }
}
