//! Retention classes: the sources in each class, how long they are kept, and which class is shed
//! first when space is short.

use crate::bytes::{Cursor, Short, put_text};
use crate::error::Error;
use seiner_codec::varint;
use seiner_model::{Selector, SourceKey, duration_text};
pub use seiner_store::{Class, DEFAULT, Keep, Level, WhenFull, levels_text, parse_levels};
use std::time::Duration;

/// Class to which a level belongs, and the step that identifies the level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelOf {
    /// Number of the class.
    pub class: u8,
    /// Length of a step, ns.
    pub step: u64,
}

/// Maximum number of classes. A class number is a byte, and one number stays free.
const CLASSES: usize = 254;
/// Minimum rows of a ring: with fewer rows, the ring would be empty before a block is sealed.
const LEAST_ROWS: u64 = 1;
/// Minimum step: shorter steps would hardly be fewer than the samples.
const LEAST_STEP: Duration = Duration::from_secs(1);
/// Minimum quota: two blocks of the default size. Smaller quotas cannot be enforced separately.
const LEAST_BYTES: u64 = 8192;

/// Rules of a store. A source belongs to the first class that matches. The levels follow the
/// classes. Each level is a class of its own, whose sources contain the rows of steps.
#[derive(Clone, Debug)]
pub struct Classes {
    list: Vec<Class>,
    /// Selector of each class. Levels have none.
    selectors: Vec<Selector>,
    /// Class and step of every level.
    levels: Vec<LevelOf>,
}

impl Default for Classes {
    fn default() -> Classes {
        Classes {
            list: vec![Class::forever()],
            selectors: vec![Selector::all()],
            levels: Vec::new(),
        }
    }
}

impl Classes {
    /// Creates rules in order of evaluation. Sources that no class matches are kept for ever,
    /// unless the last class matches everything.
    ///
    /// # Errors
    /// If a rule can keep nothing, two classes have the same name, or a class can never match a
    /// source. The error names the class and the nearest valid value.
    pub fn new(mut list: Vec<Class>) -> Result<Classes, Error> {
        let mut selectors: Vec<Selector> = Vec::new();
        for (index, class) in list.iter().enumerate() {
            check(class)?;
            let before = &list[..index];
            if before.iter().any(|other| other.name == class.name) {
                return Err(invalid(class, "there are two classes of this name"));
            }
            if let Some(all) = selectors.iter().position(means_everything) {
                let what = format!(
                    "class {:?} before it means every source; put {:?} first",
                    before[all].name, class.name
                );
                return Err(invalid(class, &what));
            }
            let selector = Selector::parse(&class.sources);
            selectors.push(selector.map_err(|error| invalid(class, &error.to_string()))?);
        }
        if !selectors.last().is_some_and(means_everything) {
            if let Some(class) = list.iter().find(|class| class.name == DEFAULT) {
                let what = "this is the name of the class of all other sources; leave its selector out, and put it last";
                return Err(invalid(class, what));
            }
            list.push(Class::forever());
            selectors.push(Selector::all());
        }
        let levels = add_levels(&mut list)?;
        if list.len() > CLASSES {
            let what = format!(
                "{} retention classes, levels included, are more than {CLASSES}",
                list.len()
            );
            return Err(Error::Options(what));
        }
        Ok(Classes {
            list,
            selectors,
            levels,
        })
    }

    /// Returns all classes in order of evaluation, followed by their levels.
    pub fn list(&self) -> &[Class] {
        &self.list
    }

    /// Returns the classes without their levels.
    pub fn named(&self) -> &[Class] {
        &self.list[..self.selectors.len()]
    }

    /// Returns the number of the class of a source.
    pub fn of(&self, key: &SourceKey) -> u8 {
        match key.level_id() {
            Some(level) => self.of_level(self.of_base(&key.base()), level.step_ns),
            None => self.of_base(key),
        }
    }

