//! Conditions of a query that the server can apply: times, and comparisons of tags with texts. A condition that the
//! server applies exactly is not applied again.

use crate::columns::{Columns, Kind};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Like, Operator};
use std::fmt::Write as _;

/// Maximum number of texts in one condition.
const MAX_TEXTS: usize = 100;
/// Maximum length of a condition, bytes. Longer conditions are applied here.
const MAX_BYTES: usize = 4096;

/// Condition on a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The time is between these times, ns, both included.
    Time(i64, i64),
    /// The tag meets a condition of a selector: the tag, the operator, and the text.
    Tag(String, &'static str, String),
    /// The tag is one of these texts.
    OneOf(String, Vec<String>),
    /// The field, by its name, has a value.
    HasField(String),
}

/// A condition for the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// Condition.
    pub condition: Condition,
    /// True if the condition is met by exactly the rows for which the expression is true.
    pub is_exact: bool,
}

/// Returns a condition that every row meets for which the expression is true; `None` if the server has no such
/// condition.
pub fn push(expr: &Expr, columns: &Columns) -> Option<Pushed> {
    let pushed = match expr {
        Expr::BinaryExpr(binary) => push_binary(binary, columns)?,
        Expr::Between(between) => push_between(between, columns)?,
        Expr::InList(list) if !list.negated => {
            let tag = tag(&list.expr, columns)?;
            let texts = list
                .list
                .iter()
                .map(text)
                .collect::<Option<Vec<String>>>()?;
            one_of(tag, texts)
        }
        Expr::Like(like) => push_like(like, columns)?,
        Expr::IsNull(inner) => inexact(Condition::Tag(tag(inner, columns)?, "=", String::new())),
        Expr::IsNotNull(inner) => match tag(inner, columns) {
            Some(tag) => inexact(Condition::Tag(tag, "!=", String::new())),
            None => inexact(Condition::HasField(field(inner, columns)?)),
        },
        _ => return None,
    };
    let bytes = match &pushed.condition {
        Condition::Tag(_, _, text) => text.len(),
        Condition::OneOf(_, texts) if texts.len() > MAX_TEXTS => return None,
        Condition::OneOf(_, texts) => texts.iter().map(|text| text.len() + 1).sum(),
        _ => 0,
    };
    (bytes <= MAX_BYTES).then_some(pushed)
}

fn exact(condition: Condition) -> Pushed {
    Pushed {
        condition,
        is_exact: true,
    }
}

fn inexact(condition: Condition) -> Pushed {
    Pushed {
        condition,
        is_exact: false,
    }
}

fn push_binary(binary: &BinaryExpr, columns: &Columns) -> Option<Pushed> {
    if binary.op == Operator::Or {
        let (left, right) = (push(&binary.left, columns)?, push(&binary.right, columns)?);
        let (mut tag, mut texts) = texts(left)?;
        let (other, more) = self::texts(right)?;
        texts.extend(more);
        return (tag == other).then(|| one_of(std::mem::take(&mut tag), texts));
    }
    let (column, op, value) = match literal(&binary.right) {
        Some(value) => (&binary.left, binary.op, value),
        None => (&binary.right, binary.op.swap()?, literal(&binary.left)?),
    };
    if value.is_null() {
        return None;
    }
    match kind(column, columns)?.0 {
        Kind::Time => {
            let ScalarValue::TimestampNanosecond(Some(ns), _) = value else {
                return None;
            };
            let (from, to) = match op {
                Operator::Eq => (*ns, *ns),
                Operator::GtEq => (*ns, i64::MAX),
                Operator::LtEq => (i64::MIN, *ns),
                Operator::Gt => ns.checked_add(1).map_or((1, 0), |from| (from, i64::MAX)),
                Operator::Lt => ns.checked_sub(1).map_or((1, 0), |to| (i64::MIN, to)),
                _ => return None,
            };
            Some(exact(Condition::Time(from, to)))
        }
        Kind::Tag => {
            let (tag, text) = (tag(column, columns)?, scalar_text(value)?);
            match op {
                Operator::Eq => Some(one_of(tag, vec![text])),
                // The server counts a missing tag as empty; SQL leaves out the row.
                Operator::NotEq => Some(inexact(Condition::Tag(tag, "!=", text))),
                _ => None,
            }
        }
        Kind::Field(_) => {
            let is_comparison = matches!(
                op,
                Operator::Eq
                    | Operator::NotEq
                    | Operator::Lt
                    | Operator::LtEq
                    | Operator::Gt
                    | Operator::GtEq
            );
            let field = field(column, columns)?;
            is_comparison.then(|| inexact(Condition::HasField(field)))
        }
    }
}

