//! The log under load: stores on a small budget, what they are fed, and how it is drawn.

pub mod load;
pub mod plot;
