//! The planner: from sensors, rates and disks to a configuration and a forecast.
//!
//! A plan is made of what the user demands, what the disks were measured to do, and what the engine
//! itself does with such samples: that is tried out in memory while the plan is made, so that it never
//! describes an engine of another version. Every figure says where it comes from.

pub mod array;
pub mod calibration;
pub mod demand;
pub mod forecast;
pub mod form;
pub mod load;
pub mod merging;
pub mod observed;
pub mod plan;
mod processor;
pub mod soak;
mod words;

pub use calibration::Calibration;
pub use demand::{Clockwork, Demand, Disk, Lifetime, Raid, Values};
pub use forecast::{Choice, Forecast};
pub use observed::Observed;
pub use plan::{Figure, Origin, Plan, Way};
