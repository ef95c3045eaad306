//! Loads on modelled arrays, and what they showed.

pub mod cell;
pub mod heldout;
pub mod outcome;
pub mod tuning;
