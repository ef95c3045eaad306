//! Layouts: the columns of sources. Sources with the same columns share a layout.
//!
//! A layout extends another layout by one field, down to the empty layout, number 0. Files store
//! layouts in the same form.

use hashbrown::hash_table::{Entry, HashTable};
use seiner_model::FieldType;
use std::hash::BuildHasher;
use std::sync::Arc;

/// Columns of a source, in the order in which they were added.
#[derive(Debug, Default)]
pub struct Layout {
    number: u32,
    parent: u32,
    names: Vec<Arc<str>>,
    types: Vec<FieldType>,
    lost: bool,
}

impl Layout {
    /// Returns the number of the layout in the store.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the number of the layout that this layout extends by its last field.
    pub fn parent(&self) -> u32 {
        self.parent
    }

    /// Returns the extended layout and the last field.
    fn step(&self) -> (u32, &str, FieldType) {
        let last = self.types.len() - 1;
        (self.parent, &self.names[last], self.types[last])
    }

    /// Returns whether the description of this layout is lost.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// Returns the number of columns.
    #[inline]
    pub fn columns(&self) -> usize {
        self.types.len()
    }

    /// Returns the names of the fields.
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// Returns the types of the fields.
    #[inline]
    pub fn types(&self) -> &[FieldType] {
        &self.types
    }

    /// Returns the names and types of the fields, as a bundle contains them.
    pub fn for_bundles(&self) -> seiner_bundle::Layout {
        let names = self.names.iter().map(|name| name.to_string());
        seiner_bundle::Layout::new(names.zip(self.types.iter().copied()))
    }

    /// Returns whether a layout in a bundle has the same fields.
    pub fn is_in_bundle(&self, layout: &seiner_bundle::Layout) -> bool {
        let names = self.names.iter().map(|name| &**name);
        let fields = names.zip(self.types.iter().copied());
        let stored = layout.fields().iter();
        fields.eq(stored.map(|(name, field_type)| (&**name, *field_type)))
    }

    /// Returns whether the layout has a single field, of this type.
    #[inline(always)]
    pub fn is_only(&self, name: &[u8], field_type: FieldType) -> bool {
        matches!((self.types.as_slice(), self.names.as_slice()), ([known], [field]) if *known == field_type && field.as_bytes() == name)
    }

    /// Returns the column of a field. The column `expected` is compared first, because most rows
    /// have their fields in the order of the layout.
    #[inline]
    pub fn column(&self, name: &[u8], expected: usize) -> Option<usize> {
        if self
            .names
            .get(expected)
            .is_some_and(|known| known.as_bytes() == name)
        {
            return Some(expected);
        }
        self.names.iter().position(|known| known.as_bytes() == name)
    }
}

/// All layouts of a store.
pub struct Layouts {
    all: Vec<Arc<Layout>>,
    /// Index of the layouts by parent and last field, without the empty layout and the lost
    /// layouts.
    next: HashTable<u32>,
    /// Number of layouts whose description is lost.
    lost: usize,
    hasher: foldhash::fast::RandomState,
    memory: usize,
}

impl Layouts {
    /// Creates a list that contains only the empty layout.
    pub fn new() -> Layouts {
        Layouts {
            all: vec![Arc::new(Layout::default())],
            next: HashTable::new(),
            lost: 0,
            hasher: foldhash::fast::RandomState::default(),
            memory: 0,
        }
    }

    /// Returns the number of the layout with these fields, if the store has it.
    pub fn find(&self, fields: &[(String, FieldType)]) -> Option<u32> {
        let mut number = 0;
        for (name, field_type) in fields {
            number = self.next_of(number, name, *field_type)?;
        }
        Some(number)
    }

    /// Returns whether a layout has a single column, which is not a text.
    pub fn is_number(&self, number: u32) -> bool {
        let layout = self.get(number);
        layout.is_some_and(|layout| matches!(layout.types(), [only] if *only != FieldType::Str))
    }

    /// Returns the layout with a number.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&Arc<Layout>> {
        self.all.get(number as usize)
    }

    /// Returns the number of layouts.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns all layouts, by number.
    pub fn all(&self) -> &[Arc<Layout>] {
        &self.all
    }

    /// Returns whether the description of a layout is lost.
    pub fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// Returns the number of the layout that extends `parent` by a field, if the store has it.
    fn next_of(&self, parent: u32, name: &str, field_type: FieldType) -> Option<u32> {
        let step = (parent, name, field_type);
        let same = |&other: &u32| self.all[other as usize].step() == step;
        self.next.find(self.hasher.hash_one(step), same).copied()
    }

    /// Returns the layout that extends `parent` by a field, and whether it is new.
    pub fn extend(&mut self, parent: u32, name: &str, field_type: FieldType) -> (u32, bool) {
        let (all, hasher) = (&self.all, &self.hasher);
        let same = |&other: &u32| all[other as usize].step() == (parent, name, field_type);
        let hash_of = |&other: &u32| {
            let (parent, name, field_type) = all[other as usize].step();
            hasher.hash_one((parent, name, field_type))
        };
        let number = all.len() as u32;
        let hash = hasher.hash_one((parent, name, field_type));
        match self.next.entry(hash, same, hash_of) {
            Entry::Occupied(known) => return (*known.get(), false),
            Entry::Vacant(place) => place.insert(number),
        };
        let base = &self.all[parent as usize];
        let mut names = base.names.clone();
        names.push(Arc::from(name));
        let mut types = base.types.clone();
        types.push(field_type);
        self.memory += 160 + names.len() * 17 + name.len();
        let lost = base.lost;
        self.all.push(Arc::new(Layout {
            number,
            parent,
            names,
            types,
            lost,
        }));
        (number, true)
    }

    /// Reserves numbers below `up_to` for layouts whose description is lost.
    pub fn lose(&mut self, up_to: u32) {
        for number in self.all.len() as u32..up_to {
            self.lost += 1;
            self.all.push(Arc::new(Layout {
                number,
                lost: true,
                ..Layout::default()
            }));
        }
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        self.memory
    }
}
