//! Columns of a query: names, and the expressions that `*` and regular expressions stand for.

use super::function::{is_over_rows, takes_any_type};
use crate::error::Error;
use crate::schema::Schema;
use crate::text::statement::{Column, Dimension, Expression, Kind};
use std::collections::BTreeSet;

/// Maximum number of columns of a query.
const MAX_COLUMNS: usize = 4096;

/// Returns the tags by which rows are grouped, sorted.
pub fn dimensions(dimensions: &[Dimension], schema: &Schema) -> Vec<String> {
    let mut names = BTreeSet::new();
    for dimension in dimensions {
        match dimension {
            Dimension::Tag(name) => {
                names.insert(name.clone());
            }
            Dimension::Matching(regex) => {
                let tags = schema.tags.iter().filter(|tag| regex.is_match(tag));
                names.extend(tags.cloned());
            }
            Dimension::All => names.extend(schema.tags.iter().cloned()),
        }
    }
    names.into_iter().collect()
}

/// Returns the columns with their names. `grouped` are the tags by which rows are grouped: `*` leaves them out.
///
/// # Errors
/// If there are too many.
pub fn columns(
    fields: &[Column],
    schema: &Schema,
    grouped: &[String],
) -> Result<Vec<(String, Expression)>, Error> {
    let mut columns = Vec::new();
    for field in fields {
        let name = field.name.clone();
        match &field.expression {
            Expression::Name(time, None) if time.eq_ignore_ascii_case("time") => {}
            Expression::All(_) | Expression::Regex(_) => {
                for (name, kind) in matching(&field.expression, schema, grouped) {
                    columns.push((name.clone(), Expression::Name(name, Some(kind))));
                }
            }
            Expression::Call(call, arguments) if call == "top" || call == "bottom" => {
                with_tags(&mut columns, call, arguments, name);
            }
            expression => match wildcard(expression) {
                None => columns.push((
                    name.unwrap_or_else(|| name_of(expression)),
                    expression.clone(),
                )),
                Some((call, pattern)) => {
                    let prefix = name.unwrap_or_else(|| name_of(expression));
                    for (field, kind) in matching(pattern, schema, grouped) {
                        let fits = kind == Kind::Field
                            && (takes_any_type(call) || schema.is_numeric(&field));
                        if fits {
                            let name = format!("{prefix}_{field}");
                            columns.push((name, replaced(expression, &field)));
                        }
                    }
                }
            },
        }
        if columns.len() > MAX_COLUMNS {
            return Err(Error::invalid(format!(
                "the query has more than {MAX_COLUMNS} columns; name the fields"
            )));
        }
    }
    let given = fields.iter().filter_map(|field| field.name.as_deref());
    Ok(distinct(columns, &given.collect()))
}

/// Adds the column of `top(field, tag, …, N)`, and one for each tag.
fn with_tags(
    columns: &mut Vec<(String, Expression)>,
    call: &str,
    arguments: &[Expression],
    name: Option<String>,
) {
    let expression = Expression::Call(call.to_string(), arguments.to_vec());
    columns.push((name.unwrap_or_else(|| call.to_string()), expression));
    let between = arguments.get(1..arguments.len().saturating_sub(1));
    for argument in between.unwrap_or_default() {
        if let Expression::Name(tag, _) = argument {
            columns.push((tag.clone(), argument.clone()));
        }
    }
}

/// Returns the fields and tags that a pattern stands for, sorted by name.
fn matching(pattern: &Expression, schema: &Schema, grouped: &[String]) -> Vec<(String, Kind)> {
    let (kind, regex) = match pattern {
        Expression::All(kind) => (*kind, None),
        Expression::Regex(regex) => (None, Some(regex)),
        _ => return Vec::new(),
    };
    let fits = |name: &str| regex.is_none_or(|regex| regex.is_match(name));
    let fields = schema.fields.keys().map(|name| (name, Kind::Field));
    let tags = schema.tags.iter().map(|name| (name, Kind::Tag));
    let tags = tags.filter(|(name, _)| !grouped.contains(name));
    let mut found: Vec<(String, Kind)> = fields
        .chain(tags)
        .filter(|(name, one)| fits(name) && kind.is_none_or(|kind| kind == *one))
        .map(|(name, kind)| (name.clone(), kind))
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// Returns the innermost function whose first argument is `*` or a regular expression, with this argument.
fn wildcard(expression: &Expression) -> Option<(&str, &Expression)> {
    match expression {
        Expression::Call(name, arguments) => match arguments.first()? {
            pattern @ (Expression::All(_) | Expression::Regex(_)) => Some((name, pattern)),
            inner => wildcard(inner),
        },
        Expression::Binary(_, left, right) => wildcard(left).or_else(|| wildcard(right)),
        _ => None,
    }
}

/// Returns the expression with a field in the place of `*` and regular expressions.
fn replaced(expression: &Expression, field: &str) -> Expression {
    match expression {
        Expression::All(_) | Expression::Regex(_) => {
            Expression::Name(field.to_string(), Some(Kind::Field))
        }
        Expression::Call(name, arguments) => {
            let arguments = arguments.iter().map(|argument| replaced(argument, field));
            Expression::Call(name.clone(), arguments.collect())
        }
        Expression::Binary(operator, left, right) => Expression::Binary(
            *operator,
            Box::new(replaced(left, field)),
            Box::new(replaced(right, field)),
        ),
        other => other.clone(),
    }
}

/// Returns the name of a column: fields and functions, connected by `_`.
fn name_of(expression: &Expression) -> String {
    match expression {
        Expression::Name(name, _) => name.clone(),
        Expression::Call(name, _) => name.clone(),
        Expression::Binary(_, left, right) => {
            let names = [name_of(left), name_of(right)];
            let names: Vec<String> = names.into_iter().filter(|name| !name.is_empty()).collect();
            names.join("_")
        }
        _ => String::new(),
    }
}

/// Appends numbers to names that stand twice, except for names that the query gives.
fn distinct(
    columns: Vec<(String, Expression)>,
    given: &BTreeSet<&str>,
) -> Vec<(String, Expression)> {
    let mut seen = BTreeSet::from(["time".to_string()]);
    seen.extend(given.iter().map(|name| name.to_string()));
    let rename = |(name, expression): (String, Expression)| {
        if given.contains(name.as_str()) {
            return (name, expression);
        }
        let mut unique = name.clone();
        let mut number = 0;
        while !seen.insert(unique.clone()) {
            number += 1;
            unique = format!("{name}_{number}");
        }
        (unique, expression)
    };
    columns.into_iter().map(rename).collect()
}

/// Returns whether an expression contains a function over rows.
pub fn has_function(expression: &Expression) -> bool {
    match expression {
        Expression::Call(name, arguments) => {
            is_over_rows(name) || arguments.iter().any(has_function)
        }
        Expression::Binary(_, left, right) => has_function(left) || has_function(right),
        Expression::Matches(left, ..) => has_function(left),
        _ => false,
    }
}
