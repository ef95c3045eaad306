//! Retention classes: which sources are kept how long, and who goes first when room is short.

use crate::bytes::{Cursor, Short, put_text};
use crate::error::Error;
use seiner_codec::varint;
use seiner_model::{Selector, SourceKey};
use std::time::Duration;

/// How long the blocks of a class are kept: as long as all rules that are set allow. None set:
/// for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Samples older than this are not shown any more.
    pub age: Option<Duration>,
    /// The latest rows of a source, at least; up to a block more may be shown.
    pub rows: Option<u64>,
    /// The latest bytes of blocks, all sources of the class together, about.
    pub bytes: Option<u64>,
}

/// What happens when the disk budget is used up by data that no rule lets go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// New samples are refused until there is room.
    #[default]
    Refuse,
    /// The oldest blocks of the class are let go.
    Shed,
}

/// A retention class.
#[derive(Clone, Debug)]
pub struct Class {
    /// Its name in settings, reports and metrics.
    pub name: String,
    /// The sources in it, as far as no class before it has them: a selector,
    /// `measurement{tag="value"}`; empty for all.
    pub sources: String,
    /// How long they are kept.
    pub keep: Keep,
    /// Classes with lower priority are shed first.
    pub priority: u8,
    /// What happens when the budget is used up.
    pub when_full: WhenFull,
}

/// The name of the class of sources that no rule means.
pub const DEFAULT: &str = "default";
/// Classes are counted in a byte; one number stays free.
const CLASSES: usize = 254;
/// A ring of fewer rows would be gone before it is a block.
const LEAST_ROWS: u64 = 1;
/// Two blocks of the default size; fewer bytes cannot be kept apart.
const LEAST_BYTES: u64 = 8192;

impl Class {
    /// The class of everything that no rule means: kept for ever, and new samples are refused when
    /// there is no room.
    pub fn forever() -> Class {
        Class {
            name: DEFAULT.to_string(),
            sources: String::new(),
            keep: Keep::default(),
            priority: u8::MAX,
            when_full: WhenFull::default(),
        }
    }
}

/// The rules of a store: the first class that means a source has it.
#[derive(Clone, Debug)]
pub struct Classes {
    list: Vec<Class>,
    /// What each class's text says.
    selectors: Vec<Selector>,
}

impl Default for Classes {
    fn default() -> Classes {
        Classes {
            list: vec![Class::forever()],
            selectors: vec![Selector::all()],
        }
    }
}

impl Classes {
    /// Rules in the order in which they are asked. Sources that none means are kept for ever,
    /// unless the last class means everything.
    ///
    /// # Errors
    /// When a rule can keep nothing, when two classes have one name, or when a class can never get
    /// a source; names the class and the nearest value that works.
    pub fn new(mut list: Vec<Class>) -> Result<Classes, Error> {
        let mut selectors: Vec<Selector> = Vec::new();
        for (index, class) in list.iter().enumerate() {
            check(class)?;
            let before = &list[..index];
            if before.iter().any(|other| other.name == class.name) {
                return Err(refuse(class, "there are two classes of this name"));
            }
            if let Some(all) = selectors.iter().position(means_everything) {
                let what = format!(
                    "class {:?} before it means every source; put {:?} first",
                    before[all].name, class.name
                );
                return Err(refuse(class, &what));
            }
            let selector = Selector::parse(&class.sources);
            selectors.push(selector.map_err(|error| refuse(class, &error.to_string()))?);
        }
        if !selectors.last().is_some_and(means_everything) {
            if let Some(class) = list.iter().find(|class| class.name == DEFAULT) {
                let what = "this is the name of the class of all other sources; leave its selector out, and put it last";
                return Err(refuse(class, what));
            }
            list.push(Class::forever());
            selectors.push(Selector::all());
        }
        if list.len() > CLASSES {
            let what = format!("{} retention classes are more than {CLASSES}", list.len());
            return Err(Error::Options(what));
        }
        Ok(Classes { list, selectors })
    }

    /// All, in the order in which they are asked.
    pub fn list(&self) -> &[Class] {
        &self.list
    }

