//! Retention classes as users write them: a table in the file, or `name=raw,sources=cpu,age=30d`
//! as a flag. Both are keys with texts, parsed by one table, so that a value has the same meaning and
//! the same error messages in both.

use crate::key_texts::{Key, KeyTexts, list, pairs};
use crate::size::parse_size;
use seiner_engine::{Class, WhenFull, parse_levels};
use seiner_model::parse_duration;
use seiner_store::Consistency;
use std::fmt;
use std::time::Duration;

/// Key in the file: `[[class]]`. The flag is `--class`, once per class.
pub const KEY: &str = "class";
/// Environment variable: classes in the form of flags, separated by semicolons.
pub const VARIABLE: &str = "SEINER_CLASS";
/// Priority of classes without a given priority. Classes with a lower priority are shed first.
const PRIORITY: u8 = 100;

/// Every key of a class.
pub static KEYS: [Key<Class>; 10] = [
    Key {
        name: "name",
        form: "TEXT",
        help: "Name of the class in reports and metrics; required. `default` is the class of all sources that no \
               other class matches.",
        assign: |class, text| {
            class.name = text.to_string();
            Ok(())
        },
    },
    Key {
        name: "sources",
        form: "SELECTOR",
        help: "Selector of the sources, as in queries: `accel{axis=\"x\"}`. A source belongs to the first class \
               that matches it. A class without a selector matches all sources, and must be the last one.",
        assign: |class, text| {
            class.sources = text.to_string();
            Ok(())
        },
    },
    Key {
        name: "age",
        form: "DURATION",
        help: "Maximum age of samples. Older samples expire. A higher age needs more disk.",
        assign: |class, text| {
            let ns = parse_duration(text).map_err(|error| error.to_string())?;
            let ns = u64::try_from(ns).map_err(|_| {
                format!(
                    "{text:?} keeps nothing; give 1s or more, or leave age out to keep for ever"
                )
            })?;
            class.keep.age = Some(Duration::from_nanos(ns));
            Ok(())
        },
    },
    Key {
        name: "rollup",
        form: "STEP for DURATION then …",
        help: "Roll-up of samples older than `age`, which otherwise expire: one row per step, with count, sum, \
               minimum, maximum, first and last of each field. `1m for 365d then 1h for ever`: one row per minute \
               for a year, then one row per hour. Each step must be a multiple of the step before it, and be kept \
               longer. A row needs far less space than its samples, but only the figures remain. Samples stay for \
               up to a 32nd of `age` longer, until they are rolled up.",
        assign: |class, text| {
            class.rollup = parse_levels(text)?;
            Ok(())
        },
    },
    Key {
        name: "rows",
        form: "COUNT",
        help: "Number of latest rows to keep of every source, and up to one block more (a ring).",
        assign: |class, text| {
            let rows = text.parse().map_err(|_| {
                format!("{text:?} is not a count of rows; give a whole number, 1 or more")
            })?;
            class.keep.rows = Some(rows);
            Ok(())
        },
    },
    Key {
        name: "bytes",
        form: "SIZE",
        help: "Approximate number of latest bytes to keep, of all sources of the class together (a quota).",
        assign: |class, text| {
            class.keep.bytes = Some(parse_size(text)?);
            Ok(())
        },
    },
    Key {
        name: "priority",
        form: "0 to 255",
        help: "Order of shedding: classes with a lower priority are shed first. The default is 100.",
        assign: |class, text| {
            class.priority = text.parse().map_err(|_| {
                format!("{text:?} is not a priority; give a whole number from 0 to 255")
            })?;
            Ok(())
        },
    },
    Key {
        name: "when_full",
        form: "refuse|shed",
        help: "Behaviour when `disk` is used up by data that no rule expires. `refuse` (the default): new samples \
               are rejected until there is space. `shed`: the oldest samples of the class expire early, and new \
               samples are accepted.",
        assign: |class, text| {
            class.when_full = match text {
                "refuse" => WhenFull::Refuse,
                "shed" => WhenFull::Shed,
                _ => return Err(format!("{text:?} is neither refuse nor shed")),
            };
            Ok(())
        },
    },
    Key {
        name: "replication",
        form: "COUNT",
        help: "In a cluster: number of replicas of the samples of the class (default: that of the keyspace). More \
               replicas survive the loss of more machines, and each costs its disk and network. The tables of the \
               class are then in a keyspace of their own, `KEYSPACE_NAME`.",
        assign: |class, text| {
            class.copies.replication = match text.parse() {
                Ok(factor @ 1..=100) => Some(factor),
                _ => {
                    return Err(format!(
                        "{text:?} is not a number of replicas; give a whole number from 1 to 100"
                    ));
                }
            };
            Ok(())
        },
    },
    Key {
        name: "consistency",
        form: "one|quorum|all",
        help: "In a cluster: replicas that must answer before a bundle of the class counts as stored or read. `quorum` \
               (the default): more than half, for both. `one`: one, for both; works while one replica is up, but its \
               loss loses samples, and reads may miss samples until the replicas are equal. `all`: all for a write, \
               one for a read; reads are cheapest, but rows wait in their port while any replica is down. \
               `acknowledge` governs the journal, which all classes share.",
        assign: |class, text| {
            class.copies.consistency = match text {
                "one" => Consistency::One,
                "quorum" => Consistency::Quorum,
                "all" => Consistency::All,
                _ => return Err(format!("{text:?} is neither one, quorum nor all")),
            };
            Ok(())
        },
    },
];

