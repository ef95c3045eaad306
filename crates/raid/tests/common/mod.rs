//! Shared parts of tests of running arrays.

#![allow(dead_code, reason = "not every test uses all of it")]

pub mod assembled;

use seiner_platform::sim::Rng;
use seiner_raid::{Array, Block, Device, Member, Page, Ram};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Returns a page with a fill byte and a tag.
pub fn page(fill: u8, tag: u64) -> Page {
    let mut page = Page::zero();
    page.bytes_mut().fill(fill);
    page.bytes_mut()[..8].copy_from_slice(&tag.to_le_bytes());
    page
}

/// Creates a member in a file.
pub fn file(dir: &Path, name: &str, bytes: u64) -> Device {
    Device::create(&dir.join(name), bytes).unwrap()
}

/// Waits until a condition holds. Panics after a timeout.
pub fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "{what}: not within a minute"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A member in memory that fails on request.
pub struct Flaky {
    ram: Ram,
    broken: AtomicBool,
}

impl Flaky {
    /// Creates a working member.
    pub fn new(ram: Ram) -> Flaky {
        Flaky {
            ram,
            broken: AtomicBool::new(false),
        }
    }

    /// Makes all further operations fail.
    pub fn break_it(&self) {
        self.broken.store(true, Ordering::SeqCst);
    }

    fn check(&self) -> io::Result<()> {
        match self.broken.load(Ordering::SeqCst) {
            true => Err(io::Error::other("broken on purpose")),
            false => Ok(()),
        }
    }
}

impl Member for Flaky {
    fn name(&self) -> String {
        "flaky".to_string()
    }

    fn bytes(&self) -> u64 {
        self.ram.bytes()
    }

    fn read(&self, offset: u64, pages: &mut [Page]) -> io::Result<()> {
        self.check()?;
        self.ram.read(offset, pages)
    }

    fn write(&self, offset: u64, pages: &[Page], durable: bool) -> io::Result<()> {
        self.check()?;
        self.ram.write(offset, pages, durable)
    }

    fn flush(&self) -> io::Result<()> {
        self.check()
    }
}

/// Power supply of several members, which fails after a number of writes. For some members flushes count too.
pub struct Power(AtomicU64);

impl Power {
    /// Creates a supply that lasts for a number of writes of any member.
    pub fn for_writes(writes: u64) -> Arc<Power> {
        Arc::new(Power(AtomicU64::new(writes)))
    }

    /// Returns the number of writes left.
    pub fn left(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Consumes power for a number of writes.
    pub fn spend(&self, writes: u64) -> io::Result<()> {
        let less = |left: u64| (left > 0).then(|| left.saturating_sub(writes));
        let spent = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        spent.map(drop).map_err(|_| io::Error::other("no power"))
    }

    /// Sets the number of writes left.
    pub fn set(&self, writes: u64) {
        self.0.store(writes, Ordering::SeqCst);
    }

    /// Cuts the power.
    pub fn cut(&self) {
        self.set(0);
    }
}

/// A member that keeps its contents after a power cut and rejects all further operations.
pub struct Powered {
    ram: Arc<Ram>,
    power: Arc<Power>,
}

impl Powered {
    /// Creates a member with a supply.
    pub fn member(ram: &Arc<Ram>, power: &Arc<Power>) -> Arc<dyn Member> {
        Arc::new(Powered {
            ram: ram.clone(),
            power: power.clone(),
        })
    }
}

impl Member for Powered {
    fn name(&self) -> String {
        "powered".to_string()
    }

    fn bytes(&self) -> u64 {
        self.ram.bytes()
    }

    fn read(&self, offset: u64, pages: &mut [Page]) -> io::Result<()> {
        self.power.spend(0)?;
        self.ram.read(offset, pages)
    }

    fn write(&self, offset: u64, pages: &[Page], durable: bool) -> io::Result<()> {
        self.power.spend(1)?;
        self.ram.write(offset, pages, durable)
    }

    fn flush(&self) -> io::Result<()> {
        self.power.spend(0)
    }
}

/// Expected contents of an array.
pub struct Plain {
    pages: Vec<Page>,
    /// For blocks with unknown contents: the further possible contents.
    allowed: BTreeMap<usize, Vec<Page>>,
}

impl Plain {
    /// Expects zeroes.
    pub fn new(array: &Array) -> Plain {
        Plain {
            pages: vec![Page::zero(); (array.bytes() / 4096) as usize],
            allowed: BTreeMap::new(),
        }
    }

