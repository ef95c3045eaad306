//! Running array: one thread per shard, members on real devices, and requests from any thread.
//!
//! Each shard is the state machine [`Shard`](crate::Shard) with a loop around it (`worker`). The inputs of the loop
//! are messages and outcomes of member operations. The outputs are member operations and answers. One more thread,
//! the *coordinator*, manages the array as a whole: membership, rebuild, scrub, and the records on the members.
//! Shards share no state and take no locks. The coordinator and the shards never wait for one another.
//!
//! Invariant: an answer that depends on the loss of a member is given only after the loss is recorded. A restart
//! therefore never takes a lost member for a good one.

mod answer;
mod assemble;
mod client;
mod coordinator;
pub(crate) mod marks;
mod message;
mod metadata_log;
mod status;
mod stripe_pass;
mod worker;

pub use answer::Completion;
pub use client::Command;
pub use coordinator::OrderError;
pub use status::{
    AreaStatus, Completeness, Condition, Loss, MemberStatus, MergingStatus, Status, TaskKind,
    TaskStatus,
};

use crate::block::Page;
use crate::driver::{Bell, IoMethod};
use crate::geometry::{BLOCK_BYTES, Geometry};
use crate::member::Member;
use crate::merging::Merging;
use crate::record::{Intent, Superblock, Uuid};
use crate::request::Failure;
use crate::router::Sharding;
use crate::shard::ShardSettings;
use coordinator::{Coordinator, CoordinatorMessage, MemberSlot, Order};
use message::ShardMessage;
use seiner_platform::SystemClock;
use status::CoordinatorStatus;
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use worker::{ShardStart, Worker};

/// Settings of a running array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArraySettings {
    /// Settings of the shards.
    pub shard: ShardSettings,
    /// Number of threads that serve requests. Each thread has its own areas.
    pub shards: usize,
    /// Method of member I/O.
    pub method: IoMethod,
    /// Maximum rate of rebuild, scrub and resync, bytes per second and member; 0 for no limit.
    pub background_rate: u64,
    /// Maximum time of a member operation, after which the member is taken out of use; zero for no limit.
    pub patience: Duration,
}

impl Default for ArraySettings {
    fn default() -> ArraySettings {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        ArraySettings {
            shard: ShardSettings::default(),
            shards: (cores / 2).clamp(1, 8),
            method: IoMethod::default(),
            background_rate: 0,
            patience: Duration::from_secs(30),
        }
    }
}

/// Queue of messages for a thread.
struct Inbox<M> {
    sender: Sender<M>,
    bell: Arc<Bell>,
}

impl<M> Clone for Inbox<M> {
    fn clone(&self) -> Inbox<M> {
        Inbox {
            sender: self.sender.clone(),
            bell: self.bell.clone(),
        }
    }
}

impl<M> Inbox<M> {
    fn new() -> io::Result<(Inbox<M>, Receiver<M>)> {
        let (sender, receiver) = channel();
        let bell = Arc::new(Bell::new()?);
        Ok((Inbox { sender, bell }, receiver))
    }

    /// Sends a message. Returns the message as an error if the thread has ended.
    fn send(&self, message: M) -> Result<(), M> {
        self.sender.send(message).map_err(|error| error.0)?;
        self.bell.ring();
        Ok(())
    }
}

/// State shared by the threads of an array.
struct Shared {
    uuid: Option<Uuid>,
    geometry: Geometry,
    sharding: Sharding,
    settings: ArraySettings,
    /// Start of the data on every member, in bytes.
    offset: u64,
    clock: SystemClock,
    shards: Vec<Inbox<ShardMessage>>,
    coordinator: Inbox<CoordinatorMessage>,
    /// State of the array as published by the coordinator; `None` before it starts and after it has ended.
    published: Mutex<Option<CoordinatorStatus>>,
    /// Set when the array no longer accepts requests.
    closed: AtomicBool,
}

