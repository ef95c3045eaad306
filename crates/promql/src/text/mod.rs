//! Text of a query: tokens, durations, and the check of its size.

pub mod duration;
pub mod lexer;
mod rewrite;

pub use rewrite::{Times, rewrite};