/// Old names of keys, which are accepted for one version, with the new names.
const OLD_KEYS: [(&str, &str); 1] = [("coarser", "rollup")];

/// Class as it was written: texts by key, not parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassText {
    texts: KeyTexts,
}

impl ClassText {
    /// Parses the value of a flag: `name=raw,sources=accel{axis="x"},age=30d`.
    ///
    /// # Errors
    /// A sentence with the remedy.
    pub fn parse(text: &str) -> Result<ClassText, String> {
        let mut class = ClassText::default();
        for (key, value) in pairs(text, "name=raw,sources=cpu,age=30d")? {
            class.put(key, value.to_string())?;
        }
        Ok(class)
    }

    /// Parses several classes, separated by semicolons.
    ///
    /// # Errors
    /// The errors of [`ClassText::parse`].
    pub fn parse_list(text: &str) -> Result<Vec<ClassText>, String> {
        list(text, ClassText::parse)
    }

    /// Adds a key. An old name of a key has the same effect as its new name.
    ///
    /// # Errors
    /// If there is no such key, or it is present already.
    pub fn put(&mut self, key: &str, text: String) -> Result<(), String> {
        let old = OLD_KEYS.iter().find(|(old, _)| *old == key);
        let name = old.map_or(key, |(_, new)| new);
        self.texts.put(&KEYS, "a class", name, key, text)
    }

    /// Returns keys and texts, in their order.
    pub fn texts(&self) -> &[(&'static str, String)] {
        self.texts.texts()
    }

    /// Parses the texts into a class.
    ///
    /// # Errors
    /// The first text that cannot be parsed, with its key and the remedy.
    pub fn class(&self) -> Result<Class, String> {
        let mut class = Class {
            name: String::new(),
            priority: PRIORITY,
            ..Class::forever()
        };
        self.texts.assign(&KEYS, &mut class)?;
        Ok(class)
    }
}

/// Writes the class in the form of a flag.
impl fmt::Display for ClassText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<String> = self
            .texts()
            .iter()
            .map(|(name, text)| format!("{name}={text}"))
            .collect();
        f.write_str(&pairs.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_engine::levels_text;

    #[test]
    fn a_flag_contains_all_settings_of_a_class() {
        let text = r#"name=raw, sources=accel{axis="x",at=~"a;b,.*"}, age=1h30m, rows=5, bytes=1 GiB, priority=3, when_full=shed"#;
        let class = ClassText::parse(text).unwrap().class().unwrap();
        assert_eq!(
            (class.name.as_str(), class.sources.as_str()),
            ("raw", r#"accel{axis="x",at=~"a;b,.*"}"#)
        );
        assert_eq!(class.keep.age, Some(Duration::from_secs(5400)));
        assert_eq!(
            (class.keep.rows, class.keep.bytes),
            (Some(5), Some(1 << 30))
        );
        assert_eq!((class.priority, class.when_full), (3, WhenFull::Shed));
        let both = ClassText::parse_list(&format!("{text}; name=b;")).unwrap();
        assert_eq!(both.len(), 2);
        assert_eq!(both[1].class().unwrap().priority, PRIORITY);
    }

    #[test]
    fn levels_are_read_as_they_are_written() {
        for text in ["1m for 365d then 1h for ever", "10s for 2d"] {
            let class = ClassText::parse(&format!("name=a, age=1d, rollup={text}"));
            assert_eq!(levels_text(&class.unwrap().class().unwrap().rollup), text);
        }
        let old = ClassText::parse("name=a,age=1d,coarser=1m for 1y").unwrap();
        assert_eq!(old.to_string(), "name=a,age=1d,rollup=1m for 1y");
    }

    #[test]
    fn every_bad_text_is_rejected_with_a_remedy() {
        for (text, words) in [
            ("raw", "write name=raw"),
            ("nome=raw", "there are name, sources, age"),
            ("name=a,name=b", "twice"),
            ("name=a,rollup=1m for 1y,coarser=1m for 1y", "twice"),
            ("name=a,age=long", "age: "),
            ("name=a,age=-1s", "age: "),
            ("name=a,rows=-1", "1 or more"),
            ("name=a,bytes=much", "such as 256 MiB"),
            ("name=a,priority=256", "from 0 to 255"),
            ("name=a,when_full=panic", "neither refuse nor shed"),
            ("name=a,replication=0", "a whole number from 1 to 100"),
            ("name=a,consistency=two", "neither one, quorum nor all"),
            ("name=a,rollup=1m", "write 1m for 365d"),
            ("name=a,rollup=1m for long", "rollup: "),
            ("name=a,rollup=-1m for ever", "rollup: "),
        ] {
            let read = ClassText::parse(text).and_then(|class| class.class().map(drop));
            let error = read.expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
