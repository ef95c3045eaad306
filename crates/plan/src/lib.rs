//! The planner: from sensors, rates and disks to a configuration and a forecast.
//!
//! A plan follows from the user's demand, from measurements of the disks, and from trials of the engine. The trials
//! run in memory while the plan is made, so a plan always describes the present version of the engine. Each figure of
//! a plan states its origin.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod array;
mod buffer;
pub mod calibration;
pub mod demand;
pub mod forecast;
pub mod form;
pub mod load;
pub mod merging;
pub mod observed;
pub mod plan;
mod processor;
mod real;
pub mod recording;
mod registry;
pub mod scaling;
mod scratch;
pub mod shelving;
pub mod soak;
mod time;
mod trial;
mod words;

pub use calibration::Calibration;
pub use demand::{Clockwork, Demand, Disk, Lifetime, Raid, Values};
pub use forecast::{Choice, Forecast};
pub use observed::Observed;
pub use plan::{Alternative, Figure, Origin, StorePlan};
pub use recording::Recording;
pub use scratch::scratch_store;
