//! Records on the members of a running array.

use super::Running;
use crate::block::Page;
use crate::driver::{Bell, Driver};
use crate::geometry::BLOCK_BYTES;
use crate::member::Member;
use crate::record::{Intent, Superblock, intent_page, places};
use crate::request::{Action, Outcome};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Records of an array, and a driver that writes them to all members at once.
pub struct Books {
    superblock: Superblock,
    intent: Intent,
    driver: Driver,
    /// Maximum time for a record to be written, after which the member counts as failed.
    patience: Duration,
    /// Name of the next write. Each name is used once, because a write that timed out may still end later.
    next: u64,
}

/// Index of a member and its device.
pub type Placed = (usize, Arc<dyn Member>);

/// A page for a member, with its offset in bytes.
type Sheet = (Placed, u64, Page);

impl Books {
    /// Creates the records with their last contents. The calling thread must be the one that writes them.
    ///
    /// # Errors
    /// If the system cannot provide an event or a driver.
    pub fn new(superblock: Superblock, intent: Intent, running: &Running) -> io::Result<Books> {
        let patience = match running.patience {
            Duration::ZERO => Duration::from_secs(1 << 30),
            patience => patience,
        };
        Ok(Books {
            superblock,
            intent,
            driver: Driver::new(running.method, Arc::new(Bell::new()?))?,
            patience,
            next: 0,
        })
    }

    /// Returns the superblock. Its index is set when it is written.
    pub fn superblock(&mut self) -> &mut Superblock {
        &mut self.superblock
    }

    /// Returns the intent record.
    pub fn intent(&mut self) -> &mut Intent {
        &mut self.intent
    }

    /// Writes superblocks with the next generation. Returns the members whose write failed.
    pub fn write_superblocks(&mut self, members: &[Placed]) -> Vec<usize> {
        self.superblock.generation += 1;
        let copy = |(member, device): &Placed, copy: usize| {
            let superblock = Superblock {
                index: Some(*member),
                ..self.superblock.clone()
            };
            let place = places(device.bytes())[copy];
            (
                (*member, device.clone()),
                place,
                Page::copy_of(&superblock.encode()),
            )
        };
        let [first, last]: [Vec<Sheet>; 2] =
            [0, 1].map(|number| members.iter().map(|placed| copy(placed, number)).collect());
        let mut failed = self.write(first);
        let last = last
            .into_iter()
            .filter(|((member, _), ..)| !failed.contains(member));
        failed.extend(self.write(last.collect()));
        failed
    }

    /// Writes the intent record. Returns the members whose write failed.
    pub fn write_intent(&mut self, members: &[Placed]) -> Vec<usize> {
        self.intent.sequence += 1;
        let (place, page) = intent_page(&self.intent, self.superblock.array);
        let sheets = members
            .iter()
            .map(|placed| (placed.clone(), place, page.clone()));
        self.write(sheets.collect())
    }

    /// Writes all sheets at once and waits for them. Returns the members whose write failed.
    fn write(&mut self, sheets: Vec<Sheet>) -> Vec<usize> {
        let mut waiting: BTreeMap<u64, usize> = BTreeMap::new();
        for ((member, device), place, page) in sheets {
            let action = Action::Write {
                start: place / BLOCK_BYTES as u64,
                data: vec![page],
                durable: true,
            };
            self.next += 1;
            self.driver.submit(self.next, &device, 0, action);
            waiting.insert(self.next, member);
        }
        let (begin, mut failed, mut ended) = (Instant::now(), Vec::new(), Vec::new());
        while !waiting.is_empty() {
            let left = self.patience.saturating_sub(begin.elapsed());
            if left.is_zero() {
                self.driver.abandon();
                failed.extend(waiting.into_values());
                break;
            }
            let waited = self.driver.wait(Some(left), || true);
            waited.expect("the kernel waits as it promised");
            self.driver.take(&mut ended);
            for (name, outcome) in ended.drain(..) {
                if let Some(member) = waiting.remove(&name)
                    && !matches!(outcome, Outcome::Done)
                {
                    failed.push(member);
                }
            }
        }
        failed
    }
}
