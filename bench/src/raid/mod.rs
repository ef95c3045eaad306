//! Loads on modelled arrays, and their results.

pub mod cell;
pub mod heldout;
pub mod matrix;
pub mod outcome;
pub mod practice;
pub mod published;
