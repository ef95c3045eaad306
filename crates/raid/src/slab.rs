//! Things under small numbers that are used again.

/// Items, each under a number of its own while it is here.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Slab<T> {
    /// Without items.
    pub fn new() -> Slab<T> {
        Slab {
            items: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Keeps an item and gives its number.
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

    /// Takes an item out; none if the number is not in use.
    pub fn remove(&mut self, at: usize) -> Option<T> {
        let item = self.items.get_mut(at)?.take()?;
        self.free.push(at);
        Some(item)
    }

    /// An item.
    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.items.get_mut(at)?.as_mut()
    }

    /// How many items are here.
    pub fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }
}
