//! A member with a checksum for every block, to detect silent corruption.
//!
//! Checksums are stored behind the data, 1,024 per block (`docs/format/raid.md`). They are cached in memory
//! until the member is flushed, so that a run of small writes costs one block of checksums. A durable write
//! stores its checksums at once.
//!
//! Invariants:
//! - The checksums of an acknowledged durable write, and of every write before a completed flush, are on the
//!   member.
//! - If a crash may have come between a block and its checksum, the region is marked in the intent record. The
//!   array then reads by [`Member::adopt`], which accepts the contents and recomputes the checksums.

use super::Member;
use crate::block::{Block, Page};
use crate::checksum::{Checksum, PER_BLOCK, Sums};
use crate::geometry::BLOCK_BYTES;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thiserror::Error;

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Maximum number of cached blocks of checksums: those for 16 GiB of data.
const KEPT: usize = 4096;

/// Error: the contents of a block differ from what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the block at byte {offset} has checksum {found}, and {expected} was written")]
pub struct Corrupt {
    /// Offset of the block on the member, in bytes.
    pub offset: u64,
    /// Stored checksum.
    pub expected: Checksum,
    /// Checksum of the contents.
    pub found: Checksum,
}

/// A cached block of checksums.
struct CachedSums {
    sums: Sums,
    /// State of the contents on the member.
    state: SumsState,
    /// Count of cache uses at the last use of this block.
    used: u64,
}

/// State of a cached block of checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SumsState {
    /// The contents survive a power cut.
    Durable,
    /// The contents were written, but the member was not flushed since.
    Written,
    /// The contents differ from those on the member.
    Changed,
}

#[derive(Default)]
struct Cache {
    kept: BTreeMap<u64, CachedSums>,
    uses: u64,
}

/// A member with checksums of its data.
pub struct Checked {
    member: Arc<dyn Member>,
    /// Range of the data, and start of the checksums, in bytes.
    data: std::ops::Range<u64>,
    sums: u64,
    cache: Mutex<Cache>,
    /// Lock for writes of checksums: an older state of a block must not overwrite a newer one.
    writing: Mutex<()>,
}

