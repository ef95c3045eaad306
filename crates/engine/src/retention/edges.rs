//! Edges: the highest time of each source so far, in four bytes.
//!
//! Neighbouring sources have similar times. A page contains the times of its sources in units of a power of two, from
//! a base on, so that they fit in 32 bits: within an hour, a unit is about a microsecond. Two times in the same unit
//! cannot be compared. If that happens, the page changes to exact times of eight bytes: its sources need them.

/// Sources per page.
const PAGE: usize = 256;

/// Highest time of each source. Times are numbers from 1 on.
#[derive(Default)]
pub struct Edges(Vec<Page>);

#[derive(Default)]
enum Page {
    #[default]
    Empty,
    Near(Box<Near>),
    /// Times. Zero for a source without a time.
    Exact(Box<[u64; PAGE]>),
}

/// Times in units.
struct Near {
    /// Exponent of the unit.
    shift: u32,
    /// Unit of the code 1.
    base: u64,
    /// Units behind the base, plus one. Zero for a source without a time.
    codes: [u32; PAGE],
}

impl Edges {
    /// Raises the time of a source. Returns whether the time before was as high or higher. The answer is true as well if
    /// the time before was lower by less than a unit.
    pub fn raise(&mut self, source: u32, time: u64) -> bool {
        let page = source as usize / PAGE;
        if self.0.len() <= page {
            self.0.resize_with(page + 1, Page::default);
        }
        self.0[page].raise(source as usize % PAGE, time)
    }

    /// Removes the time of a source.
    pub fn reset(&mut self, source: u32) {
        let at = source as usize % PAGE;
        match self.0.get_mut(source as usize / PAGE) {
            Some(Page::Near(near)) => near.codes[at] = 0,
            Some(Page::Exact(times)) => times[at] = 0,
            Some(Page::Empty) | None => {}
        }
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        let pages = self.0.iter().map(|page| match page {
            Page::Empty => 0,
            Page::Near(_) => size_of::<Near>(),
            Page::Exact(_) => size_of::<[u64; PAGE]>(),
        });
        pages.sum::<usize>() + self.0.capacity() * size_of::<Page>()
    }
}

impl Page {
    fn raise(&mut self, at: usize, time: u64) -> bool {
        match self {
            Page::Empty => {
                *self = Page::Near(Box::new(Near::new(at, time)));
                false
            }
            Page::Near(near) => match near.raise(at, time) {
                Some(was_higher) => was_higher,
                None => {
                    *self = Page::Exact(Box::new(near.times()));
                    self.raise(at, time)
                }
            },
            Page::Exact(times) => {
                let was_higher = times[at] >= time;
                times[at] = times[at].max(time);
                was_higher
            }
        }
    }
}

impl Near {
    fn new(at: usize, time: u64) -> Near {
        let mut codes = [0; PAGE];
        codes[at] = 1;
        Near {
            shift: 0,
            base: time,
            codes,
        }
    }

    /// Raises a time. Returns whether it was higher, or `None` if it is in the same unit.
    fn raise(&mut self, at: usize, time: u64) -> Option<bool> {
        let code = match self.code(time) {
            Some(code) => code,
            None => {
                self.widen(time);
                self.code(time).expect("the page has room for the time")
            }
        };
        let known = &mut self.codes[at];
        if code == *known {
            return None;
        }
        let was_higher = *known > code;
        *known = code.max(*known);
        Some(was_higher)
    }

    /// Returns the code of a time, if it fits in the page.
    fn code(&self, time: u64) -> Option<u32> {
        let units = (time >> self.shift).checked_sub(self.base)?;
        u32::try_from(units + 1).ok()
    }

    /// Makes room for a time, by a lower base or a larger unit.
    fn widen(&mut self, time: u64) {
        let used = self.codes.iter().filter(|code| **code != 0);
        let last = used.max().map_or(self.base, |code| unit(self.base, *code));
        let (low, high) = (
            self.base.min(time >> self.shift),
            last.max(time >> self.shift),
        );
        // Later times should fit, too.
        let mut more = 0;
        while (high - low) >> more >= u64::from(u32::MAX / 2) {
            more += 1;
        }
        let base = low >> more;
        for code in self.codes.iter_mut().filter(|code| **code != 0) {
            let unit = unit(self.base, *code) >> more;
            *code = (unit - base) as u32 + 1;
        }
        (self.base, self.shift) = (base, self.shift + more);
    }

    /// Returns the times, rounded up.
    fn times(&self) -> [u64; PAGE] {
        self.codes.map(|code| match code {
            0 => 0,
            _ => {
                let unit = unit(self.base, code);
                unit << self.shift | ((1 << self.shift) - 1)
            }
        })
    }
}

/// Returns the unit of a code that is not zero.
fn unit(base: u64, code: u32) -> u64 {
    base + u64::from(code - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn similar_times_take_four_bytes() {
        let mut edges = Edges::default();
        let start = 1_700_000_000_000_000_000_u64;
        for tick in 0..1_000 {
            for source in 0..2_000 {
                let phase = u64::from(source) * 7_919_000;
                let time = start + tick * 10_000_000_000 + phase;
                assert!(!edges.raise(source, time), "tick {tick}, source {source}");
            }
        }
        assert!(edges.memory() < 2_048 * 4 + 800, "{}", edges.memory());
        assert!(edges.raise(7, start));
        assert!(edges.raise(7, start + 500 * 10_000_000_000));
        edges.reset(7);
        assert!(!edges.raise(7, start));
    }

    #[test]
    fn a_wrong_clock_does_not_confuse_its_neighbours() {
        let mut edges = Edges::default();
        let mut confused = 0;
        for tick in 1..10_000_u64 {
            assert!(!edges.raise(0, tick * 10_000_000_000));
            // A block of a fast source begins every tenth of a second.
            let time = 1_700_000_000_000_000_000 + tick * 100_000_000;
            confused += u32::from(edges.raise(1, time));
        }
        // Those in the first unit, which is about a second.
        assert!(confused <= 11, "{confused}");
    }

    proptest! {
        #[test]
        fn a_time_that_was_reached_is_noticed(
            times in prop::collection::vec((0..4_u32, prop_oneof![1..64_u64, 1..=u64::MAX, Just(u64::MAX), (0..64_u64).prop_map(|low| (1 << 60) + (low << 8))]), 0..200),
        ) {
            let (mut edges, mut exact) = (Edges::default(), [None; 4]);
            for (source, time) in times {
                let known = &mut exact[source as usize];
                let was_higher = edges.raise(source, time);
                prop_assert!(was_higher || *known < Some(time));
                *known = (*known).max(Some(time));
            }
        }
    }
}
