//! Time and space of names files, for sources of ten hosts with an id each: `speed [SOURCES]`.

use roaring::RoaringBitmap;
use seiner_model::Selector;
use seiner_names::{Cache, NamesFile, Origin, Writer, merge};
use seiner_platform::{Directory, Disk};
use std::error::Error;
use std::time::Instant;

/// Number of names that are looked up.
const LOOKUPS: u32 = 100_000;

fn name(n: u32) -> String {
    format!("http_requests,host=web-{},id={n:09}", n % 10)
}

fn fill(writer: &mut Writer, sources: impl Iterator<Item = u32>) {
    for n in sources {
        let (host, id) = (format!("web-{}", n % 10), format!("{n:09}"));
        let tags = [("host", &host), ("id", &id)];
        let tags = tags.map(|(tag, value)| (tag.as_bytes(), value.as_bytes()));
        writer.push(n, b"http_requests", tags.into_iter());
    }
}

/// Prints the time of each of `count` steps since a moment.
fn report(what: &str, start: Instant, count: u32) {
    let ns = start.elapsed().as_nanos() as f64 / f64::from(count);
    println!("{what}: {:.2} µs", ns / 1000.0);
}

fn find_all(file: &NamesFile, cache: &Cache, count: u32, len: u32) -> Result<(), Box<dyn Error>> {
    for n in 0..count {
        let source = (u64::from(n) * 7_919_993 % u64::from(len)) as u32;
        assert_eq!(file.find(cache, name(source).as_bytes())?, Some(source));
    }
    Ok(())
}

const ORIGIN: Origin = Origin {
    store: 1,
    seed: 2,
    generation: 0,
    position: 0,
};

fn main() -> Result<(), Box<dyn Error>> {
    let count: u32 = std::env::args()
        .nth(1)
        .map_or(Ok(1_000_000), |n| n.parse())?;
    let folder = tempfile::tempdir()?;
    let disk = Directory::open(folder.path())?;
    let mut writer = Writer::new(ORIGIN);
    let start = Instant::now();
    fill(&mut writer, 0..count);
    report("push a source", start, count);
    let memory = writer.memory() as f64 / f64::from(count);
    println!("memory of the writer: {memory:.1} bytes a source");
    let (start, output) = (Instant::now(), disk.create("names")?);
    let len = writer.write(&*output)?;
    report("write a source", start, count);
    println!("file: {:.1} bytes a source", len as f64 / f64::from(count));

    let start = Instant::now();
    let file = NamesFile::open("names", output)?;
    report("open", start, 1);
    let memory = file.memory() as f64 / f64::from(count);
    println!("memory of the open file: {memory:.2} bytes a source");
    let (start, none) = (Instant::now(), Cache::new(0));
    find_all(&file, &none, LOOKUPS / 10, count)?;
    report("find a name, no page cached", start, LOOKUPS / 10);
    let cache = Cache::new(1 << 30);
    find_all(&file, &cache, LOOKUPS, count)?;
    let start = Instant::now();
    find_all(&file, &cache, LOOKUPS, count)?;
    report("find a name, all pages cached", start, LOOKUPS);
    let start = Instant::now();
    for n in count..count + LOOKUPS {
        assert_eq!(file.find(&cache, name(n).as_bytes())?, None);
    }
    report("find no name", start, LOOKUPS);
    let start = Instant::now();
    for n in 0..LOOKUPS {
        let source = (u64::from(n) * 7_919_993 % u64::from(count)) as u32;
        assert!(file.key(&cache, source)?.is_some());
    }
    report("key of a number, all pages cached", start, LOOKUPS);

    for text in [
        r#"http_requests{id="000000077"}"#,
        r#"http_requests{host="web-7"}"#,
        r#"http_requests{host="web-7",id=~".*77"}"#,
        r#"{id=~".*77"}"#,
        r#"{id=~"000000077|000000078"}"#,
        r#"{id!=""}"#,
    ] {
        let (start, selector) = (Instant::now(), Selector::parse(text)?);
        let found = file.select(&cache, &selector)?.len();
        report(&format!("select {text}: {found}"), start, 1);
    }
    let start = Instant::now();
    file.check()?;
    report("check a source", start, count);

    let mut files = Vec::new();
    for part in 0..4 {
        let mut writer = Writer::new(ORIGIN);
        fill(&mut writer, (0..count).filter(|n| n / 1000 % 4 == part));
        let output = disk.create(&format!("names-{part}"))?;
        writer.write(&*output)?;
        files.push(NamesFile::open("names", output)?);
    }
    let files: Vec<&NamesFile> = files.iter().collect();
    let (start, output) = (Instant::now(), disk.create("merged")?);
    assert_eq!(
        merge(ORIGIN, &files, &RoaringBitmap::full(), &none, &*output)?,
        len
    );
    report("merge a source of four files", start, count);
    Ok(())
}
