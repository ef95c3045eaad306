//! Conditions, split by what is needed to check them: times, tags, or fields.

use crate::cell::{Cell, Operator, is_true};
use crate::error::Error;
use crate::evaluate::Node;
use crate::schema::Schema;
use crate::select::compile::{Place, node};
use crate::text::statement::{Expression, Kind};
use crate::zone::Zone;
use seiner_model::{Condition as TagCondition, Interval, Matcher, parse_date};

/// Name of the time.
const TIME: &str = "time";

/// Condition of a query.
#[derive(Clone, Debug)]
pub struct Condition {
    /// Times.
    pub interval: Interval,
    /// True if the interval has a lower bound, an upper bound.
    pub bounds: (bool, bool),
    /// Conditions that the store checks.
    pub matchers: Vec<Matcher>,
    /// Other conditions on tags.
    pub of_tags: Vec<Expression>,
    /// Conditions with fields.
    pub of_rows: Vec<Expression>,
}

impl Default for Condition {
    fn default() -> Condition {
        Condition {
            interval: Interval::ALL,
            bounds: (false, false),
            matchers: Vec::new(),
            of_tags: Vec::new(),
            of_rows: Vec::new(),
        }
    }
}

impl Condition {
    /// Returns whether the other conditions on tags hold for a source. `tag` returns the value of a tag.
    pub fn holds_for<'k>(&self, tag: &dyn Fn(&str) -> &'k str) -> bool {
        self.of_tags.iter().all(|condition| {
            let mut row = Vec::new();
            let compiled = condition_node(condition, &mut |name, _| {
                row.push(Some(Cell::text(tag(name))));
                row.len() - 1
            });
            compiled.is_ok_and(|compiled| is_true(&compiled.value(&row)))
        })
    }
}

/// Value of `now()` in ns, and the zone of dates without one. Without a zone they are in UTC.
#[derive(Clone, Copy)]
pub struct Clock<'z> {
    pub now: i64,
    pub zone: Option<&'z Zone>,
}

/// Splits a condition.
///
/// # Errors
/// If a condition on times is not a bound.
pub fn split(
    condition: &Expression,
    schema: &Schema,
    clock: Clock<'_>,
) -> Result<Condition, Error> {
    let mut all = Condition::default();
    add(&mut all, condition, schema, clock)?;
    Ok(all)
}

fn add(
    all: &mut Condition,
    condition: &Expression,
    schema: &Schema,
    clock: Clock<'_>,
) -> Result<(), Error> {
    if let Expression::Binary(Operator::And, left, right) = condition {
        add(all, left, schema, clock)?;
        return add(all, right, schema, clock);
    }
    let mut kinds = Kinds::default();
    kinds.read(condition, schema);
    if kinds.times {
        return bound(all, condition, clock);
    }
    // Compiled only for its errors.
    condition_node(condition, &mut |_, _| 0)?;
    if kinds.fields {
        all.of_rows.push(condition.clone());
        return Ok(());
    }
    match matcher(condition) {
        Some(matcher) => all.matchers.push(matcher),
        None => all.of_tags.push(condition.clone()),
    }
    Ok(())
}

/// Kinds of the names in a condition.
#[derive(Default)]
struct Kinds {
    times: bool,
    fields: bool,
}

impl Kinds {
    fn read(&mut self, expression: &Expression, schema: &Schema) {
        match expression {
            Expression::Name(name, None) if name.eq_ignore_ascii_case(TIME) => self.times = true,
            Expression::Name(name, kind) => {
                self.fields |= schema.kind(name, *kind) == Kind::Field;
            }
            Expression::Binary(_, left, right) => {
                self.read(left, schema);
                self.read(right, schema);
            }
            Expression::Matches(left, ..) => self.read(left, schema),
            Expression::Call(_, arguments) => {
                for argument in arguments {
                    self.read(argument, schema);
                }
            }
            _ => {}
        }
    }
}

