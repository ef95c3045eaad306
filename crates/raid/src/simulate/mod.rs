//! The array on modelled members and simulated time: exact, reproducible and fast.
//!
//! Clients keep a number of requests outstanding, as *fio* does. A thread submits one request after another,
//! each at a cost in time, and submits the next one after an answer. Blocks have no contents.
//!
//! [`faults`] runs the same array on members that fail, lose writes and tear them, with contents that are
//! verified.

pub mod faults;
mod member;
mod record;
mod simulation;
mod workload;

pub use member::{MemberModel, Nvme};
pub use simulation::{Measured, Phase, Run, Sample, run};
pub use workload::{Address, Bursts, ClientJob, Load, Mix};