/// Initial state of an array.
struct Launch {
    geometry: Geometry,
    settings: ArraySettings,
    offset: u64,
    slots: Vec<MemberSlot>,
    spares: Vec<Arc<dyn Member>>,
    metadata: Option<(Superblock, Intent)>,
}

/// A running array. Call [`Array::stop`] to end it: dropping it has the effect of a killed process.
pub struct Array {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Array {
    /// Runs an array without records on its members. The caller states the members and their order. All
    /// members must be present, and their syndromes must match the data (members of zeroes meet this
    /// condition).
    ///
    /// # Errors
    /// If the system cannot start threads or open files, or if the requested io_uring is not available.
    ///
    /// # Panics
    /// If the number of members differs from the geometry, or the members are too small.
    pub fn bare(
        geometry: Geometry,
        members: Vec<Arc<dyn Member>>,
        settings: ArraySettings,
    ) -> io::Result<Array> {
        assert_eq!(members.len(), geometry.members());
        assert!(
            members
                .iter()
                .all(|member| member.bytes() >= geometry.member_bytes())
        );
        Array::launch(Launch {
            geometry,
            settings,
            offset: 0,
            slots: members.into_iter().map(MemberSlot::up).collect(),
            spares: Vec::new(),
            metadata: None,
        })
    }

    fn launch(launch: Launch) -> io::Result<Array> {
        let Launch {
            geometry,
            settings,
            offset,
            slots,
            spares,
            metadata,
        } = launch;
        let sharding = Sharding {
            shards: settings.shards.max(1),
            // Each region must belong to exactly one shard.
            area_stripes: settings.shard.region_stripes,
        };
        let inboxes = (0..sharding.shards).map(|_| Inbox::new());
        let (shards, receivers): (Vec<_>, Vec<_>) =
            inboxes.collect::<io::Result<Vec<_>>>()?.into_iter().unzip();
        let (coordinator, messages) = Inbox::new()?;
        let shared = Arc::new(Shared {
            uuid: metadata.as_ref().map(|(superblock, _)| superblock.array),
            geometry,
            sharding,
            settings,
            offset,
            clock: SystemClock::new(),
            shards,
            coordinator,
            published: Mutex::default(),
            closed: AtomicBool::new(false),
        });
        let array = Array {
            shared: shared.clone(),
            threads: Mutex::new(Vec::new()),
        };
        let intent = metadata.as_ref().map(|(_, intent)| intent);
        for (number, receiver) in receivers.into_iter().enumerate() {
            let start = ShardStart {
                slots: slots.clone(),
                marked: intent.map(|intent| intent.marks().clone()),
                doubts: intent.map_or_else(BTreeSet::new, |intent| intent.doubts().clone()),
            };
            let shared = shared.clone();
            array.start(
                format!("shard-{number}"),
                move || Worker::new(shared, number, receiver, start),
                Worker::run,
            )?;
        }
        array.start(
            "coordinator".to_string(),
            move || Coordinator::new(shared, messages, slots, spares, metadata),
            Coordinator::run,
        )?;
        Ok(array)
    }