/// Narrows the interval by a condition on the time.
fn bound(all: &mut Condition, condition: &Expression, clock: Clock<'_>) -> Result<(), Error> {
    let error = || {
        Error::invalid(
            "a condition on time is a bound, such as time >= now() - 1h; bounds are connected by AND",
        )
    };
    let Expression::Binary(operator, left, right) = condition else {
        return Err(error());
    };
    let is_time = |side: &Expression| matches!(side, Expression::Name(name, None) if name.eq_ignore_ascii_case(TIME));
    let (operator, value) = match (is_time(left), is_time(right)) {
        (true, false) => (*operator, right),
        (false, true) => (mirrored(*operator), left),
        _ => return Err(error()),
    };
    let time = moment(value, clock)?;
    let interval = &mut all.interval;
    let (lower, upper) = match operator {
        Operator::Greater => (Some(time.saturating_add(1)), None),
        Operator::AtLeast => (Some(time), None),
        Operator::Less => (None, Some(time.saturating_sub(1))),
        Operator::AtMost => (None, Some(time)),
        Operator::Equal => (Some(time), Some(time)),
        _ => return Err(error()),
    };
    if let Some(lower) = lower {
        interval.start = interval.start.max(lower);
        all.bounds.0 = true;
    }
    if let Some(upper) = upper {
        interval.end = interval.end.min(upper);
        all.bounds.1 = true;
    }
    Ok(())
}

fn mirrored(operator: Operator) -> Operator {
    match operator {
        Operator::Greater => Operator::Less,
        Operator::AtLeast => Operator::AtMost,
        Operator::Less => Operator::Greater,
        Operator::AtMost => Operator::AtLeast,
        other => other,
    }
}

/// Returns a time in ns: a date, a number of ns, a duration since 1970, or a sum of `now()` and durations.
fn moment(value: &Expression, clock: Clock<'_>) -> Result<i64, Error> {
    match value {
        Expression::Constant(Cell::Text(text)) => date(text, clock.zone).ok_or_else(|| {
            Error::invalid(format!(
                "{text:?} is not a time; write '2026-11-21T08:00:00Z', a number of ns, 1700000000s, or now() - 1h"
            ))
        }),
        Expression::Constant(cell) => {
            let whole = cell.whole().and_then(|whole| i64::try_from(whole).ok());
            let float = || cell.number().map(|number| number as i64);
            whole
                .or_else(float)
                .ok_or_else(|| Error::invalid("a time is a number, a date, or now()"))
        }
        Expression::Duration(ns) => Ok(*ns),
        Expression::Call(name, arguments) if name == "now" && arguments.is_empty() => Ok(clock.now),
        Expression::Binary(operator, left, right) => {
            let (left, right) = (moment(left, clock)?, moment(right, clock)?);
            match operator {
                Operator::Add => Ok(left.saturating_add(right)),
                Operator::Subtract => Ok(left.saturating_sub(right)),
                _ => Err(Error::invalid("times can be added and subtracted only")),
            }
        }
        _ => Err(Error::invalid(
            "time is compared with a date, a number of ns, or now() and a duration",
        )),
    }
}

/// Reads a date. A date without a zone is in the given one.
fn date(text: &str, zone: Option<&Zone>) -> Option<i64> {
    let time = parse_date(text)?;
    // A date that has a zone cannot have another one.
    let has_zone = || text.contains(':') && parse_date(&format!("{text}Z")).is_none();
    match zone {
        Some(zone) if !has_zone() => Some(zone.time_of(time)),
        _ => Some(time),
    }
}

/// Returns a condition on one tag in the form of the store, if there is one.
fn matcher(condition: &Expression) -> Option<Matcher> {
    if let Some((tag, values)) = equalities(condition) {
        let condition = match values.as_slice() {
            [value] => TagCondition::Is(value.to_string()),
            values => {
                let values: Vec<String> = values.iter().map(|value| regex::escape(value)).collect();
                TagCondition::matches(&values.join("|")).ok()?
            }
        };
        let tag = tag.to_string();
        return Some(Matcher { tag, condition });
    }
    match condition {
        Expression::Binary(Operator::NotEqual, left, right) => {
            let (tag, value) = pair(left, right)?;
            Some(Matcher {
                tag: tag.to_string(),
                condition: TagCondition::IsNot(value.to_string()),
            })
        }
        Expression::Matches(left, regex, negated) => {
            let Expression::Name(tag, _) = &**left else {
                return None;
            };
            // The conditions of the store match whole values.
            let whole = TagCondition::matches(&format!(".*(?:{}).*", regex.as_str())).ok()?;
            let condition = match (whole, negated) {
                (TagCondition::Matches(regex), true) => TagCondition::MatchesNot(regex),
                (whole, _) => whole,
            };
            let tag = tag.clone();
            Some(Matcher { tag, condition })
        }
        _ => None,
    }
}