    fn of_base(&self, key: &SourceKey) -> u8 {
        let holds = |selector: &Selector| selector.holds(key);
        let found = self.selectors.iter().position(holds);
        found.expect("the last class means every source") as u8
    }

    /// Returns the class of rows of a step. Steps that the present rules of the class no longer
    /// have belong to the next longer step, or to the longest. In a class without levels, they
    /// belong to the samples.
    fn of_level(&self, class: u8, step: u64) -> u8 {
        let levels = self.levels_of(class);
        let longer = levels.iter().find(|(_, level)| *level >= step);
        let found = longer.or(levels.last());
        found.map_or(class, |(number, _)| *number)
    }

    /// Returns the class and step of a level. Returns `None` for other classes.
    pub fn level(&self, class: u8) -> Option<LevelOf> {
        let at = (class as usize).checked_sub(self.selectors.len())?;
        self.levels.get(at).copied()
    }

    /// Returns the levels of a class, finest first: their class numbers, and the lengths of their
    /// steps in ns.
    pub fn levels_of(&self, class: u8) -> Vec<(u8, u64)> {
        let own = |(at, level): (usize, &LevelOf)| {
            let number = (self.selectors.len() + at) as u8;
            (level.class == class).then_some((number, level.step))
        };
        self.levels.iter().enumerate().filter_map(own).collect()
    }

    /// Returns the length of the step in ns into which old rows of a class, or of a level, are
    /// rolled up.
    pub fn next_step(&self, class: u8) -> Option<u64> {
        match self.level(class) {
            None => Some(self.levels_of(class).first()?.1),
            Some(level) => {
                let levels = self.levels_of(level.class);
                let mut longer = levels.iter().filter(|(_, step)| *step > level.step);
                Some(longer.next()?.1)
            }
        }
    }

    /// Returns whether rows of any class or level are hidden by age according to the clock alone.
    pub fn hides_by_clock(&self) -> bool {
        let mut classes = (0..).zip(&self.list);
        classes.any(|(number, class)| class.keep.age.is_some() && self.next_step(number).is_none())
    }
}

/// Appends the levels of all classes.
fn add_levels(list: &mut Vec<Class>) -> Result<Vec<LevelOf>, Error> {
    let mut levels = Vec::new();
    for at in 0..list.len() {
        let class = list[at].clone();
        for level in &class.rollup {
            let step = level.step.as_nanos() as u64;
            let name = format!("{}/{}", class.name, duration_text(step));
            if list.iter().any(|other| other.name == name) {
                let what = format!("its level would be called {name:?}, as another class is");
                return Err(invalid(&class, &what));
            }
            list.push(Class {
                name,
                keep: Keep {
                    age: level.keep,
                    ..Keep::default()
                },
                rollup: Vec::new(),
                ..class.clone()
            });
            levels.push(LevelOf {
                class: at as u8,
                step,
            });
        }
    }
    Ok(levels)
}

/// Writes the parts of the rules that decide how long each source is kept.
pub fn put_classes(classes: &[Class], out: &mut Vec<u8>) {
    varint::put_u64(classes.len() as u64, out);
    for Class {
        name,
        sources,
        keep,
        rollup,
        ..
    } in classes
    {
        put_text(name, out);
        put_text(sources, out);
        // 0 means no limit. A limit of 0 is rejected.
        varint::put_u64(keep.age.map_or(0, |age| age.as_nanos() as u64), out);
        varint::put_u64(keep.rows.unwrap_or(0), out);
        varint::put_u64(keep.bytes.unwrap_or(0), out);
        varint::put_u64(rollup.len() as u64, out);
        for level in rollup {
            varint::put_u64(level.step.as_nanos() as u64, out);
            varint::put_u64(level.keep.map_or(0, |keep| keep.as_nanos() as u64), out);
        }
    }
}

