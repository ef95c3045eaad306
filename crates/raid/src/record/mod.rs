//! Records on the members: array membership, completeness of members, and regions being written.
//!
//! `docs/format/raid.md` describes the layout of a member: a superblock at the beginning and another at the
//! end, the intent record in two places alternately, and the data from [`DATA_OFFSET`] on.

mod assembly;
mod creation;
mod intent;
mod superblock;

pub use assembly::{AssembleError, AssemblyPlan, FoundDevice, plan};
pub use creation::{CreateError, Creation, create};
pub use intent::{Intent, REGIONS};
pub use superblock::{Superblock, SuperblockError, Uuid};

use crate::block::{Block, Page};
use crate::checksum::blocks_for;
use crate::geometry::BLOCK_BYTES;
use crate::member::Member;
use std::io;

/// Offset of the data on a member, in bytes.
pub const DATA_OFFSET: u64 = 1 << 20;
/// Offset of the first superblock.
const FIRST: u64 = 0;
/// Offsets of the two intent records.
const INTENTS: [u64; 2] = [4096, 8192];

/// Number of bytes of a device that are not available for data (checksums not included).
pub const OVERHEAD: u64 = DATA_OFFSET + BLOCK_BYTES as u64;

/// Returns the minimum size of a member in bytes.
pub fn space_needed(superblock: &Superblock) -> u64 {
    let data = superblock.data();
    let block = BLOCK_BYTES as u64;
    let checksums = match superblock.checksums {
        true => blocks_for((data.end - data.start) / block) * block,
        false => 0,
    };
    data.end + checksums + block
}

/// Returns the offsets of the two superblocks on a device of `bytes` bytes.
pub fn superblock_offsets(bytes: u64) -> [u64; 2] {
    [FIRST, bytes.saturating_sub(BLOCK_BYTES as u64)]
}

fn page_at(device: &dyn Member, offset: u64) -> io::Result<Page> {
    let mut pages = [Page::zero()];
    device.read(offset, &mut pages)?;
    let [page] = pages;
    Ok(page)
}

/// Reads a device's superblock: the valid copy with the higher generation.
///
/// # Errors
/// If neither copy is valid.
pub fn superblock(device: &dyn Member) -> Result<Superblock, SuperblockError> {
    let read = |offset| Superblock::decode(page_at(device, offset)?.bytes());
    let [first, last] = superblock_offsets(device.bytes()).map(read);
    match (first, last) {
        (Ok(first), Ok(last)) if last.generation > first.generation => Ok(last),
        (Ok(found), _) | (Err(_), Ok(found)) => Ok(found),
        // Damage is more informative than a missing superblock.
        (Err(SuperblockError::Missing), Err(error)) | (Err(error), Err(_)) => Err(error),
    }
}

/// Writes both copies of a superblock, one after the other. At least one copy is valid at any time.
///
/// # Errors
/// If the device fails.
pub fn write_superblock(device: &dyn Member, superblock: &Superblock) -> io::Result<()> {
    let page = [Page::copy_of(&superblock.encode())];
    superblock_offsets(device.bytes())
        .into_iter()
        .try_for_each(|offset| device.write(offset, &page, true))
}

/// Reads the later valid intent record of a device; `None` if there is none.
///
/// # Errors
/// If the device fails.
pub fn intent(device: &dyn Member, array: Uuid) -> io::Result<Option<Intent>> {
    let mut latest: Option<Intent> = None;
    for offset in INTENTS {
        if let Some(found) = Intent::decode(page_at(device, offset)?.bytes(), array)
            && latest
                .as_ref()
                .is_none_or(|latest| latest.sequence < found.sequence)
        {
            latest = Some(found);
        }
    }
    Ok(latest)
}

/// Returns the offset and the contents of the next intent record.
pub fn intent_page(intent: &Intent, array: Uuid) -> (u64, Page) {
    let place = INTENTS[(intent.sequence % 2) as usize];
    (place, Page::copy_of(&intent.encode(array)))
}

/// Returns a reason why the device may contain data that must be kept; `None` if it seems to contain only
/// zeroes. The check covers the places where file systems, partition tables and the like have their
/// signatures, and the first and last 64 KiB.
///
/// # Errors
/// If the device fails.
pub fn contents(device: &dyn Member) -> io::Result<Option<String>> {
    const LOOKED_AT: u64 = 64 << 10;
    const BEYOND: u64 = 4096;
    let bytes = device.bytes();
    let front = (bytes.min(LOOKED_AT + BEYOND) / BLOCK_BYTES as u64) as usize;
    let mut pages = vec![Page::zero(); front];
    device.read(0, &mut pages)?;
    let start: Vec<u8> = pages
        .iter()
        .flat_map(|page| page.bytes().iter().copied())
        .collect();
    let is_at = |offset: usize, mark: &[u8]| {
        start
            .get(offset..)
            .is_some_and(|rest| rest.starts_with(mark))
    };
    if let Some((name, ..)) = MARKS.iter().find(|(_, offset, mark)| is_at(*offset, mark)) {
        return Ok(Some(format!("holds {name}")));
    }
    let end = bytes.saturating_sub(LOOKED_AT);
    let mut pages = vec![Page::zero(); ((bytes - end) / BLOCK_BYTES as u64) as usize];
    device.read(end, &mut pages)?;
    let tail = pages.iter().flat_map(|page| page.bytes().iter().copied());
    let is_empty = start.iter().copied().chain(tail).all(|byte| byte == 0);
    Ok((!is_empty).then(|| "holds data".to_string()))
}

