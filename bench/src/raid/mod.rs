//! Loads on modelled arrays, and what they showed.

pub mod cell;
pub mod heldout;
pub mod matrix;
pub mod outcome;
pub mod practice;
pub mod published;
