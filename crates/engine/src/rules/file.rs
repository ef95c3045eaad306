//! File `rules`: lines of text, with a checksum of them in the last line.

use super::given::Rule;
use crate::error::{Error, io_error};
use crate::options::Options;
use crate::retention::class::{Class, Classes, WhenFull, levels_text, parse_levels};
use seiner_codec::checksum;
use seiner_model::{duration_text, parse_duration};
use seiner_platform::Disk;
use std::io;
use std::str::FromStr;
use std::time::Duration;

/// Name of the file.
pub const NAME: &str = "rules";
/// Name under which a new file is written before it replaces the old file.
pub const NEW: &str = "rules.new";
/// First line of the file, up to the version.
const HEAD: &str = "seiner rules ";
/// Version that this program writes. Versions differ in the key of the levels of a class only.
const VERSION: u32 = 2;
const SUM: &str = "checksum = ";
/// Maximum length of a file. A longer file is damaged.
const LONGEST: u64 = 16 << 20;

/// Reads the rules of a store. Run-time settings have their defaults. Returns `None` if the store
/// has no rules.
///
/// # Errors
/// [`Error::Damage`] if a line is unreadable or the checksum is wrong. Errors of the disk.
pub fn read(disk: &dyn Disk) -> Result<Option<Options>, Error> {
    let context = || format!("reading {NAME}");
    let file = match disk.open(NAME) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(context)(error)),
    };
    let len = file.len().map_err(io_error(context))?;
    let mut bytes = vec![0; len.min(LONGEST) as usize];
    file.read_at(0, &mut bytes).map_err(io_error(context))?;
    decode(&bytes).map(Some).map_err(|what| Error::Damage {
        file: NAME.to_string(),
        offset: 0,
        what,
    })
}

/// Checks that the file can be read, if it exists.
///
/// # Errors
/// As [`read`].
pub fn check(disk: &dyn Disk) -> Result<(), Error> {
    read(disk).map(|_| ())
}

/// Returns the key of the levels of a class.
fn levels_key(version: u32) -> &'static str {
    match version {
        1 => "coarser",
        _ => "rollup",
    }
}

/// Returns the text of the rules.
pub(super) fn encode(options: &Options) -> String {
    encode_as(VERSION, options)
}

fn encode_as(version: u32, options: &Options) -> String {
    let mut text = format!("{HEAD}{version}\n");
    for rule in Rule::ALL {
        match rule {
            Rule::Classes => text.push_str(&classes_text_as(version, &options.classes)),
            _ => text.push_str(&format!("{} = {}\n", rule.name(), rule.text(options))),
        }
    }
    let sum = checksum(text.as_bytes());
    text.push_str(&format!("{SUM}{sum:08x}\n"));
    text
}

/// Returns the lines of all classes: `class = NAME`, followed by the keys of the class that are
/// set.
pub(super) fn classes_text(classes: &Classes) -> String {
    classes_text_as(VERSION, classes)
}

fn classes_text_as(version: u32, classes: &Classes) -> String {
    let nanos = |duration: Duration| duration_text(duration.as_nanos() as u64);
    let mut text = String::new();
    let mut line = |key: &str, value: String| {
        text.push_str(&format!("{key} = {}\n", escaped(&value)));
    };
    for class in classes.named() {
        line("class", class.name.clone());
        if !class.sources.is_empty() {
            line("sources", class.sources.clone());
        }
        if let Some(age) = class.keep.age {
            line("age", nanos(age));
        }
        if !class.rollup.is_empty() {
            line(levels_key(version), levels_text(&class.rollup));
        }
        if let Some(rows) = class.keep.rows {
            line("rows", rows.to_string());
        }
        if let Some(bytes) = class.keep.bytes {
            line("bytes", bytes.to_string());
        }
        line("priority", class.priority.to_string());
        let when_full = match class.when_full {
            WhenFull::Refuse => "refuse",
            WhenFull::Shed => "shed",
        };
        line("when_full", when_full.to_string());
    }
    text
}

/// Returns a text on one line.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('\r', "\\r")
}

fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => match letters.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some(other) => other,
                None => '\\',
            },
            letter => letter,
        });
    }
    plain
}

