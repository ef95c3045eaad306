//! Stores on a small budget under load, and the rows that they receive.

pub mod counts;
pub mod load;
pub mod store;
pub mod stream;