/// Returns the values of `tag = 'a' OR tag = 'b'`.
fn equalities(condition: &Expression) -> Option<(&str, Vec<&str>)> {
    match condition {
        Expression::Binary(Operator::Equal, left, right) => {
            let (tag, value) = pair(left, right)?;
            Some((tag, vec![value]))
        }
        Expression::Binary(Operator::Or, left, right) => {
            let (tag, mut values) = equalities(left)?;
            let (other, more) = equalities(right)?;
            values.extend(more);
            (tag == other).then_some((tag, values))
        }
        _ => None,
    }
}

fn pair<'e>(left: &'e Expression, right: &'e Expression) -> Option<(&'e str, &'e str)> {
    match (left, right) {
        (Expression::Name(tag, _), value) | (value, Expression::Name(tag, _)) => {
            Some((tag, text(value)?))
        }
        _ => None,
    }
}

/// Returns the text of a constant.
fn text(value: &Expression) -> Option<&str> {
    match value {
        Expression::Constant(Cell::Text(text)) => Some(text),
        _ => None,
    }
}

/// Compiles a condition. An absent tag counts as an empty text.
pub fn condition_node(condition: &Expression, place: Place<'_>) -> Result<Node, Error> {
    node(condition, &|at| Node::PlaceOrEmpty(at), place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parse::parse;
    use crate::text::statement::Statement;
    use seiner_model::FieldType;

    const HOUR: i64 = 3_600_000_000_000;

    fn read(condition: &str) -> Result<Condition, Error> {
        let text = format!("SELECT v FROM m WHERE {condition}");
        let statements = parse(&text, &Default::default())?;
        let Statement::Select(select) = &statements[0] else {
            panic!("a query");
        };
        let mut schema = Schema::default();
        schema
            .fields
            .insert("v".into(), [FieldType::F64].into_iter().collect());
        let clock = Clock {
            now: 5 * HOUR,
            zone: select.zone.as_ref(),
        };
        split(select.condition.as_ref().expect("one"), &schema, clock)
    }

    #[test]
    fn bounds_of_times_are_inclusive_or_not() {
        let split = read("time > now() - 1h AND 18000000000001 >= time").unwrap();
        assert_eq!(split.interval, Interval::new(4 * HOUR + 1, 5 * HOUR + 1));
        let split = read("time < '1970-01-01T01:00:00Z' and time >= 60s").unwrap();
        assert_eq!(split.interval, Interval::new(60_000_000_000, HOUR - 1));
        assert_eq!(split.bounds, (true, true));
        for (zone, hours) in [
            ("", 0),
            ("tz('Europe/Berlin')", -1),
            ("TZ('Asia/Kolkata')", -5),
        ] {
            for text in ["1970-01-02", "1970-01-02 00:00:00", "1970-01-02T00:00:00"] {
                let split = read(&format!("time >= '{text}' {zone}")).unwrap();
                let start = (split.interval.start + HOUR / 2) / HOUR;
                assert_eq!(start, 24 + hours, "{text} {zone}");
            }
            for text in ["1970-01-02T00:00:00Z", "1970-01-02T01:00:00+01:00"] {
                let split = read(&format!("time >= '{text}' {zone}")).unwrap();
                assert_eq!(split.interval.start, 24 * HOUR, "{text} {zone}");
            }
        }
        for wrong in [
            "time > 1 OR v > 1",
            "time != 5",
            "time",
            "time > 'noon'",
            "time + 1 > 3",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn conditions_go_where_they_are_checked() {
        let all = "host = 'a' AND (rack = 'x' OR rack = 'y.z') AND zone !~ /^b/ AND (host = 'a' OR rack = 'x') AND v > 1";
        let split = read(all).unwrap();
        assert_eq!(
            (
                split.matchers.len(),
                split.of_tags.len(),
                split.of_rows.len()
            ),
            (3, 1, 1)
        );
        let racks = &split.matchers[1].condition;
        let held: Vec<bool> = ["x", "y.z", "yaz", ""]
            .map(|value| racks.holds(value))
            .to_vec();
        assert_eq!(held, [true, true, false, false]);
        let zone = &split.matchers[2].condition;
        assert!(zone.holds("ab") && !zone.holds("b1") && zone.holds(""));
        assert!(split.holds_for(&|tag| if tag == "rack" { "x" } else { "" }));
        assert!(!split.holds_for(&|_| ""));
    }
}