impl Checked {
    /// Creates a member with data in the range `data` and checksums from `sums` on, in bytes.
    pub fn new(member: Arc<dyn Member>, data: std::ops::Range<u64>, sums: u64) -> Checked {
        Checked {
            member,
            data,
            sums,
            cache: Mutex::new(Cache::default()),
            writing: Mutex::new(()),
        }
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_data(&self, offset: u64) -> bool {
        self.data.contains(&offset)
    }

    /// Returns the block of checksums for a block of data, and the index within it.
    fn place(&self, offset: u64) -> (u64, usize) {
        let block = (offset - self.data.start) / BLOCK;
        (block / PER_BLOCK, (block % PER_BLOCK) as usize)
    }

    /// Returns a block of checksums. Reads the block if it is not cached.
    fn sums<'a>(&self, cache: &'a mut Cache, number: u64) -> io::Result<&'a mut CachedSums> {
        cache.uses += 1;
        if !cache.kept.contains_key(&number) {
            self.evict(cache)?;
            let mut page = [Page::zero()];
            self.member.read(self.sums + number * BLOCK, &mut page)?;
            let kept = CachedSums {
                sums: Sums::decode(page[0].bytes()),
                state: SumsState::Durable,
                used: 0,
            };
            cache.kept.insert(number, kept);
        }
        let uses = cache.uses;
        let kept = cache
            .kept
            .get_mut(&number)
            .expect("the block was inserted if it was missing");
        kept.used = uses;
        Ok(kept)
    }

    /// Evicts the less recently used half of the cache if it is full. Writers that wait for one of these blocks
    /// to become durable are not affected.
    fn evict(&self, cache: &mut Cache) -> io::Result<()> {
        if cache.kept.len() < KEPT {
            return Ok(());
        }
        let mut by_use: Vec<(u64, u64)> = cache
            .kept
            .iter()
            .map(|(&number, kept)| (kept.used, number))
            .collect();
        by_use.sort_unstable();
        for &(_, number) in &by_use[..KEPT / 2] {
            let kept = cache
                .kept
                .remove(&number)
                .expect("the number was just listed");
            if kept.state != SumsState::Durable {
                let page = Page::copy_of(&kept.sums.encode());
                self.member
                    .write(self.sums + number * BLOCK, &[page], true)?;
            }
        }
        Ok(())
    }

    /// Returns the first block whose contents do not match its checksum.
    fn verify(&self, offset: u64, pages: &[Page]) -> io::Result<Option<Corrupt>> {
        let found: Vec<Checksum> = pages
            .iter()
            .map(|page| Checksum::of(page.bytes()))
            .collect();
        let mut cache = self.cache();
        for (at, found) in found.into_iter().enumerate() {
            let offset = offset + at as u64 * BLOCK;
            let (number, place) = self.place(offset);
            let expected = self.sums(&mut cache, number)?.sums.get(place);
            if found != expected {
                return Ok(Some(Corrupt {
                    offset,
                    expected,
                    found,
                }));
            }
        }
        Ok(None)
    }

    /// Stores checksums in the cache. Returns the numbers of the changed blocks of checksums.
    fn note(
        &self,
        offset: u64,
        checksums: impl IntoIterator<Item = Checksum>,
    ) -> io::Result<Vec<u64>> {
        let mut cache = self.cache();
        let mut changed = Vec::new();
        for (at, checksum) in checksums.into_iter().enumerate() {
            let (number, place) = self.place(offset + at as u64 * BLOCK);
            let kept = self.sums(&mut cache, number)?;
            if kept.sums.get(place) != checksum {
                kept.sums.set(place, checksum);
                kept.state = SumsState::Changed;
            }
            if kept.state != SumsState::Durable && changed.last() != Some(&number) {
                changed.push(number);
            }
        }
        Ok(changed)
    }

    /// Marks blocks of checksums as durable, unless they changed after they were written.
    fn mark_durable(&self, numbers: &[u64]) {
        let mut cache = self.cache();
        for number in numbers {
            if let Some(kept) = cache.kept.get_mut(number)
                && kept.state == SumsState::Written
            {
                kept.state = SumsState::Durable;
            }
        }
    }

    fn writing(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the given blocks of checksums to the member, unless the member has them already.
    fn write_sums(&self, _: &MutexGuard<'_, ()>, numbers: &[u64], durable: bool) -> io::Result<()> {
        for &number in numbers {
            let page = {
                let mut cache = self.cache();
                let Some(kept) = cache.kept.get_mut(&number) else {
                    continue;
                };
                // Another thread may have written the block meanwhile.
                if kept.state == SumsState::Durable
                    || (kept.state == SumsState::Written && !durable)
                {
                    continue;
                }
                kept.state = SumsState::Written;
                Page::copy_of(&kept.sums.encode())
            };
            self.member
                .write(self.sums + number * BLOCK, &[page], durable)?;
            if durable {
                self.mark_durable(&[number]);
            }
        }
        Ok(())
    }
}

impl Member for Checked {
    fn name(&self) -> String {
        self.member.name()
    }

    fn bytes(&self) -> u64 {
        self.member.bytes()
    }

    fn read(&self, offset: u64, pages: &mut [Page]) -> io::Result<()> {
        self.member.read(offset, pages)?;
        if !self.is_data(offset) {
            return Ok(());
        }
        match self.verify(offset, pages)? {
            None => Ok(()),
            Some(corrupt) => Err(io::Error::new(io::ErrorKind::InvalidData, corrupt)),
        }
    }

    fn adopt(&self, offset: u64, pages: &mut [Page]) -> io::Result<()> {
        self.member.read(offset, pages)?;
        if !self.is_data(offset) || self.verify(offset, pages)?.is_none() {
            return Ok(());
        }
        let checksums = pages.iter().map(|page| Checksum::of(page.bytes()));
        let changed = self.note(offset, checksums)?;
        // The mark of the region may be cleared before the member is flushed.
        self.write_sums(&self.writing(), &changed, true)
    }

    fn write(&self, offset: u64, pages: &[Page], durable: bool) -> io::Result<()> {
        self.member.write(offset, pages, durable)?;
        if !self.is_data(offset) {
            return Ok(());
        }
        let checksums = pages.iter().map(|page| Checksum::of(page.bytes()));
        let changed = self.note(offset, checksums)?;
        match durable {
            true => self.write_sums(&self.writing(), &changed, true),
            false => Ok(()),
        }
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.member.discard(offset, bytes)?;
        let zeroes = (0..bytes / BLOCK).map(|_| Checksum::ZEROES);
        self.note(offset, zeroes).map(drop)
    }

