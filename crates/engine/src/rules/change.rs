//! Differences between rules that let data expire sooner.

use crate::options::Options;
use crate::retention::class::{Class, Classes, WhenFull};
use seiner_model::{Selector, duration_text};
use seiner_store::Change;
use std::time::Duration;

/// Returns the difference for a store that occupies more than its budget.
pub(super) fn over_disk(taken: u64, options: &Options) -> Change {
    let budget = options.disk.unwrap_or(u64::MAX);
    Change {
        class: String::new(),
        why: format!("disk = {budget} bytes, and the store takes {taken}"),
    }
}

/// Returns whether any class sheds its oldest data when the budget is exhausted.
pub(super) fn may_shed(classes: &Classes) -> bool {
    let sheds = |class: &Class| class.when_full == WhenFull::Shed;
    classes.named().iter().any(sheds)
}

/// Returns all differences by which new rules let data expire sooner than old rules. `all` is true
/// if all old rules are known, not only those of the classes.
pub(super) fn losses(old: &Options, new: &Options, all: bool) -> Vec<Change> {
    let mut losses = Vec::new();
    for (before, after) in pairs(&old.classes, &new.classes) {
        let mut whys = shorter(before, after);
        if all && before.when_full == WhenFull::Refuse && after.when_full == WhenFull::Shed {
            whys.push(
                "its oldest samples expire when the disk is full, instead of new ones being rejected"
                    .to_string(),
            );
        }
        let other = match before.name == after.name {
            true => String::new(),
            false => format!("its sources come under class {:?}: ", after.name),
        };
        losses.extend(whys.into_iter().map(|why| Change {
            class: before.name.clone(),
            why: format!("{other}{why}"),
        }));
    }
    if all {
        losses.extend(sooner_shed(&old.classes, &new.classes));
        losses.extend(less_space(old, new));
    }
    let mut unique: Vec<Change> = Vec::new();
    for loss in losses {
        if !unique.contains(&loss) {
            unique.push(loss);
        }
    }
    unique
}

/// Returns pairs of an old and a new class that a source may have one after the other.
fn pairs<'a>(old: &'a Classes, new: &'a Classes) -> Vec<(&'a Class, &'a Class)> {
    let mut pairs = Vec::new();
    for (i, before) in old.named().iter().enumerate() {
        for (j, after) in new.named().iter().enumerate() {
            // The sources of both selectors had, or have, the class of an earlier selector with the
            // same text.
            let had = old.named()[..i]
                .iter()
                .any(|class| class.sources == after.sources);
            let has = new.named()[..j]
                .iter()
                .any(|class| class.sources == before.sources);
            if !had && !has && !are_apart(before, after) {
                pairs.push((before, after));
            }
        }
    }
    pairs
}

/// Returns whether no source matches both classes, because their measurements or the values of a
/// tag differ.
fn are_apart(a: &Class, b: &Class) -> bool {
    use seiner_model::Condition::Is;
    let selector = |class: &Class| Selector::parse(&class.sources).unwrap_or_default();
    let (a, b) = (selector(a), selector(b));
    let named = |selector: &Selector| selector.measurement.clone();
    let measured = matches!((named(&a), named(&b)), (Some(a), Some(b)) if a != b);
    measured
        || a.matchers.iter().any(|one| {
            let differs = |other: &&seiner_model::Matcher| {
                other.tag == one.tag
                    && matches!((&one.condition, &other.condition), (Is(a), Is(b)) if a != b)
            };
            b.matchers.iter().any(|other| differs(&other))
        })
}

/// Returns the lengths of the steps in ns, with the lifetime of each. Samples have length 0.
fn stages(class: &Class) -> Vec<(u64, Option<Duration>)> {
    let levels = class.rollup.iter();
    let levels = levels.map(|level| (level.step.as_nanos() as u64, level.keep));
    std::iter::once((0, class.keep.age)).chain(levels).collect()
}

