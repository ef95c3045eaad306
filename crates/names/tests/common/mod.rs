//! Sources and files of tests.

#![allow(dead_code, reason = "no test uses all of it")]

use roaring::RoaringBitmap;
use seiner_model::{Selector, SourceKey};
use seiner_names::{Cache, Error, NamesFile, Origin, Writer};
use seiner_platform::sim::SimDisk;
use seiner_platform::{Disk, File};
use std::collections::BTreeMap;
use std::sync::Arc;

pub const ORIGIN: Origin = Origin {
    store: 77,
    seed: 0x5eed,
    generation: 1,
    position: 4711,
};

/// Sources by number.
pub type Keys = BTreeMap<u32, SourceKey>;

/// Returns an empty file in memory.
pub fn empty_file() -> Arc<dyn File> {
    SimDisk::new(1).create("names").unwrap()
}

/// Returns a file in memory with these bytes.
pub fn file_of(bytes: &[u8]) -> Arc<dyn File> {
    let file = empty_file();
    file.write_at(0, bytes).unwrap();
    file
}

/// Returns the bytes of a file.
pub fn bytes_of(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

pub fn push(writer: &mut Writer, source: u32, key: &SourceKey) {
    let tags: Vec<(&[u8], &[u8])> = key
        .tags()
        .map(|(tag, value)| (tag.as_bytes(), value.as_bytes()))
        .collect();
    writer.push(source, key.measurement().as_bytes(), tags.into_iter());
}

/// Writes sources to a file in memory.
pub fn write(keys: &Keys) -> Arc<dyn File> {
    let mut writer = Writer::new(ORIGIN);
    for (source, key) in keys {
        push(&mut writer, *source, key);
    }
    assert_eq!(
        (writer.len(), writer.is_empty()),
        (keys.len(), keys.is_empty())
    );
    let file = empty_file();
    let len = writer.write(&*file).unwrap();
    assert_eq!(len, file.len().unwrap());
    file
}

/// Opens a file with sources.
pub fn open(keys: &Keys) -> NamesFile {
    NamesFile::open("names", write(keys)).unwrap()
}

pub fn name_of(key: &SourceKey) -> Vec<u8> {
    let mut name = Vec::new();
    key.put_name(&mut name);
    name
}

pub fn key(measurement: &str, tags: &[(&str, &str)]) -> SourceKey {
    SourceKey::new(measurement, tags.iter().copied()).unwrap()
}

/// Returns a number below `most`, the same for equal arguments.
pub fn random(seed: u64, index: u64, most: u64) -> u64 {
    let mut mixed = (seed << 32 ^ index).wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    (mixed ^ mixed >> 31) % most
}

/// Returns `count` sources of ten hosts, each with an id of its own.
pub fn hosts(count: u32) -> Keys {
    let source = |n: u32| {
        let host = format!("web-{}", n % 10);
        let id = format!("{n:09}");
        (n, key("http_requests", &[("host", &host), ("id", &id)]))
    };
    (0..count).map(source).collect()
}

/// Returns sources with random tags, some absent, and values that need escapes.
pub fn mixed(seed: u64, count: u32) -> Keys {
    let mut keys = Keys::new();
    let mut seen = std::collections::BTreeSet::new();
    let mut number = 0;
    for n in 0..u64::from(count) {
        let draw = |what: u64, most: u64| random(seed * 31 + what, n, most);
        number += 1 + draw(0, 40) as u32 * u32::from(draw(1, 9) == 0);
        let mut tags = vec![("id", format!("dev-{}", draw(2, 1 << 40)))];
        if draw(3, 3) > 0 {
            tags.push(("host", format!("web-{}", draw(4, 12))));
        }
        if draw(5, 4) == 0 {
            tags.push((
                "path=x",
                ["a,b", "c=d", "e\\f", "é", "ab", "abc"][draw(6, 6) as usize].into(),
            ));
        }
        if draw(7, 2) == 0 {
            tags.remove(0);
            tags.push(("core", draw(8, u64::from(count)).to_string()));
        }
        let measurement = ["cpu", "mem", "m,x", "disk"][draw(9, 4) as usize];
        let key = SourceKey::new(measurement, tags).unwrap();
        if seen.insert(name_of(&key)) {
            keys.insert(number, key);
        }
    }
    keys
}

/// Selectors with conditions of all kinds.
pub fn selectors() -> Vec<Selector> {
    [
        "",
        "cpu",
        "none",
        r#""m,x""#,
        r#"cpu{host="web-1"}"#,
        r#"{host="web-1",core="5"}"#,
        r#"{host=""}"#,
        r#"{host!=""}"#,
        r#"{host!="web-1"}"#,
        r#"mem{host!="web-1",id!=""}"#,
        r#"{host="none"}"#,
        r#"{host!="none"}"#,
        r#"{none=""}"#,
        r#"{none!=""}"#,
        r#"{none="x"}"#,
        r#"{none=~".*"}"#,
        r#"{none=~".+"}"#,
        r#"{none^="x"}"#,
        r#"{host=~"web-(1|2|11)"}"#,
        r#"{host=~"web-1.*"}"#,
        r#"{host=~"|web-1"}"#,
        r#"{host=~".*"}"#,
        r#"{host=~".+"}"#,
        r#"{host!~"web-(1|2)"}"#,
        r#"{host!~".*[13]"}"#,
        r#"{host!~""}"#,
        r#"{host!~".+"}"#,
        r#"{host^="web-1"}"#,
        r#"{host^=""}"#,
        r#"{id^="dev-1"}"#,
        r#"{id=~"dev-.*7"}"#,
        r#"{id!~"dev-.*7"}"#,
        r#"{id=~"dev-.*7|"}"#,
        r#"{core="5",id=~".*"}"#,
        r#"disk{core="5",host=~"web-.*"}"#,
        r#"{core=~"1.*",host="web-3","path=x"="a,b"}"#,
        r#"{"path=x"=~"c=d|é"}"#,
        r#"{"path=x"^="ab"}"#,
    ]
    .iter()
    .map(|text| Selector::parse(text).unwrap())
    .chain(unnamed_tags())
    .collect()
}

/// Selectors of a tag with an empty name, which no source has.
fn unnamed_tags() -> impl Iterator<Item = Selector> {
    use seiner_model::{Condition, Matcher};
    let conditions = [
        Condition::Is("cpu".into()),
        Condition::Is(String::new()),
        Condition::IsNot("cpu".into()),
        Condition::IsNot(String::new()),
        Condition::matches("cpu|mem").unwrap(),
        Condition::matches(".*").unwrap(),
        Condition::StartsWith("c".into()),
        Condition::StartsWith(String::new()),
    ];
    conditions.into_iter().map(|condition| Selector {
        measurement: None,
        matchers: vec![Matcher {
            tag: String::new(),
            condition,
        }],
    })
}

/// Answers of a file to everything that a test asks.
#[derive(Debug, PartialEq)]
pub struct Answers {
    pub found: Vec<Option<u32>>,
    pub keys: Vec<Option<SourceKey>>,
    pub selected: Vec<Vec<u32>>,
    pub lists: Vec<Vec<String>>,
}

/// Returns the sets of sources for which lists are asked.
fn among(keys: &Keys) -> [RoaringBitmap; 4] {
    let all: RoaringBitmap = keys.keys().copied().collect();
    let some = all.iter().filter(|source| source % 97 == 3).collect();
    let mut wide = all.clone();
    wide.insert_range(0..1000);
    [RoaringBitmap::new(), some, all, wide]
}

/// Returns the answers that a file with these sources must give.
pub fn expected(keys: &Keys) -> Answers {
    let mut lists = Vec::new();
    for among in among(keys) {
        let chosen: Vec<&SourceKey> = among
            .iter()
            .filter_map(|source| keys.get(&source))
            .collect();
        let sorted = |texts: Vec<&str>, limit| {
            let texts: std::collections::BTreeSet<&str> = texts.into_iter().collect();
            texts.into_iter().take(limit).map(str::to_string).collect()
        };
        let measurements = chosen.iter().map(|key| key.measurement());
        lists.push(sorted(measurements.collect(), usize::MAX));
        let names = chosen.iter().flat_map(|key| key.tags().map(|(tag, _)| tag));
        lists.push(sorted(names.collect(), usize::MAX));
        for (tag, limit) in TAGS {
            let values = chosen
                .iter()
                .map(|key| key.tag(tag))
                .filter(|value| !value.is_empty());
            lists.push(sorted(values.collect(), limit));
        }
    }
    Answers {
        found: keys.keys().copied().map(Some).chain([None; 3]).collect(),
        keys: keys.values().cloned().map(Some).chain([None]).collect(),
        selected: selectors()
            .iter()
            .map(|selector| {
                let met = keys.iter().filter(|(_, key)| selector.holds(key));
                met.map(|(source, _)| *source).collect()
            })
            .collect(),
        lists,
    }
}

const TAGS: [(&str, usize); 6] = [
    ("host", usize::MAX),
    ("host", 3),
    ("id", 40),
    ("core", usize::MAX),
    ("none", 5),
    ("", 5),
];

/// Returns the answers of a file to questions about these sources.
pub fn answers(file: &NamesFile, cache: &Cache, keys: &Keys) -> Result<Answers, Error> {
    let names = keys.values().map(name_of);
    let others = [&b""[..], b"cpu,host=none", b"no source"];
    let names = names.chain(others.map(<[u8]>::to_vec));
    let absent = (0..).find(|source| !keys.contains_key(source)).unwrap();
    let mut lists = Vec::new();
    for among in among(keys) {
        lists.push(file.measurements(cache, &among)?);
        lists.push(file.tag_names(cache, &among)?);
        for (tag, limit) in TAGS {
            lists.push(file.tag_values(cache, tag, &among, limit)?);
        }
    }
    let selected = selectors();
    let selected = selected.iter().map(|selector| {
        let found = file.select(cache, selector)?;
        Ok(found.iter().collect())
    });
    Ok(Answers {
        found: names
            .map(|name| file.find(cache, &name))
            .collect::<Result<_, _>>()?,
        keys: keys
            .keys()
            .copied()
            .chain([absent])
            .map(|source| file.key(cache, source))
            .collect::<Result<_, _>>()?,
        selected: selected.collect::<Result<_, Error>>()?,
        lists,
    })
}
