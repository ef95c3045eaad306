//! The array on modelled members and simulated time: exact, repeatable, and quick.
//!
//! Clients keep a number of requests outstanding, as *fio* does: a thread submits one after the other, each at a cost,
//! and submits the next when one is answered. Blocks have no contents.
//!
//! [`faults`] is the same array on members that die, forget and tear, with contents that are checked.

pub mod faults;
mod member;
mod record;
mod workload;
mod world;

pub use member::{Member, Model, Nvme, Ram};
pub use workload::{Address, Bursts, Job, Load, Mix};
pub use world::{Measured, Phase, Run, Sample, run};