    /// Starts a thread and waits until `make` has created its state.
    fn start<T: 'static>(
        &self,
        name: String,
        make: impl FnOnce() -> io::Result<T> + Send + 'static,
        run: fn(T),
    ) -> io::Result<()> {
        let (ready, made) = channel();
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || match make() {
                Ok(it) => {
                    // The starter waits for this message.
                    let _ = ready.send(Ok(()));
                    run(it);
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                }
            })?;
        self.threads().push(thread);
        made.recv().unwrap_or_else(|_| {
            Err(io::Error::other(
                "a thread of the array died while it started",
            ))
        })
    }

    fn threads(&self) -> std::sync::MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the size of the volume in bytes.
    pub fn bytes(&self) -> u64 {
        self.shared.geometry.blocks() * BLOCK_BYTES as u64
    }

    /// Returns the size of a block in bytes. Requests consist of whole blocks.
    pub fn block_bytes(&self) -> u32 {
        BLOCK_BYTES as u32
    }

    /// Returns the number of data bytes in a stripe, the most efficient unit of writes.
    pub fn stripe_bytes(&self) -> u64 {
        u64::from(self.shared.geometry.stripe_blocks()) * BLOCK_BYTES as u64
    }

    /// Returns the identity of the array; `None` for an array without records.
    pub fn uuid(&self) -> Option<Uuid> {
        self.shared.uuid
    }

    /// Returns the strategy that decides which writes are held.
    pub fn merging(&self) -> Merging {
        self.shared.settings.shard.merging
    }

    /// Returns the shape of the array.
    pub fn geometry(&self) -> &Geometry {
        &self.shared.geometry
    }

    /// Takes a working member out of use.
    ///
    /// # Errors
    /// If data would be lost, or the member is already lost.
    pub fn fail(&self, member: usize) -> Result<(), OrderError> {
        self.order(Order::Fail(member))
    }

    /// Puts an empty device in the place of a lost member and starts the rebuild. The contents of the device
    /// are lost.
    ///
    /// # Errors
    /// If the member is in use, or the device is too small.
    pub fn replace(&self, member: usize, device: Arc<dyn Member>) -> Result<(), OrderError> {
        self.order(Order::Replace(member, device))
    }

    /// Adds a spare device for the next member that is lost. The contents of the device are lost.
    ///
    /// # Errors
    /// If the device is too small.
    pub fn add_spare(&self, device: Arc<dyn Member>) -> Result<(), OrderError> {
        self.order(Order::Spare(device))
    }

    /// Starts a scrub: reads all stripes, compares data with syndromes, and repairs blocks that are known to be
    /// wrong.
    ///
    /// # Errors
    /// If a scrub is already running.
    pub fn scrub(&self) -> Result<(), OrderError> {
        self.order(Order::Scrub)
    }

    /// Stops a scrub before it has read everything.
    ///
    /// # Errors
    /// If the array is being stopped.
    pub fn stop_scrub(&self) -> Result<(), OrderError> {
        self.order(Order::StopScrub)
    }

    fn order(&self, order: Order) -> Result<(), OrderError> {
        let (answer, answered) = channel();
        // A coordinator that has ended drops the order and its answer channel.
        let _ = self
            .shared
            .coordinator
            .send(CoordinatorMessage::Order(order, answer));
        answered.recv().unwrap_or(Err(OrderError::Stopping))
    }

    /// Stops the array: rejects new requests, waits for requests in flight, flushes the members, and ends the
    /// threads.
    ///
    /// # Errors
    /// If the last flush fails. The threads end in any case.
    pub fn stop(&self) -> Result<(), Failure> {
        if self.shared.closed.swap(true, Ordering::SeqCst) {
            self.join();
            return Err(Failure::Stopped);
        }
        let (done, stopped) = channel();
        // A coordinator that has died leaves nothing to stop.
        let _ = self.shared.coordinator.send(CoordinatorMessage::Stop(done));
        let result = stopped.recv().unwrap_or(Err(Failure::Stopped));
        self.join();
        result
    }

    /// Ends the threads at once, as if the process had been killed. Requests in flight are answered with a
    /// failure. For tests of crash recovery.
    pub fn halt(&self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        for shard in &self.shared.shards {
            let _ = shard.send(ShardMessage::Halt);
        }
        let _ = self.shared.coordinator.send(CoordinatorMessage::Halt);
        self.join();
    }

    fn join(&self) {
        for thread in std::mem::take(&mut *self.threads()) {
            // The thread has already reported its panic on standard error.
            let _ = thread.join();
        }
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        self.halt();
    }
}

/// Returns `blocks` blocks of zeroes.
fn zeroes(blocks: u64) -> Vec<Page> {
    use crate::block::Block;
    vec![Page::zero(); blocks as usize]
}
