//! Text of statements: words and signs, and the statements made of them.

mod clauses;
mod expression;
pub mod lexer;
mod listing;
pub mod parse;
mod parser;
pub mod statement;