/// Known signatures: name, offset in bytes, bytes.
const MARKS: [(&str, usize, &[u8]); 14] = [
    ("a member of an array of ours", 0, superblock::MAGIC),
    ("an ext2, ext3 or ext4 file system", 1080, &[0x53, 0xef]),
    ("an XFS file system", 0, b"XFSB"),
    ("a btrfs file system", 65600, b"_BHRfS_M"),
    ("an F2FS file system", 1024, &[0x10, 0x20, 0xf5, 0xf2]),
    ("an NTFS file system", 3, b"NTFS    "),
    ("a squashfs file system", 0, b"hsqs"),
    ("an encrypted volume (LUKS)", 0, b"LUKS\xba\xbe"),
    ("a physical volume of LVM", 512, b"LABELONE"),
    (
        "a member of a Linux md array",
        4096,
        &[0xfc, 0x4e, 0x2b, 0xa9],
    ),
    ("a member of a Linux md array", 0, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("swap space", 4086, b"SWAPSPACE2"),
    ("a partition table (GPT)", 512, b"EFI PART"),
    ("a partition table or boot sector", 510, &[0x55, 0xaa]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mark::Mark;
    use crate::member::Ram;

    fn some_superblock(generation: u64) -> Superblock {
        Superblock {
            generation,
            ..superblock::tests::example()
        }
    }

    /// The files were made by hand from the page of the format.
    #[test]
    fn bytes_are_those_of_the_golden_files() {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/raid/v1/");
        let file = |name: &str| std::fs::read(format!("{golden}{name}")).unwrap();
        let superblock = superblock::tests::example();
        assert_eq!(superblock.encode().to_vec(), file("superblock"));
        let mut intent = Intent::new(64);
        intent.sequence = 5;
        for region in [0, 7, 8, REGIONS - 1] {
            intent.mark(Mark::Region(region));
        }
        intent.set_doubts(|_| true, [1, 2, 3, 70].into());
        assert_eq!(intent.encode(superblock.array).to_vec(), file("intent"));
        let mut intent = Intent::new(64);
        intent.sequence = 6;
        intent.mark(Mark::Region(0));
        for stripe in [200, 201, 202, 255] {
            intent.mark(Mark::Stripe(stripe));
        }
        intent.set_doubts(|_| true, [70].into());
        assert_eq!(
            intent.encode(superblock.array).to_vec(),
            file("intent-stripes")
        );
    }

    #[test]
    fn one_valid_copy_of_a_superblock_is_sufficient() {
        let ram = Ram::new(4 << 20);
        assert!(matches!(superblock(&ram), Err(SuperblockError::Missing)));
        write_superblock(&ram, &some_superblock(7)).unwrap();
        let [first, last] = superblock_offsets(ram.bytes());
        for (place, generation) in [(first, 8), (last, 9)] {
            let mut torn = some_superblock(generation).encode();
            torn[100] ^= 1;
            let before = page_at(&ram, place).unwrap();
            ram.write(place, &[Page::copy_of(&torn)], true).unwrap();
            assert_eq!(superblock(&ram).unwrap().generation, 7);
            ram.write(place, &[before], true).unwrap();
        }
        ram.write(first, &[Page::copy_of(&some_superblock(9).encode())], true)
            .unwrap();
        assert_eq!(
            superblock(&ram).unwrap().generation,
            9,
            "the later superblock counts"
        );
    }

    #[test]
    fn the_later_whole_intent_record_counts() {
        let ram = Ram::new(4 << 20);
        let array = Uuid([3; 16]);
        assert_eq!(intent(&ram, array).unwrap(), None);
        for sequence in 1..5 {
            let mut record = Intent::new(100);
            record.sequence = sequence;
            record.mark(Mark::Region(sequence));
            let (place, page) = intent_page(&record, array);
            ram.write(place, &[page], true).unwrap();
            assert_eq!(intent(&ram, array).unwrap(), Some(record));
        }
        ram.write(INTENTS[0], &[Page::zero()], true).unwrap();
        assert_eq!(intent(&ram, array).unwrap().unwrap().sequence, 3);
        assert_eq!(
            intent(&ram, Uuid([4; 16])).unwrap(),
            None,
            "the record is of another array"
        );
    }

    #[test]
    fn existing_contents_are_detected() {
        let ram = Ram::new(4 << 20);
        assert_eq!(contents(&ram).unwrap(), None);
        for (name, offset, mark) in MARKS {
            let ram = Ram::new(4 << 20);
            let mut page = Page::zero();
            let (block, at) = (offset / BLOCK_BYTES, offset % BLOCK_BYTES);
            page.bytes_mut()[at..at + mark.len()].copy_from_slice(mark);
            ram.write((block * BLOCK_BYTES) as u64, &[page], true)
                .unwrap();
            assert_eq!(contents(&ram).unwrap(), Some(format!("holds {name}")));
        }
        let mut page = Page::zero();
        page.bytes_mut()[4095] = 1;
        ram.write((4 << 20) - 4096, &[page], true).unwrap();
        assert_eq!(contents(&ram).unwrap(), Some("holds data".to_string()));
    }
}
