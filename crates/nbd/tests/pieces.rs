//! Recorded conversations that are truncated, altered and split: no panic, and output in proportion to the requests.
//! The fuzz target `nbd` makes the same checks with arbitrary bytes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use seiner_platform::sim::Rng;
use std::fs;
use std::path::Path;

#[path = "../../../fuzz/fuzz_targets/client/mod.rs"]
mod client;

/// Returns the client's bytes of a conversation.
fn spoken(path: &Path) -> Vec<u8> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("> "));
    let digits: Vec<u8> = lines
        .flat_map(str::bytes)
        .filter(|byte| *byte != b' ')
        .collect();
    let pairs = digits.as_chunks::<2>().0.iter();
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn malformed_sessions_end_without_a_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/nbd/v1");
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let seeds: Vec<Vec<u8>> = files.map(|path| spoken(&path)).collect();
    assert!(seeds.len() > 1 && seeds.iter().all(|seed| seed.len() > 10));
    let mut rng = Rng::new(1);
    for round in 0..4000u64 {
        let mut bytes = vec![round as u8];
        bytes.extend(rng.pick(&seeds));
        if rng.chance(1, 3) {
            bytes.truncate(rng.between(1, bytes.len() as u64) as usize);
        }
        for _ in 0..rng.below(6) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << rng.below(8);
        }
        client::talk(&bytes);
    }
    for length in 0..64 {
        client::talk(&vec![length as u8; length]);
    }
}
