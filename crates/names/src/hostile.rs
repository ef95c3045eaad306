//! Hostile bytes with any checksums: no panic, no endless loop.

use crate::fuzzing::{file_of, names};
use crate::page::pack;
use crate::{NamesFile, Writer};
use seiner_platform::File;

/// Returns the bytes of a small file.
fn small() -> Vec<u8> {
    let mut writer = Writer::new(crate::fuzzing::ORIGIN);
    for n in 0..90u32 {
        let (host, id) = (format!("web-{}", n % 3), format!("{n}"));
        let tags = [("host", &host), ("id", &id)];
        let tags = tags.map(|(tag, value)| (tag.as_bytes(), value.as_bytes()));
        writer.push(n * n, b"cpu", tags.into_iter());
    }
    let file = file_of(&[]);
    writer.write(&*file).unwrap();
    bytes_of(&*file)
}

fn bytes_of(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    n ^ (n >> 29)
}

#[test]
fn changed_bytes_with_right_checksums_cause_no_panic() {
    let bytes = small();
    for round in 0..8_000u64 {
        let mut changed = bytes.clone();
        for change in 0..1 + mix(round) % 4 {
            let draw = mix(round * 7 + change + 1);
            let at = draw as usize % changed.len();
            changed[at] = match draw >> 40 & 3 {
                0 => 0xff,
                1 => 0,
                _ => changed[at] ^ (1 << (draw >> 50 & 7)),
            };
        }
        names(&changed);
    }
}

#[test]
fn changed_pages_before_compression_cause_no_panic() {
    // Pages of a file are replaced by pages of the same length that are changed before they are compressed.
    let bytes = small();
    let file = NamesFile::open("names", file_of(&bytes)).unwrap();
    let parts = &file.parts().directory;
    let pages = [&parts.names.pages, &parts.terms.pages, &parts.hashes.pages];
    let mut replaced = 0;
    for page in pages.into_iter().flatten() {
        let plain = file.parts().reader.page(page).unwrap();
        for round in 0..2_000u64 {
            let mut plain = plain.to_vec();
            let draw = mix(round + 1);
            let at = draw as usize % plain.len();
            plain[at] = (draw >> 40) as u8;
            let packed = pack(&plain).unwrap_or(plain);
            if packed.len() == page.stored as usize {
                let start = page.offset as usize;
                let mut changed = bytes.clone();
                changed[start..start + packed.len()].copy_from_slice(&packed);
                names(&changed);
                replaced += 1;
            }
        }
    }
    assert!(replaced > 200, "{replaced}");
}

#[test]
fn an_unchanged_file_is_accepted() {
    names(&small());
    names(&[]);
    let file = NamesFile::open("names", file_of(&small())).unwrap();
    file.check().unwrap();
}
