//! Layouts: which columns a source has. Sources with the same columns share one.
//!
//! A layout is another one with one field more, down to the empty layout, number 0. That is also
//! how layouts are written down.

use hashbrown::hash_table::{Entry, HashTable};
use seiner_model::FieldType;
use std::hash::BuildHasher;
use std::sync::Arc;

/// The columns of a source, in the order in which they came.
#[derive(Debug, Default)]
pub struct Layout {
    number: u32,
    parent: u32,
    names: Vec<Arc<str>>,
    types: Vec<FieldType>,
    lost: bool,
}

impl Layout {
    /// Its number in the store.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The layout that it extends by its last field.
    pub fn parent(&self) -> u32 {
        self.parent
    }

    /// What it was made by: the layout that it extends, and the field.
    fn step(&self) -> (u32, &str, FieldType) {
        let last = self.types.len() - 1;
        (self.parent, &self.names[last], self.types[last])
    }

    /// Whether what it was is not known any more.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// How many columns there are.
    #[inline]
    pub fn columns(&self) -> usize {
        self.types.len()
    }

    /// The fields' names.
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// The fields' types.
    #[inline]
    pub fn types(&self) -> &[FieldType] {
        &self.types
    }

    /// Whether a field of a type is the only one.
    #[inline(always)]
    pub fn is_only(&self, name: &[u8], field_type: FieldType) -> bool {
        matches!((self.types.as_slice(), self.names.as_slice()), ([known], [field]) if *known == field_type && field.as_bytes() == name)
    }

    /// The column of a field. Rows mostly have their fields in the layout's order, so it is
    /// looked for at `expected` first.
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
    /// All but the empty and the lost ones, by the layout that they extend and by which field.
    next: HashTable<u32>,
    /// How many descriptions are lost.
    lost: usize,
    hasher: foldhash::fast::RandomState,
    memory: usize,
}

impl Layouts {
    /// Only the empty layout.
    pub fn new() -> Layouts {
        Layouts {
            all: vec![Arc::new(Layout::default())],
            next: HashTable::new(),
            lost: 0,
            hasher: foldhash::fast::RandomState::default(),
            memory: 0,
        }
    }

    /// The layout of a number.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&Arc<Layout>> {
        self.all.get(number as usize)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// All of them, by number.
    pub fn all(&self) -> &[Arc<Layout>] {
        &self.all
    }

    /// Returns whether the description of a layout is lost.
    pub fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// A layout with one field more; and whether it is new.
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

    /// Keeps numbers below `up_to` for layouts whose description is lost.
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

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.memory
    }
}
