//! A running array: a thread for every shard, members on real devices, and requests from any thread.
//!
//! Each shard is the state machine [`Shard`](crate::Shard) with a loop around it (`worker`): messages and outcomes of members
//! go in, operations and answers come out. What concerns the whole array, who is a member, what is rebuilt, checked and put on
//! record, is done by one more thread, the *keeper*. Shards share nothing and take no lock; the keeper and the shards
//! never wait for one another.
//!
//! Invariant: an answer that depends on a member no longer being used is given only when that is on record, so that no
//! restart takes such a member for a good one.

mod answer;
mod assemble;
mod books;
mod client;
mod keeper;
pub(crate) mod regions;
mod status;
mod sweep;
mod worker;

pub use answer::Completion;
pub use client::Command;
pub use keeper::Refusal;
pub use status::{
    AreaStatus, Condition, Filling, Loss, MemberStatus, MergingStatus, Status, TaskKind, TaskStatus,
};

use crate::block::Page;
use crate::driver::{Bell, Method};
use crate::geometry::{BLOCK_BYTES, Geometry};
use crate::member::Member;
use crate::merging::Merging;
use crate::record::{Intent, Superblock, Uuid};
use crate::request::Failure;
use crate::router::Sharding;
use crate::shard::Settings;
use keeper::{Keeper, Order, Slot, Word};
use seiner_platform::SystemClock;
use status::Kept;
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use worker::{Beginning, Message, Worker};

/// How an array is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Running {
    /// What shards do.
    pub settings: Settings,
    /// Threads that serve requests, each for areas of its own.
    pub shards: usize,
    /// How members are read and written.
    pub method: Method,
    /// Bytes a second of each member that rebuilding, checking and resyncing may take; as many as they can if 0.
    pub background_rate: u64,
    /// How long a member may take for an operation before it is no longer used; as long as it likes if zero.
    pub patience: Duration,
}

impl Default for Running {
    fn default() -> Running {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Running {
            settings: Settings::default(),
            shards: (cores / 2).clamp(1, 8),
            method: Method::default(),
            background_rate: 0,
            patience: Duration::from_secs(30),
        }
    }
}

/// Where messages for a thread go.
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

    /// Leaves a message; gives it back if the thread has ended.
    fn send(&self, message: M) -> Result<(), M> {
        self.sender.send(message).map_err(|error| error.0)?;
        self.bell.ring();
        Ok(())
    }
}

/// What the threads of an array know of each other.
struct Shared {
    uuid: Option<Uuid>,
    geometry: Geometry,
    sharding: Sharding,
    running: Running,
    /// Where data begin on every member, in bytes.
    offset: u64,
    clock: SystemClock,
    shards: Vec<Inbox<Message>>,
    keeper: Inbox<Word>,
    /// What the keeper says of the array; none before it begins, and after it has ended.
    kept: Mutex<Option<Kept>>,
    /// No more requests are taken.
    closed: AtomicBool,
}

/// What an array begins with.
struct Launch {
    geometry: Geometry,
    running: Running,
    offset: u64,
    slots: Vec<Slot>,
    spares: Vec<Arc<dyn Member>>,
    books: Option<(Superblock, Intent)>,
}

/// A running array. To be [stopped](Array::stop): what only drops it leaves it as a killed process would.
pub struct Array {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Array {
    /// An array of which nothing is on record: whoever has the members must know what they are. All of them are there, and
    /// syndromes fit the data (as they do on members that hold zeroes only).
    ///
    /// # Errors
    /// If the system has no more threads or files to give, or no io_uring that was asked for.
    ///
    /// # Panics
    /// If there are more or fewer members than the geometry says, or they are too small.
    pub fn bare(
        geometry: Geometry,
        members: Vec<Arc<dyn Member>>,
        running: Running,
    ) -> io::Result<Array> {
        assert_eq!(members.len(), geometry.members());
        assert!(
            members
                .iter()
                .all(|member| member.bytes() >= geometry.member_bytes())
        );
        Array::launch(Launch {
            geometry,
            running,
            offset: 0,
            slots: members.into_iter().map(Slot::up).collect(),
            spares: Vec::new(),
            books: None,
        })
    }

