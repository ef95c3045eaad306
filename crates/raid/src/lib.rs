//! A volume on several devices: RAID 0, 1, 5 and 6. Merges small writes into whole stripes when that is
//! cheaper.
//!
//! [`Shard`] is the array as a pure state machine. [`Merging`] is the strategy that decides which writes are
//! held. [`simulate`] runs the state machine on modelled members and simulated time. [`Array`] runs it on
//! devices.
//!
//! The model, its symbols and its algorithm are those of *RAID* (adaptive merging of small sequential writes).

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod array;
mod block;
mod checksum;
mod code;
mod driver;
#[cfg(feature = "nbd")]
mod export;
mod galois;
mod geometry;
mod grid;
mod kernel;
mod mark;
mod member;
mod merging;
mod record;
mod request;
mod router;
mod shard;
pub mod simulate;
mod slab;
mod stripe;

pub use array::{
    AreaStatus, Array, ArraySettings, Command, Completeness, Completion, Condition, Loss,
    MemberStatus, MergingStatus, OrderError, Status, TaskKind, TaskStatus,
};
pub use block::{Block, Page, Weightless};
pub use driver::IoMethod;
pub use geometry::{BLOCK_BYTES, Extent, Geometry, GeometryError, Level};
pub use kernel::{add, add_scaled, pq};
pub use mark::Mark;
pub use member::{Checked, Corrupt, Device, DeviceError, Member, Ram};
pub use merging::{Adaptive, AdaptiveSettings, Merging, Paper, PaperSettings};
pub use record::{
    AssembleError, CreateError, Creation, Superblock, SuperblockError, Uuid, contents, create,
    superblock,
};
pub use request::{
    Action, Failure, Nanos, OpId, Operation, Outcome, Output, Reply, Request, Token,
};
pub use router::{Piece, Router, Sharding};
pub use shard::{CLASSES, Counters, Latencies, Latency, MemberState, Shard, ShardSettings};