    fn discards(&self) -> bool {
        self.member.discards()
    }

    fn keeps_space(&self) -> bool {
        self.member.keeps_space()
    }

    fn flush(&self) -> io::Result<()> {
        let writing = self.writing();
        let in_state = |state: SumsState| -> Vec<u64> {
            let cache = self.cache();
            let found = cache.kept.iter().filter(|(_, kept)| kept.state == state);
            found.map(|(&number, _)| number).collect()
        };
        self.write_sums(&writing, &in_state(SumsState::Changed), false)?;
        let written = in_state(SumsState::Written);
        self.member.flush()?;
        self.mark_durable(&written);
        Ok(())
    }

    /// Returns `None`: blocks must pass through this type.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn is_instant(&self) -> bool {
        self.member.is_instant()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::Ram;

    const DATA: std::ops::Range<u64> = 8192..8192 + (8 << 20);

    fn checked(ram: &Arc<Ram>) -> Checked {
        Checked::new(ram.clone(), DATA, DATA.end)
    }

    fn page(fill: u8) -> Page {
        Page::copy_of(&[fill; BLOCK_BYTES])
    }

    #[test]
    fn corrupt_blocks_are_rejected_until_they_are_adopted() {
        let ram = Arc::new(Ram::new(16 << 20));
        let member = checked(&ram);
        let mut read = vec![Page::zero(); 3];
        member.read(8192, &mut read).unwrap();
        member.write(12288, &[page(1), page(2)], false).unwrap();
        member.read(8192, &mut read).unwrap();
        assert!(read[2].same(&page(2)));
        ram.write(16384, &[page(3)], true).unwrap();
        let error = member.read(8192, &mut read).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains("byte 16384"), "{error}");
        member.read(8192, &mut read[..2]).unwrap();
        member.adopt(8192, &mut read).unwrap();
        member.read(8192, &mut read).unwrap();
        assert!(read[2].same(&page(3)));
        // Records before and behind the data are not covered by these checksums.
        member.write(4096, &[page(9)], true).unwrap();
        ram.write(4096, &[page(8)], true).unwrap();
        member.read(4096, &mut read[..1]).unwrap();
    }

    #[test]
    fn checksums_are_stored_by_a_durable_write_or_a_flush() {
        for (durable, flush, there) in [
            (true, false, true),
            (false, true, true),
            (false, false, false),
        ] {
            let ram = Arc::new(Ram::new(16 << 20));
            let member = checked(&ram);
            // Uses the last checksum of one block of checksums and the first of the next.
            let place = 8192 + (PER_BLOCK - 1) * BLOCK;
            member.write(place, &[page(1), page(2)], durable).unwrap();
            if flush {
                member.flush().unwrap();
            }
            let again = checked(&ram);
            let mut read = vec![Page::zero(); 2];
            assert_eq!(again.read(place, &mut read).is_ok(), there);
        }
    }

    #[test]
    fn discarded_blocks_contain_zeroes() {
        let ram = Arc::new(Ram::new(16 << 20));
        let member = checked(&ram);
        member.write(8192, &vec![page(7); 1500], true).unwrap();
        member.discard(12288, 1400 * BLOCK).unwrap();
        let mut read = vec![page(1); 1500];
        member.read(8192, &mut read).unwrap();
        assert!(read[0].same(&page(7)) && read[1].same(&Page::zero()));
        assert!(read[1400].same(&Page::zero()) && read[1401].same(&page(7)));
    }

    #[test]
    fn evicted_checksums_are_read_again() {
        let bytes = (KEPT as u64 + 100) * PER_BLOCK * BLOCK;
        let ram = Arc::new(Ram::new(bytes + (bytes >> 10)));
        let member = Checked::new(ram.clone(), 0..bytes, bytes);
        let places: Vec<u64> = (0..KEPT as u64 + 100)
            .map(|at| at * PER_BLOCK * BLOCK)
            .collect();
        for &place in &places {
            member
                .write(place, &[page(place as u8 ^ 5)], false)
                .unwrap();
        }
        let mut read = [Page::zero()];
        for &place in &places {
            member.read(place, &mut read).unwrap();
        }
        ram.write(places[3], &[page(77)], true).unwrap();
        assert!(member.read(places[3], &mut read).is_err());
    }
}
