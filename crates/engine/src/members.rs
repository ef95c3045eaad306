//! Members: the class of each source, and which sources are levels of others.
//!
//! A source does not change until it is forgotten. Both the head and the log read them, so they are
//! shared. The lock inside is held for one access and comes after all other locks.

use crate::retention::class::Classes;
use crate::retention::counts::Counts;
use roaring::RoaringBitmap;
use seiner_model::SourceKey;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Classes of a store's sources.
pub struct Members {
    classes: Classes,
    count: AtomicU32,
    /// True from the first level or absent number on. Most stores have neither, and then need no lock.
    has_marks: AtomicBool,
    lists: RwLock<Lists>,
}

#[derive(Default)]
struct Lists {
    /// Class of each source, in pages that never move. Unused if there is only one class.
    classes: Counts<u8>,
    levels: RoaringBitmap,
    /// Numbers without a source.
    absent: RoaringBitmap,
}

impl Members {
    /// Creates the members of a store without sources.
    pub fn new(classes: Classes) -> Members {
        Members::unnamed(classes, 0)
    }

    /// Creates `count` sources without names, in a store with one class.
    ///
    /// # Panics
    /// If there are sources and several classes.
    pub fn unnamed(classes: Classes, count: u32) -> Members {
        assert!(
            count == 0 || classes.list().len() == 1,
            "a source without a name has no class of its own"
        );
        Members {
            classes,
            count: AtomicU32::new(count),
            has_marks: AtomicBool::new(false),
            lists: RwLock::default(),
        }
    }

    /// Returns the classes.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// Returns how many numbers of sources exist, including those of levels and of forgotten sources.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Adds a source, or a level of a source, with the next number or that of a forgotten source.
    /// `key` is called only if there are several classes.
    pub fn put(&self, source: u32, is_level: bool, key: impl FnOnce() -> SourceKey) {
        let is_reused = source < self.count();
        if is_level || is_reused || self.has_several() {
            let class = self.has_several().then(|| self.classes.of(&key()));
            let mut lists = self.lists.write().unwrap_or_else(PoisonError::into_inner);
            lists.absent.remove(source);
            if is_level {
                lists.levels.insert(source);
                self.has_marks.store(true, Ordering::Release);
            }
            if let Some(class) = class {
                *lists.classes.of(source) = class;
            }
        }
        self.count.fetch_max(source + 1, Ordering::Release);
    }

    /// Removes sources, whose numbers no source has from then on. A number may be the next.
    pub fn remove(&self, sources: &RoaringBitmap) {
        let Some(last) = sources.max() else {
            return;
        };
        let mut lists = self.lists.write().unwrap_or_else(PoisonError::into_inner);
        lists.levels -= sources;
        lists.absent |= sources;
        self.has_marks.store(true, Ordering::Release);
        self.count.fetch_max(last + 1, Ordering::Release);
    }

    /// Returns whether no source has a number.
    pub fn is_absent(&self, source: u32) -> bool {
        self.has_marks() && self.lists().absent.contains(source)
    }

    /// Returns the first of some numbers without a source.
    pub fn find_absent(&self, mut numbers: impl Iterator<Item = u32>) -> Option<u32> {
        if !self.has_marks() {
            return None;
        }
        let lists = self.lists();
        numbers.find(|number| lists.absent.contains(*number))
    }

    /// Returns the numbers without a source.
    pub fn absent(&self) -> RoaringBitmap {
        self.lists().absent.clone()
    }

    /// Returns the number of sources, without levels.
    pub fn sources(&self) -> u64 {
        let lists = self.lists();
        u64::from(self.count()) - lists.absent.len() - lists.levels.len()
    }

    /// Returns the class of a source. A source without a name has the last named class.
    pub fn class_of(&self, source: u32) -> u8 {
        let last = (self.classes.named().len() - 1) as u8;
        if !self.has_several() {
            return last;
        }
        match source < self.count() {
            true => self.lists().classes.get(source),
            false => last,
        }
    }

    /// Returns whether a source is a level of another.
    pub fn is_level(&self, source: u32) -> bool {
        self.has_marks() && self.lists().levels.contains(source)
    }

    /// Returns the number of levels.
    pub fn levels(&self) -> u64 {
        self.lists().levels.len()
    }

    /// Returns the number of sources by class, without levels.
    pub fn by_class(&self) -> Vec<u64> {
        let mut count = vec![0; self.classes.list().len()];
        let lists = self.lists();
        if let [only] = count.as_mut_slice() {
            *only = u64::from(self.count()) - lists.absent.len() - lists.levels.len();
            return count;
        }
        for source in 0..self.count() {
            count[lists.classes.get(source) as usize] += 1;
        }
        for source in &lists.absent {
            count[lists.classes.get(source) as usize] -= 1;
        }
        let named = self.classes.named().len();
        for level in &lists.levels {
            let class = lists.classes.get(level) as usize;
            // Levels of earlier rules are kept like samples, but are not counted as sources of the
            // class.
            count[class] -= u64::from(class < named);
        }
        count
    }

    /// Returns the bytes of memory.
    pub fn memory(&self) -> usize {
        let lists = self.lists();
        lists.classes.memory() + lists.levels.serialized_size() + lists.absent.serialized_size()
    }

    #[inline]
    fn has_marks(&self) -> bool {
        self.has_marks.load(Ordering::Acquire)
    }

    fn has_several(&self) -> bool {
        self.classes.list().len() > 1
    }

    fn lists(&self) -> RwLockReadGuard<'_, Lists> {
        self.lists.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retention::class::Class;

    fn key(name: &str) -> SourceKey {
        SourceKey::new(name, [("a", "b")]).unwrap()
    }

    #[test]
    fn sources_have_the_class_that_selects_them_and_strangers_the_last() {
        let special = Class {
            name: "special".to_string(),
            sources: "m".to_string(),
            ..Class::forever()
        };
        let classes = Classes::new(vec![special, Class::forever()]).unwrap();
        let members = Members::new(classes);
        for (number, name) in (0..).zip(["m", "n", "m"]) {
            members.put(number, false, || key(name));
        }
        members.put(3, true, || key("m"));
        let of: Vec<u8> = (0..5).map(|source| members.class_of(source)).collect();
        assert_eq!(of, [0, 1, 0, 0, 1]);
        assert_eq!((members.count(), members.levels()), (4, 1));
        assert!(members.is_level(3) && !members.is_level(2));
        assert_eq!((members.by_class(), members.sources()), (vec![2, 1], 3));
        members.remove(&RoaringBitmap::from_iter([0, 3]));
        assert_eq!((members.by_class(), members.sources()), (vec![1, 1], 2));
        assert!(members.is_absent(3) && !members.is_level(3));
        members.put(0, false, || key("n"));
        assert_eq!((members.by_class(), members.sources()), (vec![1, 2], 3));
        assert_eq!((members.class_of(0), members.count()), (1, 4));
    }

    #[test]
    fn names_are_not_read_with_a_single_class() {
        let members = Members::new(Classes::default());
        members.put(0, false, || panic!("the name must not be read"));
        assert_eq!((members.class_of(0), members.by_class()), (0, vec![1]));
    }
}
