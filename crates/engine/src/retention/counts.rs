//! Numbers by source, in pages: growth copies nothing and leaves no spare half.

const PAGE: usize = 4096;

/// Array of one number per source, in pages.
#[derive(Default)]
pub struct Counts<T = u64>(Vec<Box<[T; PAGE]>>);

impl<T: Copy + Default> Counts<T> {
    /// Returns the number of a source, or 0 if it was never set.
    pub fn get(&self, source: u32) -> T {
        let page = self.0.get(source as usize / PAGE);
        page.map_or_else(T::default, |page| page[source as usize % PAGE])
    }

    /// Returns the number of a source, mutably. Sources are added without gaps.
    pub fn of(&mut self, source: u32) -> &mut T {
        let page = source as usize / PAGE;
        while self.0.len() <= page {
            self.0.push(Box::new([T::default(); PAGE]));
        }
        &mut self.0[page][source as usize % PAGE]
    }

    /// Sets the number of a source to 0.
    pub fn reset(&mut self, source: u32) {
        if let Some(page) = self.0.get_mut(source as usize / PAGE) {
            page[source as usize % PAGE] = T::default();
        }
    }

    /// Returns the number of a source by reference. The source's page exists.
    pub fn place(&self, source: u32) -> &T {
        &self.0[source as usize / PAGE][source as usize % PAGE]
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        self.0.len() * size_of::<[T; PAGE]>()
    }
}