/// Reads the rules that [`put_classes`] wrote.
pub fn get_classes(cursor: &mut Cursor<'_>) -> Result<Classes, Short> {
    let some = |limit: u64| (limit != 0).then_some(limit);
    let mut list = Vec::new();
    for _ in 0..cursor.count(CLASSES)? {
        let mut class = Class {
            name: cursor.text()?.to_string(),
            sources: cursor.text()?.to_string(),
            keep: Keep {
                age: some(cursor.varint()?).map(Duration::from_nanos),
                rows: some(cursor.varint()?),
                bytes: some(cursor.varint()?),
            },
            ..Class::forever()
        };
        for _ in 0..cursor.count(CLASSES)? {
            class.rollup.push(Level {
                step: Duration::from_nanos(cursor.varint()?),
                keep: some(cursor.varint()?).map(Duration::from_nanos),
            });
        }
        list.push(class);
    }
    Classes::new(list).map_err(|_| Short)
}

fn means_everything(selector: &Selector) -> bool {
    selector.measurement.is_none() && selector.matchers.is_empty()
}

fn invalid(class: &Class, what: &str) -> Error {
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
        return Err(invalid(
            class,
            "an age below 1 s keeps nothing; say 1s or more",
        ));
    }
    if class.keep.rows.is_some_and(|rows| rows < LEAST_ROWS) {
        return Err(invalid(
            class,
            "a ring of 0 rows keeps nothing; say 1 or more",
        ));
    }
    if class.keep.bytes.is_some_and(|bytes| bytes < LEAST_BYTES) {
        let what = format!(
            "a quota below {LEAST_BYTES} bytes is less than two blocks; say {LEAST_BYTES} or more"
        );
        return Err(invalid(class, &what));
    }
    check_levels(class).map_err(|what| invalid(class, &what))
}

