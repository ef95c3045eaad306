//! Storage of items under small, reusable numbers.

/// Items, each under a number that is unique while the item is stored.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Slab<T> {
    /// Creates an empty slab.
    pub fn new() -> Slab<T> {
        Slab {
            items: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Stores an item and returns its number.
    pub fn insert(&mut self, item: T) -> usize {
        match self.free.pop() {
            Some(at) => {
                self.items[at] = Some(item);
                at
            }
            None => {
                self.items.push(Some(item));
                self.items.len() - 1
            }
        }
    }

    /// Removes and returns an item; `None` if the number is not in use.
    pub fn remove(&mut self, at: usize) -> Option<T> {
        let item = self.items.get_mut(at)?.take()?;
        self.free.push(at);
        Some(item)
    }

    /// Returns an item; `None` if the number is not in use.
    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.items.get_mut(at)?.as_mut()
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }
}
