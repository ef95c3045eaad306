//! Stores on a small budget under load, the rows that they are fed, and charts.

pub mod load;
pub mod plot;
