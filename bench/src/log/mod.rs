//! Stores on a small budget under load, and the rows that they receive.

pub mod load;