/// Checks whether the levels of a class can follow each other. The error names valid levels.
fn check_levels(class: &Class) -> Result<(), String> {
    if class.rollup.is_empty() {
        return Ok(());
    }
    let text = |duration: Duration| duration_text(duration.as_nanos() as u64);
    let Some(age) = class.keep.age else {
        return Err(
            "rollup replaces samples that are too old, and the class has no age; set age = \"7d\", or leave rollup out"
                .to_string(),
        );
    };
    if class.keep.rows.is_some() || class.keep.bytes.is_some() {
        return Err(
            "a ring or a quota expires samples before they are rolled up; leave rows and bytes out, or \
             rollup"
                .to_string(),
        );
    }
    let mut step_before = None;
    let mut kept_before = Some(age);
    for level in &class.rollup {
        let step = text(level.step);
        if level.step < LEAST_STEP {
            return Err(format!("a step of {step} is too short; say 1s or more"));
        }
        let Some(before) = kept_before else {
            return Err(format!(
                "nothing comes after steps that are kept for ever; leave {step} out, or say how long those before it \
                 are kept"
            ));
        };
        if level.step > before {
            return Err(format!(
                "steps of {step} are longer than the lifetime of the finer rows ({}); say steps of {} or shorter, or \
                 keep the finer rows for {step} or longer",
                text(before),
                text(before)
            ));
        }
        if let Some(finer) = step_before
            && (level.step <= finer || level.step.as_nanos() % finer.as_nanos() != 0)
        {
            let times = (level.step.as_nanos() as f64 / finer.as_nanos() as f64).round();
            return Err(format!(
                "steps of {step} are not a whole number of steps of {}; say {}",
                text(finer),
                text(finer * (times as u32).max(2))
            ));
        }
        if level.keep.is_some_and(|keep| keep <= before) {
            return Err(format!(
                "steps of {step} are kept no longer than the finer rows ({}); say more than {}, or `ever`",
                text(before),
                text(before)
            ));
        }
        (step_before, kept_before) = (Some(level.step), level.keep);
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
    fn a_source_belongs_to_the_first_class_that_selects_it() {
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
    fn contradictory_rules_are_rejected_with_a_remedy() {
        let rejected = |classes| Classes::new(classes).unwrap_err().to_string();
        let ring = Class {
            keep: Keep {
                rows: Some(0),
                ..Keep::default()
            },
            ..class("ring", "cpu")
        };
        assert!(rejected(vec![ring]).contains("say 1 or more"));
        assert!(rejected(vec![class("a", ""), class("b", "cpu")]).contains("put \"b\" first"));
        assert!(rejected(vec![class("a", "x"), class("a", "y")]).contains("two classes"));
        assert!(rejected(vec![class("a", "x{")]).contains("\"a\""));
    }

    fn levels(age: u64, levels: &[(u64, u64)]) -> Class {
        let level = |&(step, keep): &(u64, u64)| Level {
            step: Duration::from_secs(step),
            keep: (keep > 0).then(|| Duration::from_secs(keep)),
        };
        Class {
            keep: Keep {
                age: (age > 0).then(|| Duration::from_secs(age)),
                ..Keep::default()
            },
            rollup: levels.iter().map(level).collect(),
            ..class("raw", "cpu")
        }
    }

    #[test]
    fn levels_are_classes_of_their_own_behind_the_others() {
        let rules = Classes::new(vec![levels(600, &[(60, 3600), (600, 0)])]).unwrap();
        let names: Vec<&str> = rules.list().iter().map(|class| &*class.name).collect();
        assert_eq!(names, ["raw", DEFAULT, "raw/1m", "raw/10m"]);
        assert_eq!(rules.named().len(), 2);
        let key = SourceKey::new("cpu", [("host", "a")]).unwrap();
        let of = |seconds: u64| {
            rules.of(&key.level(seiner_model::LevelId {
                step_ns: seconds * 1_000_000_000,
                part: 0,
            }))
        };
        assert_eq!((rules.of(&key), of(60), of(600)), (0, 2, 3));
        // Levels of earlier rules.
        assert_eq!((of(1), of(300), of(3600)), (2, 3, 3));
        let next = |class| rules.next_step(class).map(|ns| ns / 1_000_000_000);
        assert_eq!(
            (next(0), next(1), next(2), next(3)),
            (Some(60), None, Some(600), None)
        );
        let mut bytes = Vec::new();
        put_classes(rules.named(), &mut bytes);
        let again = get_classes(&mut Cursor(&bytes)).unwrap();
        assert_eq!(again.list()[0].rollup, rules.list()[0].rollup);
        assert_eq!(again.list().len(), 4);
    }

    #[test]
    fn incompatible_levels_are_rejected_with_compatible_ones() {
        let rejected = |class| Classes::new(vec![class]).unwrap_err().to_string();
        for (class, words) in [
            (levels(0, &[(60, 0)]), "set age = \"7d\""),
            (levels(600, &[(0, 0)]), "say 1s or more"),
            (levels(600, &[(3600, 0)]), "say steps of 10m or shorter"),
            (levels(600, &[(60, 1200), (90, 0)]), "say 2m"),
            (levels(600, &[(60, 1200), (60, 0)]), "say 2m"),
            (levels(600, &[(60, 1200), (220, 0)]), "say 4m"),
            (levels(600, &[(60, 600)]), "say more than 10m"),
            (levels(600, &[(60, 0), (120, 0)]), "leave 2m out"),
        ] {
            let error = rejected(class);
            assert!(error.contains(words), "{error}");
        }
        let ring = Class {
            keep: Keep {
                age: Some(Duration::from_secs(600)),
                rows: Some(10),
                ..Keep::default()
            },
            ..levels(600, &[(60, 0)])
        };
        assert!(rejected(ring).contains("leave rows and bytes out"));
        let twin = class("raw/1m", "mem");
        let error = Classes::new(vec![levels(600, &[(60, 0)]), twin]).unwrap_err();
        assert!(error.to_string().contains("as another class is"));
    }
}
