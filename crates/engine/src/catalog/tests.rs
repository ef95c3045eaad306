//! Tests of frames that a power cut interrupts.

use super::*;
use seiner_platform::Directory;

/// A catalog whose next frame has its header in one sector and its body in the next.
struct Torn {
    _folder: tempfile::TempDir,
    disk: Directory,
    catalog: Catalog,
}

impl Torn {
    fn new() -> Torn {
        let folder = tempfile::tempdir().unwrap();
        let disk = Directory::open(folder.path()).unwrap();
        let mut catalog = Catalog::create(&disk, 7).unwrap();
        while catalog.len % SECTOR as u64 + FRAME_HEADER_BYTES as u64 + 20 < SECTOR as u64 {
            catalog.add(&frame(10, 0)).unwrap();
        }
        Torn {
            _folder: folder,
            disk,
            catalog,
        }
    }

    /// Adds a frame to the catalog without one of its sectors, and not to the copy, as a power cut leaves it.
    fn add_without(&mut self, nth: u64, frame: &Frame) {
        let before = self.catalog.len;
        let file = self.catalog.files[0].clone();
        let from = before.next_multiple_of(SECTOR as u64) + nth * SECTOR as u64;
        let mut old = vec![0; SECTOR];
        let there = file.len().unwrap().saturating_sub(from).min(SECTOR as u64);
        file.read_at(from, &mut old[..there as usize]).unwrap();
        self.catalog.add(frame).unwrap();
        let end = (from + SECTOR as u64).min(self.catalog.len);
        file.write_at(from, &old[..(end - from) as usize]).unwrap();
        self.catalog.files[1].set_len(before).unwrap();
    }

    /// Returns the end of the catalog after a start, which must find no damage.
    fn start(&mut self) -> u64 {
        let read = read(&self.disk).unwrap().unwrap();
        assert!(read.damaged.is_empty());
        assert!(read.frames().all(|frame| frame.frame.is_ok()));
        self.catalog = Catalog::open(&self.disk, &read).unwrap();
        read.end()
    }
}

/// Returns a frame with bytes that do not compress.
fn frame(size: u32, seed: u32) -> Frame {
    let byte = |at: u32| (at ^ at << 16).wrapping_mul(0x85eb_ca6b).rotate_left(13) ^ (at * at);
    Frame {
        dead: (seed..seed + size)
            .map(|at| (byte(at) >> 5) as u8)
            .collect(),
        ..Frame::default()
    }
}

#[test]
fn a_partly_written_frame_is_no_damage() {
    let mut torn = Torn::new();
    let before = torn.catalog.len;
    torn.add_without(0, &frame(400, 0));
    assert_eq!(torn.start(), before);
}

/// Regression: the rest of the first frame looked like bytes of the second.
#[test]
fn two_partly_written_frames_are_no_damage() {
    let mut torn = Torn::new();
    let before = torn.catalog.len;
    torn.add_without(0, &frame(1400, 0));
    assert_eq!(torn.start(), before);
    torn.add_without(1, &frame(1400, 1));
    assert_eq!(torn.start(), before);
}