    /// The number of the class of a source.
    pub fn of(&self, key: &SourceKey) -> u8 {
        let holds = |selector: &Selector| selector.holds(key);
        let found = self.selectors.iter().position(holds);
        found.expect("the last class means every source") as u8
    }
}

/// Writes what decides which sources are kept how long.
pub fn put_classes(classes: &[Class], out: &mut Vec<u8>) {
    varint::put_u64(classes.len() as u64, out);
    for Class {
        name,
        sources,
        keep,
        ..
    } in classes
    {
        put_text(name, out);
        put_text(sources, out);
        // 0 is no limit: a limit of 0 is refused.
        varint::put_u64(keep.age.map_or(0, |age| age.as_nanos() as u64), out);
        varint::put_u64(keep.rows.unwrap_or(0), out);
        varint::put_u64(keep.bytes.unwrap_or(0), out);
    }
}

/// Reads it.
pub fn get_classes(cursor: &mut Cursor<'_>) -> Result<Classes, Short> {
    let some = |limit: u64| (limit != 0).then_some(limit);
    let mut list = Vec::new();
    for _ in 0..cursor.count(CLASSES)? {
        list.push(Class {
            name: cursor.text()?.to_string(),
            sources: cursor.text()?.to_string(),
            keep: Keep {
                age: some(cursor.varint()?).map(Duration::from_nanos),
                rows: some(cursor.varint()?),
                bytes: some(cursor.varint()?),
            },
            ..Class::forever()
        });
    }
    Classes::new(list).map_err(|_| Short)
}

fn means_everything(selector: &Selector) -> bool {
    selector.measurement.is_none() && selector.matchers.is_empty()
}

fn refuse(class: &Class, what: &str) -> Error {
    Error::Options(format!("retention class {:?}: {what}", class.name))
}

fn check(class: &Class) -> Result<(), Error> {
    if class.name.is_empty() || class.name.len() > 255 {
        return Err(Error::Options(
            "a retention class needs a name of 1 to 255 bytes".to_string(),
        ));
    }
    if class
        .keep
        .age
        .is_some_and(|age| age < Duration::from_secs(1))
    {
        return Err(refuse(
            class,
            "an age below 1 s keeps nothing; say 1s or more",
        ));
    }
    if class.keep.rows.is_some_and(|rows| rows < LEAST_ROWS) {
        return Err(refuse(
            class,
            "a ring of 0 rows keeps nothing; say 1 or more",
        ));
    }
    if class.keep.bytes.is_some_and(|bytes| bytes < LEAST_BYTES) {
        let what = format!(
            "a quota below {LEAST_BYTES} bytes is less than two blocks; say {LEAST_BYTES} or more"
        );
        return Err(refuse(class, &what));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, sources: &str) -> Class {
        Class {
            name: name.to_string(),
            sources: sources.to_string(),
            ..Class::forever()
        }
    }

    #[test]
    fn the_first_class_that_means_a_source_has_it() {
        let classes = Classes::new(vec![
            class("raw", "accel{axis=\"x\"}"),
            class("accel", "accel"),
        ])
        .unwrap();
        let of = |measurement: &str, axis: &str| {
            classes.of(&SourceKey::new(measurement, [("axis", axis)]).unwrap())
        };
        assert_eq!(
            (of("accel", "x"), of("accel", "y"), of("cpu", "x")),
            (0, 1, 2)
        );
        assert_eq!(classes.list()[2].name, DEFAULT);
    }

    #[test]
    fn rules_that_contradict_each_other_are_refused_with_a_remedy() {
        let refused = |classes| Classes::new(classes).unwrap_err().to_string();
        let ring = Class {
            keep: Keep {
                rows: Some(0),
                ..Keep::default()
            },
            ..class("ring", "cpu")
        };
        assert!(refused(vec![ring]).contains("say 1 or more"));
        assert!(refused(vec![class("a", ""), class("b", "cpu")]).contains("put \"b\" first"));
        assert!(refused(vec![class("a", "x"), class("a", "y")]).contains("two classes"));
        assert!(refused(vec![class("a", "x{")]).contains("\"a\""));
    }
}