/// Returns descriptions of all differences by which a class keeps less than another class.
fn shorter(before: &Class, after: &Class) -> Vec<String> {
    let mut whys = Vec::new();
    let time = |keep: Option<Duration>| match keep {
        Some(keep) => duration_text(keep.as_nanos() as u64),
        None => "ever".to_string(),
    };
    let covers = |keep: Option<Duration>, needed: Option<Duration>| match (keep, needed) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(keep), Some(needed)) => keep >= needed,
    };
    for (step, needed) in stages(before) {
        let fine = stages(after).into_iter().filter(|(of, _)| *of <= step);
        // `None` means for ever and is the longest.
        let longest = fine
            .map(|(_, keep)| keep)
            .max_by_key(|keep| keep.unwrap_or(Duration::MAX));
        let longest = longest.unwrap_or(Some(Duration::ZERO));
        if !covers(longest, needed) {
            let what = match step {
                0 => "samples are".to_string(),
                step => format!("steps of {} are", duration_text(step)),
            };
            whys.push(format!(
                "{what} kept for {} instead of {}",
                time(longest),
                time(needed)
            ));
        }
    }
    let counts = [
        ("rows of each source", before.keep.rows, after.keep.rows),
        ("bytes", before.keep.bytes, after.keep.bytes),
    ];
    for (what, before, after) in counts {
        if let Some(after) = after.filter(|after| before.is_none_or(|before| *after < before)) {
            let before = before.map_or("all".to_string(), |count| count.to_string());
            whys.push(format!(
                "the latest {after} {what} are kept instead of {before}"
            ));
        }
    }
    whys
}

/// Returns classes that are now shed before others, and were not before.
fn sooner_shed(old: &Classes, new: &Classes) -> Vec<Change> {
    let shed = |classes: &Classes| -> Vec<(String, u8)> {
        let sheds = classes
            .named()
            .iter()
            .filter(|class| class.when_full == WhenFull::Shed);
        sheds
            .map(|class| (class.name.clone(), class.priority))
            .collect()
    };
    let (old, new) = (shed(old), shed(new));
    let was = |name: &str| {
        old.iter()
            .find(|(other, _)| other == name)
            .map(|(_, priority)| *priority)
    };
    let mut losses = Vec::new();
    for (name, priority) in &new {
        let others = new.iter().filter(|(other, _)| other != name);
        let overtaken = others.filter(|(other, after)| {
            let before = was(name).zip(was(other));
            before.is_some_and(|(own, other)| own >= other) && priority < after
        });
        if let Some((other, _)) = overtaken.min() {
            losses.push(Change {
                class: name.clone(),
                why: format!(
                    "its oldest samples expire before those of class {other:?} when the disk is full"
                ),
            });
        }
    }
    losses
}

