//! Any bytes as a names file, without checksums. Only for tests and fuzzing.

use crate::unchecked::set_unchecked;
use crate::{Cache, NamesFile, Writer, merge};
use roaring::RoaringBitmap;
use seiner_model::Selector;
use seiner_platform::sim::SimDisk;
use seiner_platform::{Disk, File};
use std::sync::Arc;

/// Origin of small files.
#[cfg(test)]
pub const ORIGIN: crate::Origin = crate::Origin {
    store: 1,
    seed: 2,
    generation: 0,
    position: 0,
};

/// Returns a file with these bytes.
pub fn file_of(bytes: &[u8]) -> Arc<dyn File> {
    let file = SimDisk::new(1)
        .create("names")
        .expect("the disk has no faults");
    file.write_at(0, bytes).expect("the disk has no faults");
    file
}

/// Opens bytes as a names file without verifying checksums, and calls every method. Errors are expected.
pub fn names(bytes: &[u8]) {
    set_unchecked(true);
    if let Ok(file) = NamesFile::open("names", file_of(bytes)) {
        call_all(&file);
    }
    set_unchecked(false);
}

fn call_all(file: &NamesFile) {
    let cache = Cache::new(1 << 20);
    let some: RoaringBitmap = file.sources().iter().take(50).collect();
    for source in some.iter().chain([0, 7, u32::MAX]) {
        let Ok(Some(key)) = file.key(&cache, source) else {
            continue;
        };
        let mut name = Vec::new();
        key.put_name(&mut name);
        let _ = file.find(&cache, &name);
    }
    let _ = file.find(&cache, b"cpu,host=a");
    for text in [
        "",
        "cpu",
        r#"cpu{host="a"}"#,
        r#"{host!="a",host=~".*1"}"#,
        r#"{id=""}"#,
        r#"{host^="a"}"#,
        r#"{id!~"1|2"}"#,
    ] {
        let selector = Selector::parse(text).expect("a selector");
        let _ = file.select(&cache, &selector);
    }
    for among in [&some, file.sources()] {
        let _ = file.measurements(&cache, among);
        let _ = file.tag_names(&cache, among);
        let _ = file.tag_values(&cache, "host", among, 10);
        let _ = file.tag_values(&cache, "id", among, usize::MAX);
    }
    let _ = file.check();
    let mut writer = Writer::new(*file.origin());
    writer.push(7, b"cpu", [(&b"host"[..], &b"a"[..])].into_iter());
    let other = file_of(&[]);
    writer.write(&*other).expect("the disk has no faults");
    if let Ok(other) = NamesFile::open("other", other) {
        let keep = RoaringBitmap::from([7]) | file.sources();
        let _ = merge(
            *file.origin(),
            &[file, &other],
            &keep,
            &cache,
            &*file_of(&[]),
        );
    }
    cache.forget(file);
}
