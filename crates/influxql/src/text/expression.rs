//! Expressions, by precedence.

use super::lexer::Token;
use super::parser::Parser;
use super::statement::{Expression, Kind};
use crate::cell::{Cell, Operator};
use crate::error::Error;

/// Operators from the loosest to the tightest. `=~` and `!~` are of the third level.
const LEVELS: [&[(&str, Operator)]; 5] = [
    &[("OR", Operator::Or)],
    &[("AND", Operator::And)],
    &[
        ("=", Operator::Equal),
        ("!=", Operator::NotEqual),
        ("<>", Operator::NotEqual),
        ("<", Operator::Less),
        ("<=", Operator::AtMost),
        (">", Operator::Greater),
        (">=", Operator::AtLeast),
    ],
    &[
        ("+", Operator::Add),
        ("-", Operator::Subtract),
        ("|", Operator::BitOr),
        ("^", Operator::BitXor),
    ],
    &[
        ("*", Operator::Multiply),
        ("/", Operator::Divide),
        ("%", Operator::Remainder),
        ("&", Operator::BitAnd),
    ],
];
/// Reads an expression.
pub fn expression(parser: &mut Parser) -> Result<Expression, Error> {
    parser.nested(|parser| level(parser, 0))
}

fn level(parser: &mut Parser, number: usize) -> Result<Expression, Error> {
    let Some(operators) = LEVELS.get(number) else {
        return operand(parser);
    };
    let mut left = level(parser, number + 1)?;
    while let Some(operator) = operator(parser, operators)? {
        parser.count_operator()?;
        let right = level(parser, number + 1)?;
        left = Expression::Binary(operator, Box::new(left), Box::new(right));
    }
    Ok(left)
}

fn operator(
    parser: &mut Parser,
    operators: &[(&str, Operator)],
) -> Result<Option<Operator>, Error> {
    for (text, operator) in operators {
        let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic());
        let found = match is_word {
            true => parser.keyword(text)?,
            false => parser.accept(text)?,
        };
        if found {
            return Ok(Some(*operator));
        }
    }
    Ok(None)
}

/// Reads a value, followed by `=~` or `!~` and a regular expression, if one follows.
fn operand(parser: &mut Parser) -> Result<Expression, Error> {
    let value = value(parser)?;
    let negated = match parser.peek()? {
        Token::Sign("=~") => false,
        Token::Sign("!~") => true,
        _ => return Ok(value),
    };
    parser.next()?;
    match parser.regex()? {
        Some(regex) => Ok(Expression::Matches(Box::new(value), regex, negated)),
        None => Err(parser.unexpected("a regular expression such as /^a/")),
    }
}

fn value(parser: &mut Parser) -> Result<Expression, Error> {
    if let Some(regex) = parser.regex()? {
        return Ok(Expression::Regex(regex));
    }
    match parser.peek()? {
        Token::Sign("(") => {
            parser.next()?;
            let inner = expression(parser)?;
            parser.expect(")")?;
            Ok(inner)
        }
        Token::Sign("-") => {
            parser.next()?;
            parser.nested(value).map(negated)
        }
        Token::Sign("+") => {
            parser.next()?;
            parser.nested(value)
        }
        Token::Sign("*") => {
            parser.next()?;
            kind(parser).map(Expression::All)
        }
        Token::Text(text) => constant(parser, Cell::text(&text)),
        Token::Number(number) => constant(parser, number),
        Token::Parameter(name) => {
            let value = parser.parameter(&name)?;
            constant(parser, value)
        }
        Token::Duration(ns) => {
            parser.next()?;
            Ok(Expression::Duration(ns))
        }
        Token::Name(name) => {
            parser.next()?;
            Ok(Expression::Name(name, kind(parser)?))
        }
        Token::Word(word) => named(parser, &word),
        _ => Err(parser.unexpected("a field, a tag, a function or a value")),
    }
}

fn constant(parser: &mut Parser, value: Cell) -> Result<Expression, Error> {
    parser.next()?;
    Ok(Expression::Constant(value))
}

/// Reads a name without quotes, a truth value, or a function.
fn named(parser: &mut Parser, word: &str) -> Result<Expression, Error> {
    const ENDS: [&str; 5] = ["FROM", "WHERE", "GROUP", "ORDER", "LIMIT"];
    if ENDS.iter().any(|end| word.eq_ignore_ascii_case(end)) {
        return Err(parser.unexpected("a field, a tag, a function or a value"));
    }
    parser.next()?;
    let name = word.to_ascii_lowercase();
    match name.as_str() {
        "true" => return Ok(Expression::Constant(Cell::Bool(true))),
        "false" => return Ok(Expression::Constant(Cell::Bool(false))),
        "distinct" if matches!(parser.peek()?, Token::Word(_) | Token::Name(_)) => {
            let field = value(parser)?;
            return Ok(Expression::Call(name, vec![field]));
        }
        _ => {}
    }
    if !parser.accept("(")? {
        return Ok(Expression::Name(word.to_string(), kind(parser)?));
    }
    let mut arguments = Vec::new();
    if !parser.accept(")")? {
        arguments.push(expression(parser)?);
        while parser.accept(",")? {
            arguments.push(expression(parser)?);
        }
        parser.expect(")")?;
    }
    Ok(Expression::Call(name, arguments))
}

/// Reads the kind or type of a name: `::field`, `::tag`, `::float`.
pub fn kind(parser: &mut Parser) -> Result<Option<Kind>, Error> {
    if !parser.accept("::")? {
        return Ok(None);
    }
    const TYPES: [&str; 6] = ["field", "float", "integer", "unsigned", "string", "boolean"];
    for name in TYPES {
        if parser.keyword(name)? {
            return Ok(Some(Kind::Field));
        }
    }
    match parser.keyword("tag")? {
        true => Ok(Some(Kind::Tag)),
        false => Err(parser.unexpected("tag, field, float, integer, unsigned, string or boolean")),
    }
}

fn negated(value: Expression) -> Expression {
    match value {
        Expression::Duration(ns) => Expression::Duration(-ns),
        Expression::Constant(Cell::Integer(value)) => {
            Expression::Constant(crate::cell::integer(-i128::from(value)))
        }
        Expression::Constant(Cell::Unsigned(value)) => {
            Expression::Constant(crate::cell::integer(-i128::from(value)))
        }
        Expression::Constant(Cell::Float(value)) => Expression::Constant(Cell::Float(-value)),
        other => Expression::Binary(
            Operator::Multiply,
            Box::new(Expression::Constant(Cell::Integer(-1))),
            Box::new(other),
        ),
    }
}
