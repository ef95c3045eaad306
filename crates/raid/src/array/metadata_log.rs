//! Metadata log: the superblocks and intent records on the members of a running array.

use super::ArraySettings;
use crate::block::Page;
use crate::driver::{Bell, Driver};
use crate::geometry::BLOCK_BYTES;
use crate::member::Member;
use crate::record::{Intent, Superblock, intent_page, superblock_offsets};
use crate::request::{Action, Outcome};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Metadata log of an array, with a driver that writes records to all members at once.
pub struct MetadataLog {
    superblock: Superblock,
    intent: Intent,
    driver: Driver,
    /// Maximum time for a record to be written, after which the member counts as failed.
    patience: Duration,
    /// Name of the next write. Each name is used once, because a write that timed out may still end later.
    next: u64,
}

/// Index of a member and its device.
pub type IndexedMember = (usize, Arc<dyn Member>);

/// A block to write: the member, the offset in bytes, and the contents.
type BlockWrite = (IndexedMember, u64, Page);

impl MetadataLog {
    /// Creates the log with the last recorded contents. The calling thread must be the one that writes records.
    ///
    /// # Errors
    /// If the system cannot provide an event or a driver.
    pub fn new(
        superblock: Superblock,
        intent: Intent,
        settings: &ArraySettings,
    ) -> io::Result<MetadataLog> {
        let patience = match settings.patience {
            Duration::ZERO => Duration::from_secs(1 << 30),
            patience => patience,
        };
        Ok(MetadataLog {
            superblock,
            intent,
            driver: Driver::new(settings.method, Arc::new(Bell::new()?))?,
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
    pub fn write_superblocks(&mut self, members: &[IndexedMember]) -> Vec<usize> {
        self.superblock.generation += 1;
        let copy = |(member, device): &IndexedMember, copy: usize| {
            let superblock = Superblock {
                index: Some(*member),
                ..self.superblock.clone()
            };
            let place = superblock_offsets(device.bytes())[copy];
            (
                (*member, device.clone()),
                place,
                Page::copy_of(&superblock.encode()),
            )
        };
        let [first, last]: [Vec<BlockWrite>; 2] = [0, 1].map(|number| {
            members
                .iter()
                .map(|members| copy(members, number))
                .collect()
        });
        let mut failed = self.write(first);
        let last = last
            .into_iter()
            .filter(|((member, _), ..)| !failed.contains(member));
        failed.extend(self.write(last.collect()));
        failed
    }

    /// Writes the intent record. Returns the members whose write failed.
    pub fn write_intent(&mut self, members: &[IndexedMember]) -> Vec<usize> {
        self.intent.sequence += 1;
        let (place, page) = intent_page(&self.intent, self.superblock.array);
        let writes = members
            .iter()
            .map(|members| (members.clone(), place, page.clone()));
        self.write(writes.collect())
    }

    /// Writes all blocks at once and waits for them. Returns the members whose write failed.
    fn write(&mut self, writes: Vec<BlockWrite>) -> Vec<usize> {
        let mut waiting: BTreeMap<u64, usize> = BTreeMap::new();
        for ((member, device), place, page) in writes {
            let action = Action::Write {
                start: place / BLOCK_BYTES as u64,
                data: vec![page],
                durable: true,
            };
            self.next += 1;
            self.driver.submit(self.next, &device, 0, action);
            waiting.insert(self.next, member);
        }
        #[allow(
            clippy::disallowed_methods,
            reason = "times operations of real devices"
        )]
        let (begin, mut failed, mut ended) = (Instant::now(), Vec::new(), Vec::new());
        while !waiting.is_empty() {
            let left = self.patience.saturating_sub(begin.elapsed());
            if left.is_zero() {
                self.driver.abandon();
                failed.extend(waiting.into_values());
                break;
            }
            let waited = self.driver.wait(Some(left), || true);
            waited.expect("the kernel supports this wait");
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