fn push_between(between: &Between, columns: &Columns) -> Option<Pushed> {
    let (low, high) = (literal(&between.low)?, literal(&between.high)?);
    let (
        ScalarValue::TimestampNanosecond(Some(from), _),
        ScalarValue::TimestampNanosecond(Some(to), _),
    ) = (low, high)
    else {
        return None;
    };
    let is_time = matches!(kind(&between.expr, columns)?.0, Kind::Time);
    (is_time && !between.negated).then(|| exact(Condition::Time(*from, *to)))
}

fn push_like(like: &Like, columns: &Columns) -> Option<Pushed> {
    let (tag, pattern) = (tag(&like.expr, columns)?, text(&like.pattern)?);
    let prefix = pattern.strip_suffix('%')?;
    let is_prefix = !prefix.is_empty() && !prefix.contains(['%', '_', '\\']);
    (is_prefix && !like.negated && !like.case_insensitive && like.escape_char.is_none())
        .then(|| exact(Condition::Tag(tag, "^=", prefix.to_string())))
}

/// Returns the tag and the texts of a condition of equality.
fn texts(pushed: Pushed) -> Option<(String, Vec<String>)> {
    match pushed.condition {
        Condition::Tag(tag, "=", text) if pushed.is_exact => Some((tag, vec![text])),
        Condition::OneOf(tag, texts) => Some((tag, texts)),
        _ => None,
    }
}

/// Returns the condition that a tag has one of the texts. A missing tag counts as empty on the server, and as NULL in
/// SQL, so that a condition with an empty text is inexact.
fn one_of(tag: String, mut texts: Vec<String>) -> Pushed {
    let is_exact = texts.iter().all(|text| !text.is_empty());
    let condition = match texts.len() {
        1 => Condition::Tag(tag, "=", texts.remove(0)),
        _ => Condition::OneOf(tag, texts),
    };
    Pushed {
        condition,
        is_exact,
    }
}

fn kind<'a>(expr: &Expr, columns: &'a Columns) -> Option<(&'a Kind, &'a str)> {
    match expr {
        Expr::Column(column) => columns
            .find(&column.name)
            .map(|found| (&found.kind, found.name.as_str())),
        _ => None,
    }
}

fn tag(expr: &Expr, columns: &Columns) -> Option<String> {
    match kind(expr, columns)? {
        (Kind::Tag, name) => Some(name.to_string()),
        _ => None,
    }
}

fn field(expr: &Expr, columns: &Columns) -> Option<String> {
    match kind(expr, columns)? {
        (Kind::Field(_), name) => Some(name.to_string()),
        _ => None,
    }
}

fn literal(expr: &Expr) -> Option<&ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value),
        _ => None,
    }
}

/// Returns the text of an expression that is a literal; `None` for others, NULL and other types.
pub fn text(expr: &Expr) -> Option<String> {
    scalar_text(literal(expr)?)
}

/// Returns the text of a literal; `None` for NULL and other types.
pub fn scalar_text(value: &ScalarValue) -> Option<String> {
    match value {
        ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text) => {
            text.clone()
        }
        ScalarValue::Dictionary(_, inner) => scalar_text(inner),
        _ => None,
    }
}

/// Conditions of one query of a measurement. A row must meet all of them.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Selector in the notation of the server.
    pub selector: String,
    /// First time, ns.
    pub from: i64,
    /// Last time, ns. No row is selected if it is before `from`.
    pub to: i64,
    /// Names of fields that a row must have.
    pub required_fields: Vec<String>,
}

impl Selection {
    /// Returns the selection of the rows of a measurement that meet all conditions.
    pub fn new(measurement: &str, conditions: impl IntoIterator<Item = Condition>) -> Selection {
        let (mut from, mut to) = (i64::MIN, i64::MAX);
        let mut matchers = Vec::new();
        let mut required_fields = Vec::new();
        for condition in conditions {
            match condition {
                Condition::Time(first, last) => (from, to) = (from.max(first), to.min(last)),
                Condition::Tag(tag, op, text) => {
                    matchers.push(format!("{}{op}{}", quoted(&tag), quoted(&text)))
                }
                Condition::OneOf(tag, texts) => {
                    let texts: Vec<String> = texts.iter().map(|text| escaped(text)).collect();
                    matchers.push(format!("{}=~{}", quoted(&tag), quoted(&texts.join("|"))));
                }
                Condition::HasField(field) => required_fields.push(field),
            }
        }
        Selection {
            selector: format!("{}{{{}}}", quoted(measurement), matchers.join(",")),
            from,
            to,
            required_fields,
        }
    }
}

