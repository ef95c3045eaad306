//! Expressions with names, converted into expressions with places.

use crate::error::Error;
use crate::evaluate::{Math, Math2, Node};
use crate::text::statement::{Expression, Kind};

/// Function that returns the place of a name.
pub type Place<'p> = &'p mut dyn FnMut(&str, Option<Kind>) -> usize;

/// Compiles an expression without functions over rows. `read` reads a place.
///
/// # Errors
/// If a part has no value for a row.
pub fn node(
    expression: &Expression,
    read: &dyn Fn(usize) -> Node,
    place: Place<'_>,
) -> Result<Node, Error> {
    match expression {
        Expression::Name(name, kind) => Ok(read(place(name, *kind))),
        Expression::Constant(cell) => Ok(Node::Constant(cell.clone())),
        Expression::Duration(ns) => Ok(Node::Constant(crate::cell::Cell::Integer(*ns))),
        Expression::Binary(operator, left, right) => Ok(Node::Binary(
            *operator,
            Box::new(node(left, read, place)?),
            Box::new(node(right, read, place)?),
        )),
        Expression::Matches(left, regex, negated) => Ok(Node::Matches(
            Box::new(node(left, read, place)?),
            regex.clone(),
            *negated,
        )),
        Expression::Call(name, arguments) => {
            let mut nodes = Vec::new();
            for argument in arguments {
                nodes.push(node(argument, read, place)?);
            }
            math(name, nodes)
        }
        Expression::All(_) | Expression::Regex(_) => Err(Error::invalid(
            "* and regular expressions stand alone, or as the argument of a function",
        )),
    }
}

/// Returns a mathematical function of values.
///
/// # Errors
/// If there is none of this name with as many arguments.
pub fn math(name: &str, mut arguments: Vec<Node>) -> Result<Node, Error> {
    let wrong = |count: usize| {
        Err(Error::invalid(format!(
            "invalid number of arguments for {name}, expected {count}"
        )))
    };
    if let Some(math) = Math::named(name) {
        return match (arguments.pop(), arguments.is_empty()) {
            (Some(value), true) => Ok(Node::Math(math, Box::new(value))),
            _ => wrong(1),
        };
    }
    let Some(math) = Math2::named(name) else {
        return Err(Error::invalid(format!("undefined function {name}()")));
    };
    match (arguments.pop(), arguments.pop(), arguments.is_empty()) {
        (Some(right), Some(left), true) => Ok(Node::Math2(math, Box::new(left), Box::new(right))),
        _ => wrong(2),
    }
}

/// Returns whether a name is that of a mathematical function.
pub fn is_math(name: &str) -> bool {
    Math::named(name).is_some() || Math2::named(name).is_some()
}