    fn launch(launch: Launch) -> io::Result<Array> {
        let Launch {
            geometry,
            running,
            offset,
            slots,
            spares,
            books,
        } = launch;
        let sharding = Sharding {
            shards: running.shards.max(1),
            // A region is one shard's.
            area_stripes: running.settings.region_stripes,
        };
        let inboxes = (0..sharding.shards).map(|_| Inbox::new());
        let (shards, receivers): (Vec<_>, Vec<_>) =
            inboxes.collect::<io::Result<Vec<_>>>()?.into_iter().unzip();
        let (keeper, words) = Inbox::new()?;
        let shared = Arc::new(Shared {
            uuid: books.as_ref().map(|(superblock, _)| superblock.array),
            geometry,
            sharding,
            running,
            offset,
            clock: SystemClock::new(),
            shards,
            keeper,
            kept: Mutex::default(),
            closed: AtomicBool::new(false),
        });
        let array = Array {
            shared: shared.clone(),
            threads: Mutex::new(Vec::new()),
        };
        let intent = books.as_ref().map(|(_, intent)| intent);
        for (number, receiver) in receivers.into_iter().enumerate() {
            let beginning = Beginning {
                slots: slots.clone(),
                marked: intent.map(|intent| intent.marked().clone()),
                doubts: intent.map_or_else(BTreeSet::new, |intent| intent.doubts().clone()),
            };
            let shared = shared.clone();
            array.start(
                format!("shard-{number}"),
                move || Worker::new(shared, number, receiver, beginning),
                Worker::run,
            )?;
        }
        array.start(
            "keeper".to_string(),
            move || Keeper::new(shared, words, slots, spares, books),
            Keeper::run,
        )?;
        Ok(array)
    }

    /// Starts a thread and waits until it has what it needs.
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
                    // The starter waits for this.
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

    /// Bytes of the volume.
    pub fn bytes(&self) -> u64 {
        self.shared.geometry.blocks() * BLOCK_BYTES as u64
    }

    /// Bytes of a block: requests are for whole ones.
    pub fn block_bytes(&self) -> u32 {
        BLOCK_BYTES as u32
    }

    /// Bytes of data in a stripe: what is best written at once.
    pub fn stripe_bytes(&self) -> u64 {
        u64::from(self.shared.geometry.stripe_blocks()) * BLOCK_BYTES as u64
    }

    /// Its name; none if nothing is on record.
    pub fn uuid(&self) -> Option<Uuid> {
        self.shared.uuid
    }

    /// When writes are held.
    pub fn merging(&self) -> Merging {
        self.shared.running.settings.merging
    }

    /// The shape.
    pub fn geometry(&self) -> &Geometry {
        &self.shared.geometry
    }

    /// A member is no longer used, although it works.
    ///
    /// # Errors
    /// If data would be lost.
    pub fn fail(&self, member: usize) -> Result<(), Refusal> {
        self.order(Order::Fail(member))
    }

    /// An empty device takes the place of a lost member, and is filled. Whatever it holds is lost.
    ///
    /// # Errors
    /// If the member is there, or the device too small.
    pub fn replace(&self, member: usize, device: Arc<dyn Member>) -> Result<(), Refusal> {
        self.order(Order::Replace(member, device))
    }

    /// An empty device takes the place of the next member that is lost. Whatever it holds is lost.
    ///
    /// # Errors
    /// If it is too small.
    pub fn add_spare(&self, device: Arc<dyn Member>) -> Result<(), Refusal> {
        self.order(Order::Spare(device))
    }

    /// Begins to read everything, to compare data and syndromes, and to write anew what is known to be wrong.
    ///
    /// # Errors
    /// If that is being done.
    pub fn scrub(&self) -> Result<(), Refusal> {
        self.order(Order::Scrub)
    }

    /// Ends scrubbing before everything was read.
    ///
    /// # Errors
    /// If the array is being stopped.
    pub fn stop_scrub(&self) -> Result<(), Refusal> {
        self.order(Order::StopScrub)
    }

    fn order(&self, order: Order) -> Result<(), Refusal> {
        let (answer, answered) = channel();
        // A keeper that has ended drops the order, and with it the way to answer.
        let _ = self.shared.keeper.send(Word::Order(order, answer));
        answered.recv().unwrap_or(Err(Refusal::Stopping))
    }

    /// Takes no more requests, waits for those under way, makes all durable, and ends the threads.
    ///
    /// # Errors
    /// What the last flush says. The threads have ended all the same.
    pub fn stop(&self) -> Result<(), Failure> {
        if self.shared.closed.swap(true, Ordering::SeqCst) {
            self.join();
            return Err(Failure::Stopped);
        }
        let (done, stopped) = channel();
        // A keeper that has died leaves nothing to stop.
        let _ = self.shared.keeper.send(Word::Stop(done));
        let result = stopped.recv().unwrap_or(Err(Failure::Stopped));
        self.join();
        result
    }

    /// Ends the threads at once, as if the process had been killed; requests under way are answered with a failure. For
    /// tests of what a crash leaves.
    pub fn halt(&self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        for shard in &self.shared.shards {
            let _ = shard.send(Message::Halt);
        }
        let _ = self.shared.keeper.send(Word::Halt);
        self.join();
    }

    fn join(&self) {
        for thread in std::mem::take(&mut *self.threads()) {
            // It has told why on standard error.
            let _ = thread.join();
        }
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        self.halt();
    }
}

/// Blocks of a run of zeroes.
fn zeroes(blocks: u64) -> Vec<Page> {
    use crate::block::Block;
    vec![Page::zero(); blocks as usize]
}