/// Returns a text in the quotes of a selector.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => _ = write!(out, "{}", c.escape_unicode()),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Returns a regular expression that matches only this text.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if "\\.+*?()|[]{}^$#&-~".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::time_type;
    use datafusion::logical_expr::{col, lit};

    fn columns() -> Columns {
        Columns::new(&["host".into()], &[("usage".into(), "f64".into())])
    }

    fn selector(expr: Expr) -> Option<(String, bool)> {
        let pushed = push(&expr, &columns())?;
        let selection = Selection::new("m", [pushed.condition]);
        Some((selection.selector, pushed.is_exact))
    }

    #[test]
    fn tags_are_compared_by_the_server() {
        let pushed = |expr, text: &str, is_exact| {
            assert_eq!(selector(expr), Some((text.to_string(), is_exact)))
        };
        pushed(col("host").eq(lit("a\"b")), r#""m"{"host"="a\"b"}"#, true);
        pushed(lit("a").eq(col("host")), r#""m"{"host"="a"}"#, true);
        pushed(col("host").eq(lit("")), r#""m"{"host"=""}"#, false);
        pushed(col("host").not_eq(lit("a")), r#""m"{"host"!="a"}"#, false);
        pushed(col("host").is_null(), r#""m"{"host"=""}"#, false);
        pushed(col("host").is_not_null(), r#""m"{"host"!=""}"#, false);
        pushed(col("host").like(lit("ab%")), r#""m"{"host"^="ab"}"#, true);
        pushed(
            col("host").in_list(vec![lit("a"), lit("b.c")], false),
            r#""m"{"host"=~"a|b\\.c"}"#,
            true,
        );
        let either = col("host")
            .eq(lit("a"))
            .or(col("host").eq(lit("b")))
            .or(col("host").eq(lit("c")));
        pushed(either, r#""m"{"host"=~"a|b|c"}"#, true);
    }

    #[test]
    fn other_conditions_are_not_pushed() {
        for expr in [
            col("host").in_list(vec![lit("a")], true),
            col("host").like(lit("a%b%")),
            col("host").like(lit("a_%")),
            col("host").not_like(lit("a%")),
            col("host").ilike(lit("a%")),
            col("host").gt(lit("a")),
            col("host").eq(lit(ScalarValue::Utf8(None))),
            col("host").eq(lit("a")).or(col("usage").gt(lit(1.0))),
            col("host").not_eq(lit("a")).or(col("host").eq(lit("b"))),
            col("host").eq(lit("x".repeat(5000))),
        ] {
            assert_eq!(selector(expr.clone()), None, "{expr}");
        }
    }

    #[test]
    fn times_are_an_interval() {
        let at = |ns| {
            lit(ScalarValue::TimestampNanosecond(
                Some(ns),
                Some("UTC".into()),
            ))
        };
        assert_eq!(columns().schema.field(0).data_type(), &time_type());
        let interval = |expr: Expr| match push(&expr, &columns()) {
            Some(Pushed {
                condition: Condition::Time(from, to),
                is_exact: true,
            }) => Some((from, to)),
            _ => None,
        };
        assert_eq!(interval(col("time").gt(at(5))), Some((6, i64::MAX)));
        assert_eq!(interval(at(5).gt(col("time"))), Some((i64::MIN, 4)));
        assert_eq!(interval(col("time").lt_eq(at(5))), Some((i64::MIN, 5)));
        assert_eq!(interval(col("time").between(at(1), at(2))), Some((1, 2)));
        assert_eq!(interval(col("time").not_between(at(1), at(2))), None);
        let none = interval(col("time").gt(at(i64::MAX))).unwrap();
        assert!(none.0 > none.1);
    }

    #[test]
    fn a_comparison_requires_its_field() {
        let pushed = push(&col("usage").gt(lit(1.0)), &columns());
        assert_eq!(pushed, Some(inexact(Condition::HasField("usage".into()))));
    }
}
