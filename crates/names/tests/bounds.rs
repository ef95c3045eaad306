//! Bounds of reading: opening reads no pages, and a merge reads and writes in small pieces.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::*;
use roaring::RoaringBitmap;
use seiner_names::{Cache, NamesFile, merge};
use seiner_platform::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// File that records its reads and writes.
struct Recorded {
    file: Arc<dyn File>,
    reads: AtomicUsize,
    read_bytes: AtomicUsize,
    longest: AtomicUsize,
}

impl Recorded {
    fn new(file: Arc<dyn File>) -> Arc<Recorded> {
        Arc::new(Recorded {
            file,
            reads: AtomicUsize::new(0),
            read_bytes: AtomicUsize::new(0),
            longest: AtomicUsize::new(0),
        })
    }

    /// Returns the number of reads, the bytes read, and the bytes of the longest read or write; begins anew.
    fn take(&self) -> (usize, usize, usize) {
        let [reads, bytes, longest] = [&self.reads, &self.read_bytes, &self.longest];
        (
            reads.swap(0, Relaxed),
            bytes.swap(0, Relaxed),
            longest.swap(0, Relaxed),
        )
    }
}

impl File for Recorded {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.reads.fetch_add(1, Relaxed);
        self.read_bytes.fetch_add(buffer.len(), Relaxed);
        self.longest.fetch_max(buffer.len(), Relaxed);
        self.file.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.longest.fetch_max(bytes.len(), Relaxed);
        self.file.write_at(offset, bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn reserve(&self, len: u64) -> io::Result<()> {
        self.file.reserve(len)
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

#[test]
fn opening_look_ups_and_merges_read_little() {
    let keys = hosts(200_000);
    let (even, odd): (Keys, Keys) = keys
        .iter()
        .map(|(source, key)| (*source, key.clone()))
        .partition(|(source, _)| source % 2 == 0);
    let inputs = [&even, &odd].map(|keys| Recorded::new(write(keys)));
    let files = inputs.each_ref().map(|file| {
        let opened = NamesFile::open("names", file.clone()).unwrap();
        let (reads, bytes, _) = file.take();
        assert!(
            reads == 4 && bytes < 200_000,
            "{reads} reads of {bytes} bytes"
        );
        opened
    });
    let cache = Cache::new(1 << 20);
    let name = name_of(&keys[&77_776]);
    assert_eq!(files[0].find(&cache, &name).unwrap(), Some(77_776));
    let (reads, bytes, _) = inputs[0].take();
    assert!(
        reads == 2 && bytes < 40_000,
        "{reads} reads of {bytes} bytes"
    );
    assert_eq!(files[0].find(&cache, &name).unwrap(), Some(77_776));
    assert_eq!(inputs[0].take().0, 0);
    cache.forget(&files[0]);

    let output = Recorded::new(empty_file());
    let parts = [&files[0], &files[1]];
    let all = RoaringBitmap::full();
    let len = merge(ORIGIN, &parts, &all, &cache, &*output).unwrap();
    assert_eq!(cache.memory(), 0, "a merge adds no pages to the cache");
    assert!(output.take().2 <= 1 << 20);
    let merged = NamesFile::open("names", output).unwrap();
    assert_eq!((merged.len(), merged.sources().len()), (len, 200_000));
    for input in inputs {
        let (_, bytes, longest) = input.take();
        let file = input.file.len().unwrap() as usize;
        // Each page is read once. The longest pieces are the sets of the hosts.
        assert!(bytes <= file && longest <= 128 << 10, "{bytes}, {longest}");
    }
}