/// Parses the text. The error describes the fault.
pub(super) fn decode(bytes: &[u8]) -> Result<Options, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_string())?;
    let head = text.lines().next().unwrap_or_default();
    let version = head.strip_prefix(HEAD).and_then(|text| text.parse().ok());
    let Some(version) = version else {
        return Err(format!("it begins with {head:?}, not with {HEAD:?}"));
    };
    if !(1..=VERSION).contains(&version) {
        return Err(format!("it has version {version}; a newer seiner reads it"));
    }
    let sum = text
        .rfind(SUM)
        .filter(|&at| at > 0 && text.as_bytes()[at - 1] == b'\n')
        .ok_or("it has no checksum")?;
    let (body, last) = text.split_at(sum);
    let stated = u32::from_str_radix(last[SUM.len()..].trim_end(), 16);
    if stated != Ok(checksum(body.as_bytes())) {
        return Err("its checksum does not hold".to_string());
    }
    let mut options = Options::default();
    let mut classes: Vec<Class> = Vec::new();
    for line in body.lines().skip(1) {
        let (key, value) = line
            .split_once(" = ")
            .ok_or_else(|| format!("{line:?} is not a key with a value"))?;
        let done = match (key, classes.last_mut()) {
            ("class", _) => {
                classes.push(Class {
                    name: plain(value),
                    ..Class::forever()
                });
                Ok(())
            }
            ("coarser" | "rollup", Some(class)) => {
                parse_levels(&plain(value)).map(|levels| class.rollup = levels)
            }
            (key, Some(class)) => put_class(class, key, &plain(value)),
            (key, None) => put(&mut options, key, value),
        };
        done.map_err(|what| format!("{line:?}: {what}"))?;
    }
    options.classes = Classes::new(classes).map_err(|error| error.to_string())?;
    // The checksum does not cover the bytes after it.
    match encode_as(version, &options) == text {
        true => Ok(options),
        false => Err("it is not written as this version writes it".to_string()),
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "it is not a number".to_string())
}

fn put(options: &mut Options, key: &str, value: &str) -> Result<(), String> {
    match key {
        "disk" if value == "all" => options.disk = None,
        "disk" => options.disk = Some(number(value)?),
        "leave_free" => options.leave_free = number(value)?,
        "merge_from" => options.merge_from = number(value)?,
        "policy" => options.policy = value.parse()?,
        "extra_writes" => options.extra_writes = number(value)?,
        "lanes" => options.lanes = number(value)?,
        "block_bytes" => options.block_bytes = number(value)?,
        "segment_bytes" => options.segment_bytes = number(value)?,
        "journal_bytes" => options.journal_bytes = number(value)?,
        _ => return Err("there is no such key".to_string()),
    }
    Ok(())
}

fn put_class(class: &mut Class, key: &str, value: &str) -> Result<(), String> {
    match key {
        "sources" => class.sources = value.to_string(),
        "age" => {
            let ns = parse_duration(value).map_err(|error| error.to_string())?;
            let ns = u64::try_from(ns).map_err(|_| "it is negative")?;
            class.keep.age = Some(Duration::from_nanos(ns));
        }
        "rows" => class.keep.rows = Some(number(value)?),
        "bytes" => class.keep.bytes = Some(number(value)?),
        "priority" => class.priority = number(value)?,
        "when_full" => {
            class.when_full = match value {
                "refuse" => WhenFull::Refuse,
                "shed" => WhenFull::Shed,
                _ => return Err("it is neither refuse nor shed".to_string()),
            }
        }
        _ => return Err("there is no such key".to_string()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retention::class::Keep;
    use seiner_merge::MergePolicy;

    fn options() -> Options {
        let day = Duration::from_secs(86_400);
        let class = |name: &str, sources: &str| Class {
            name: name.to_string(),
            sources: sources.to_string(),
            ..Class::forever()
        };
        let raw = Class {
            keep: Keep {
                age: Some(7 * day + Duration::from_nanos(1)),
                ..Keep::default()
            },
            rollup: parse_levels("1m for 365d then 1h for ever").unwrap(),
            ..class("raw = \\n\nline", "accel{axis=\"x\\\"\"}")
        };
        let ring = Class {
            keep: Keep {
                rows: Some(5),
                bytes: Some(8192),
                ..Keep::default()
            },
            priority: 3,
            when_full: WhenFull::Shed,
            ..class("ring", "frame")
        };
        Options {
            disk: Some(1 << 40),
            leave_free: 7,
            merge_from: 0.7,
            policy: MergePolicy::ALL[1],
            extra_writes: 0.1,
            lanes: 9,
            block_bytes: 300,
            segment_bytes: 1 << 20,
            journal_bytes: 1 << 21,
            classes: Classes::new(vec![raw, ring]).unwrap(),
            ..Options::default()
        }
    }

    #[test]
    fn rules_are_read_as_they_were_written() {
        for options in [options(), Options::default()] {
            let text = encode(&options);
            let back = decode(text.as_bytes()).unwrap();
            assert_eq!(encode(&back), text);
            let earlier = encode_as(1, &options);
            assert_eq!(encode(&decode(earlier.as_bytes()).unwrap()), text);
            assert!(decode(encode_as(3, &options).as_bytes()).is_err());
            for rule in Rule::ALL {
                assert_eq!(rule.text(&back), rule.text(&options), "{}", rule.name());
            }
        }
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let text = encode(&options());
        for bit in 0..8 * text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bytes).is_err(), "bit {bit}");
        }
        assert!(decode(&text.as_bytes()[..text.len() / 2]).is_err());
        assert!(decode(b"").is_err());
    }
}
