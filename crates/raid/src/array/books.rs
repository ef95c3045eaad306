//! What is on record on the members of a running array.

use crate::block::Page;
use crate::driver::{Bell, Driver, Method};
use crate::geometry::BLOCK_BYTES;
use crate::member::Member;
use crate::record::{Intent, Superblock, intent_page, places};
use crate::request::{Action, Outcome};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a member may take for a record before it is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// The records of an array, and a way to write them to all members at once.
pub struct Books {
    superblock: Superblock,
    intent: Intent,
    driver: Driver,
}

/// A place in the array and its device.
pub type Placed = (usize, Arc<dyn Member>);

/// Something for every member: where it goes, and what.
type Sheet = (Placed, u64, Page);

impl Books {
    /// As they were left, to be written by the thread that calls this.
    ///
    /// # Errors
    /// The system's.
    pub fn new(superblock: Superblock, intent: Intent, method: Method) -> io::Result<Books> {
        Ok(Books {
            superblock,
            intent,
            driver: Driver::new(method, Arc::new(Bell::new()?))?,
        })
    }

    /// The superblock, but for the index.
    pub fn superblock(&mut self) -> &mut Superblock {
        &mut self.superblock
    }

    /// The intent record.
    pub fn intent(&mut self) -> &mut Intent {
        &mut self.intent
    }

    /// Writes superblocks of the next generation. Gives the members that could not be written.
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

    /// Writes the intent record. Gives the members that could not be written.
    pub fn write_intent(&mut self, members: &[Placed]) -> Vec<usize> {
        self.intent.sequence += 1;
        let (place, page) = intent_page(&self.intent, self.superblock.array);
        let sheets = members
            .iter()
            .map(|placed| (placed.clone(), place, page.clone()));
        self.write(sheets.collect())
    }

    /// Writes to all at once and waits for all; gives those that failed.
    fn write(&mut self, sheets: Vec<Sheet>) -> Vec<usize> {
        let mut waiting: Vec<usize> = Vec::new();
        for ((member, device), place, page) in sheets {
            let action = Action::Write {
                start: place / BLOCK_BYTES as u64,
                data: vec![page],
                durable: true,
            };
            self.driver.submit(member as u64, &device, 0, action);
            waiting.push(member);
        }
        let (begin, mut failed, mut ended) = (Instant::now(), Vec::new(), Vec::new());
        while !waiting.is_empty() {
            let left = PATIENCE.saturating_sub(begin.elapsed());
            if left.is_zero() {
                failed.append(&mut waiting);
                break;
            }
            let waited = self.driver.wait(Some(left), || true);
            waited.expect("the kernel waits as it promised");
            self.driver.take(&mut ended);
            for (name, outcome) in ended.drain(..) {
                let member = name as usize;
                waiting.retain(|&waiting| waiting != member);
                if !matches!(outcome, Outcome::Done) {
                    failed.push(member);
                }
            }
        }
        failed
    }
}