/// Returns the difference of a smaller budget, if data is shed for it.
fn less_space(old: &Options, new: &Options) -> Option<Change> {
    if !may_shed(&new.classes) {
        return None;
    }
    let text = |disk: Option<u64>| disk.map_or("all".to_string(), |bytes| format!("{bytes} bytes"));
    let less = new.disk.unwrap_or(u64::MAX) < old.disk.unwrap_or(u64::MAX);
    let why = match less {
        true => format!("disk = {} instead of {}", text(new.disk), text(old.disk)),
        false if new.leave_free > old.leave_free => format!(
            "leave_free = {} bytes instead of {}",
            new.leave_free, old.leave_free
        ),
        false => return None,
    };
    Some(Change {
        class: String::new(),
        why: format!("{why}; classes that may be shed lose their oldest samples sooner"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retention::class::{Keep, parse_levels};

    /// Builds a class from its name, selector, age in days, and levels.
    fn class(name: &str, sources: &str, days: Option<u64>, levels: &str) -> Class {
        Class {
            name: name.to_string(),
            sources: sources.to_string(),
            keep: Keep {
                age: days.map(|days| Duration::from_secs(86_400 * days)),
                ..Keep::default()
            },
            rollup: match levels {
                "" => Vec::new(),
                levels => parse_levels(levels).unwrap(),
            },
            ..Class::forever()
        }
    }

    fn options(classes: Vec<Class>) -> Options {
        Options {
            classes: Classes::new(classes).unwrap(),
            ..Options::default()
        }
    }

    fn lost(old: Vec<Class>, new: Vec<Class>) -> Vec<String> {
        let losses = losses(&options(old), &options(new), true);
        losses.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_a_shorter_retention_is_a_loss() {
        let raw = |days| vec![class("raw", "accel", days, "")];
        assert!(lost(raw(Some(7)), raw(Some(7))).is_empty());
        assert!(lost(raw(Some(7)), raw(Some(8))).is_empty());
        assert!(lost(raw(Some(7)), raw(None)).is_empty());
        assert!(lost(raw(Some(7)), Vec::new()).is_empty());
        assert_eq!(
            lost(raw(Some(7)), raw(Some(6))),
            ["class \"raw\": samples are kept for 6d instead of 7d"]
        );
        assert_eq!(lost(raw(None), raw(Some(6))).len(), 1);
        assert_eq!(
            lost(Vec::new(), raw(Some(6))),
            [
                "class \"default\": its sources come under class \"raw\": samples are kept for 6d instead of ever"
            ]
        );
    }

    #[test]
    fn the_order_of_overlapping_classes_matters() {
        let one = || class("one", "a", Some(9), "");
        let two = || class("two", "b", Some(1), "");
        assert!(lost(vec![one(), two()], vec![two(), one()]).is_empty());
        let some = || class("some", "{host=~\"x.*\"}", Some(1), "");
        assert!(lost(vec![one(), some()], vec![one(), some()]).is_empty());
        assert_eq!(lost(vec![one(), some()], vec![some(), one()]).len(), 1);
        // Without this class, its sources are in the next class.
        assert_eq!(lost(vec![one(), some()], vec![some()]).len(), 1);
        let tag = |name: &str, value: &str, days| {
            class(name, &format!("{{l=\"{value}\"}}"), Some(days), "")
        };
        let (debug, info) = (|| tag("debug", "debug", 1), || tag("info", "info", 9));
        assert!(lost(vec![info(), debug()], vec![debug(), info()]).is_empty());
    }

    #[test]
    fn levels_make_a_class_keep_more() {
        let raw = |levels| vec![class("raw", "accel", Some(7), levels)];
        assert!(lost(raw(""), raw("1m for 365d")).is_empty());
        assert_eq!(lost(raw("1m for 365d"), raw("")).len(), 1);
        assert_eq!(lost(raw("1m for 365d"), raw("1m for 300d")).len(), 1);
        assert_eq!(lost(raw("1m for 365d"), raw("1h for 365d")).len(), 1);
        assert!(lost(raw("1h for 365d"), raw("1m for 365d")).is_empty());
        // Samples themselves are kept longer than steps were.
        assert!(lost(raw("1m for 365d"), vec![class("raw", "accel", None, "")]).is_empty());
    }

    #[test]
    fn counts_budgets_and_shedding_are_compared() {
        let with = |change: &dyn Fn(&mut Options)| {
            let mut own = class("raw", "accel", None, "");
            own.when_full = WhenFull::Shed;
            let mut options = options(vec![own]);
            change(&mut options);
            options
        };
        let edit = |options: &mut Options, change: &dyn Fn(&mut Class)| {
            let mut list = options.classes.named().to_vec();
            change(&mut list[0]);
            list.pop();
            options.classes = Classes::new(list).unwrap();
        };
        let lost = |old: &dyn Fn(&mut Options), new: &dyn Fn(&mut Options)| {
            losses(&with(old), &with(new), true).len()
        };
        let same = |_: &mut Options| {};
        let disk = |bytes| move |options: &mut Options| options.disk = Some(bytes);
        assert_eq!(lost(&disk(5), &disk(4)), 1);
        assert_eq!(lost(&disk(5), &disk(6)), 0);
        assert_eq!(lost(&same, &disk(6)), 1);
        assert_eq!(lost(&disk(5), &same), 0);
        assert_eq!(lost(&same, &|options| options.leave_free = 1), 1);
        assert_eq!(lost(&same, &|options| options.lanes = 2), 0);
        let rows = |options: &mut Options| edit(options, &|class| class.keep.rows = Some(9));
        assert_eq!((lost(&same, &rows), lost(&rows, &same)), (1, 0));
        let refuses =
            |options: &mut Options| edit(options, &|class| class.when_full = WhenFull::Refuse);
        assert_eq!((lost(&same, &refuses), lost(&refuses, &same)), (0, 1));
        // No data expires for a smaller budget if nothing may be shed.
        let small = |options: &mut Options| {
            refuses(options);
            options.disk = Some(1);
        };
        assert_eq!(lost(&refuses, &small), 0);
        let two = |first: u8, second: u8| {
            let shed = |name: &str, sources: &str, priority| Class {
                priority,
                when_full: WhenFull::Shed,
                ..class(name, sources, None, "")
            };
            vec![shed("one", "a", first), shed("two", "b", second)]
        };
        assert_eq!(
            super::losses(&options(two(1, 2)), &options(two(3, 4)), true).len(),
            0
        );
        assert_eq!(
            super::losses(&options(two(1, 2)), &options(two(3, 2)), true).len(),
            1
        );
    }
}