    /// Executes and verifies many writes and some reads, several at a time.
    pub fn load(&mut self, array: &Array, seed: u64, rounds: u64) {
        let mut rng = Rng::new(seed);
        let size = self.pages.len() as u64;
        for round in 0..rounds / 10 {
            let (sender, results) = channel();
            let mut place = rng.below(size / 2);
            for at in 0..10u64 {
                let blocks = rng.between(1, 40);
                let start = match rng.chance(1, 2) {
                    true => place,
                    false => rng.below(size - blocks),
                };
                place = (start + blocks) % (size - 64);
                let data: Vec<Page> = (0..blocks)
                    .map(|block| page(at as u8, (seed << 40) | (round << 16) | (start + block)))
                    .collect();
                self.pages[start as usize..][..blocks as usize].clone_from_slice(&data);
                let durable = rng.chance(1, 20);
                let sender = sender.clone();
                let command = seiner_raid::Command::Write {
                    start,
                    data,
                    durable,
                };
                array.submit(
                    command,
                    Box::new(move |result| sender.send(result.map(drop)).unwrap()),
                );
            }
            drop(sender);
            results.iter().for_each(|result| result.unwrap());
            if rng.chance(1, 5) {
                array.flush().unwrap();
            }
            let blocks = rng.between(1, 100);
            let start = rng.below(size - blocks);
            self.check(array, start, blocks);
        }
    }

    /// Writes a block durably.
    pub fn write(&mut self, array: &Array, block: u64, page: Page) {
        array.write(block, vec![page.clone()], true).unwrap();
        self.pages[block as usize] = page;
    }

    /// Returns the expected contents of a block.
    pub fn page(&self, block: u64) -> &Page {
        &self.pages[block as usize]
    }

    fn check(&self, array: &Array, start: u64, blocks: u64) {
        let read = array.read(start, blocks).unwrap();
        for (block, found) in (start..).zip(read) {
            assert!(
                found.same(&self.pages[block as usize]),
                "block {block} is wrong"
            );
        }
    }

    /// Writes until the power fails. Acknowledged writes must survive, others may or may not.
    pub fn load_until_it_fails(&mut self, array: &Array, seed: u64) {
        let mut rng = Rng::new(seed);
        let size = self.pages.len() as u64;
        for round in 0.. {
            let (sender, results) = channel();
            for at in 0..8u64 {
                let blocks = rng.between(1, 20);
                let start = rng.below(size - blocks);
                let tag = (seed << 40) | (round << 16) | at;
                let data = vec![page(round as u8, tag); blocks as usize];
                let sender = sender.clone();
                let command = seiner_raid::Command::Write {
                    start,
                    data: data.clone(),
                    durable: false,
                };
                let completion = move |result: Result<Vec<Page>, _>| {
                    sender.send((start, data, result.is_ok())).unwrap()
                };
                array.submit(command, Box::new(completion));
            }
            drop(sender);
            let mut failed = false;
            for (start, data, acknowledged) in results {
                failed |= !acknowledged;
                for (block, page) in (start as usize..).zip(data) {
                    // Several writes to the block may have been in flight.
                    self.allowed.entry(block).or_default().push(page);
                }
            }
            if failed {
                return;
            }
            if !self.learn(array) {
                return;
            }
        }
    }

    /// Reads blocks with several possible contents. The contents found are expected from now on. Returns
    /// whether all blocks could be read.
    pub fn learn(&mut self, array: &Array) -> bool {
        while let Some((block, pages)) = self.allowed.pop_first() {
            let Ok(mut found) = array.read(block as u64, 1) else {
                self.allowed.insert(block, pages);
                return false;
            };
            let found = found.remove(0);
            let known =
                found.same(&self.pages[block]) || pages.iter().any(|page| page.same(&found));
            assert!(known, "block {block} is wrong");
            self.pages[block] = found;
        }
        true
    }

    /// Reads and verifies all blocks.
    pub fn compare(&self, array: &Array) {
        self.check(array, 0, self.pages.len() as u64);
    }
}
