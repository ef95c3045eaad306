//! Crash injector: counts the disk operations of each work of the engine, and crashes at a chosen operation.
//!
//! The engine marks its works by tracing spans. Works may be nested: the catalog that a seal writes is an
//! operation of the seal, and so are the operations of a merge inside a seal.

use seiner_platform::sim::SimDisk;
use seiner_platform::{Disk, File};
use std::cell::RefCell;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Number of kinds of disk operations.
const OPERATIONS: usize = 12;

/// Work of the engine, by the name of its span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A start.
    Start,
    /// The part of a start that applies changed rules.
    Rules,
    /// A commit: one record written to the journal.
    Commit,
    /// Sealing of a segment.
    Seal,
    /// Checkpoints of open segments.
    Checkpoint,
    /// Rewriting of a victim's live blocks.
    Merge,
    /// Drop of a segment.
    Drop,
    /// Expiry of the oldest blocks of a class, by its quota or for space.
    Expire,
    /// A pass of the roll-up.
    RollUp,
    /// Deletion of samples.
    Delete,
    /// Removal of the names of sources without data.
    Forget,
}

impl Work {
    /// All works.
    pub const ALL: [Work; 11] = [
        Work::Start,
        Work::Rules,
        Work::Commit,
        Work::Seal,
        Work::Checkpoint,
        Work::Merge,
        Work::Drop,
        Work::Expire,
        Work::RollUp,
        Work::Delete,
        Work::Forget,
    ];

    /// Returns the name of the engine's span.
    pub fn name(self) -> &'static str {
        match self {
            Work::Start => "start",
            Work::Rules => "rules",
            Work::Commit => "commit",
            Work::Seal => "seal",
            Work::Checkpoint => "checkpoint",
            Work::Merge => "merge",
            Work::Drop => "drop",
            Work::Expire => "expire",
            Work::RollUp => "rollup",
            Work::Delete => "delete",
            Work::Forget => "forget",
        }
    }

    /// Returns true while the engine on this thread does this work.
    pub fn is_going_on(self) -> bool {
        CURRENT_WORK.with_borrow(|at| at.now.contains(&self))
    }

    fn named(name: &str) -> Option<Work> {
        Work::ALL.into_iter().find(|work| work.name() == name)
    }
}

/// Kind of a disk operation.
#[derive(Clone, Copy, Debug)]
enum Operation {
    List,
    Open,
    Create,
    Remove,
    Rename,
    SyncNames,
    Read,
    Write,
    Sync,
    SetLen,
    Reserve,
    Len,
}

impl Operation {
    const NAMES: [&str; OPERATIONS] = [
        "list",
        "open",
        "create",
        "remove",
        "rename",
        "sync_names",
        "read",
        "write",
        "sync",
        "set_len",
        "reserve",
        "len",
    ];
}

/// Counts of a work: its starts, its disk operations, and the crashes during them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkCount {
    /// Number of starts.
    pub begun: u64,
    operations: [u64; OPERATIONS],
    ends: [u64; OPERATIONS],
}

impl WorkCount {
    /// Number of crashes during the work, by a power cut or a kill.
    pub fn ends(&self) -> u64 {
        self.ends.iter().sum()
    }
}

/// Counts of all works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkCounts([WorkCount; Work::ALL.len()]);

impl WorkCounts {
    /// Returns the counts of a work.
    pub fn of(&self, work: Work) -> &WorkCount {
        &self.0[work as usize]
    }

    /// Adds other counts.
    pub fn add(&mut self, other: &WorkCounts) {
        for (count, other) in self.0.iter_mut().zip(&other.0) {
            count.begun += other.begun;
            let operations = count.operations.iter_mut().zip(other.operations);
            let ends = count.ends.iter_mut().zip(other.ends);
            operations.chain(ends).for_each(|(sum, more)| *sum += more);
        }
    }
}

impl fmt::Display for WorkCounts {
    /// Writes one line per work.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for work in Work::ALL {
            let count = self.of(work);
            let (begun, ends) = (count.begun, count.ends());
            write!(
                f,
                "{:10}{begun:>9} begun, {ends:>6} ended by a crash, by operation:",
                work.name()
            )?;
            for (at, name) in Operation::NAMES.into_iter().enumerate() {
                if count.operations[at] > 0 {
                    write!(f, " {name} {}/{}", count.ends[at], count.operations[at])?;
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

thread_local! {
    /// Works that the engine on this thread is doing, and the number of starts of each.
    static CURRENT_WORK: RefCell<CurrentWork> = RefCell::default();
}

#[derive(Default)]
struct CurrentWork {
    now: Vec<Work>,
    begun: [u64; Work::ALL.len()],
}

/// Subscriber of the engine's spans.
struct Listener;

impl Listener {
    fn work(id: &Id) -> Work {
        Work::ALL[id.into_u64() as usize - 1]
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && Work::named(metadata.name()).is_some()
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let work = Work::named(span.metadata().name()).expect("only spans of works are enabled");
        Id::from_u64(work as u64 + 1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, id: &Id) {
        let work = Listener::work(id);
        CURRENT_WORK.with_borrow_mut(|at| {
            at.now.push(work);
            at.begun[work as usize] += 1;
        });
    }

    fn exit(&self, id: &Id) {
        let work = Listener::work(id);
        CURRENT_WORK.with_borrow_mut(|at| {
            let last = at.now.iter().rposition(|&one| one == work);
            last.map(|last| at.now.remove(last));
        });
    }
}

/// Disk operation at which the run crashes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// The crash happens in this work.
    pub(crate) work: Work,
    /// Number of disk operations in such works until the crash, from now on; 1 is the next.
    pub(crate) operation: u64,
}

#[derive(Default)]
struct InjectorState {
    works: WorkCounts,
    target: Option<Target>,
}

/// Counter of disk operations by work, and crash injector. Clones share their state.
#[derive(Clone)]
pub(crate) struct CrashInjector(Arc<Mutex<InjectorState>>);

impl CrashInjector {
    /// Returns an injector without counts, and clears the state of this thread.
    pub(crate) fn new() -> CrashInjector {
        static LISTENING: Once = Once::new();
        LISTENING.call_once(|| {
            tracing::subscriber::set_global_default(Listener).expect("no other subscriber is set");
        });
        CURRENT_WORK.with_borrow_mut(|at| *at = CurrentWork::default());
        CrashInjector(Arc::default())
    }

    /// Wraps `disk`, which is `sim` or a wrapper of it.
    pub(crate) fn wrap(&self, disk: Arc<dyn Disk>, sim: &SimDisk) -> Arc<dyn Disk> {
        let (sim, injector) = (sim.clone(), self.clone());
        Arc::new(InjectedDisk {
            disk,
            sim,
            injector,
        })
    }

    /// Sets the operation at which the run crashes; `None` cancels it.
    pub(crate) fn set_target(&self, target: Option<Target>) {
        self.state().target = target;
    }

    /// Returns the counts so far, with the starts on this thread.
    pub(crate) fn works(&self) -> WorkCounts {
        let mut works = self.state().works;
        let begun = CURRENT_WORK.with_borrow(|at| at.begun);
        for (count, begun) in works.0.iter_mut().zip(begun) {
            count.begun = begun;
        }
        works
    }

    fn state(&self) -> MutexGuard<'_, InjectorState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out a disk operation, which may be the one that crashes.
    fn carry_out<T>(&self, sim: &SimDisk, operation: Operation, act: impl FnOnce() -> T) -> T {
        let now = CURRENT_WORK.with_borrow(|at| at.now.clone());
        let was_off = sim.is_off();
        let mut state = self.state();
        if let Some(target) = state
            .target
            .as_mut()
            .filter(|target| now.contains(&target.work))
        {
            target.operation -= 1;
            if target.operation == 0 {
                state.target = None;
                sim.crash_after(Some(1));
            }
        }
        drop(state);
        let result = act();
        if was_off {
            return result;
        }
        let ended = sim.is_off();
        let mut state = self.state();
        for work in Work::ALL.into_iter().filter(|work| now.contains(work)) {
            let count = &mut state.works.0[work as usize];
            count.operations[operation as usize] += 1;
            count.ends[operation as usize] += u64::from(ended);
        }
        result
    }
}

struct InjectedDisk {
    disk: Arc<dyn Disk>,
    sim: SimDisk,
    injector: CrashInjector,
}

impl InjectedDisk {
    fn carry_out<T>(&self, operation: Operation, act: impl FnOnce(&dyn Disk) -> T) -> T {
        self.injector
            .carry_out(&self.sim, operation, || act(&*self.disk))
    }

    fn file(&self, file: io::Result<Arc<dyn File>>) -> io::Result<Arc<dyn File>> {
        let (sim, injector) = (self.sim.clone(), self.injector.clone());
        Ok(Arc::new(InjectedFile {
            file: file?,
            sim,
            injector,
        }))
    }
}

impl Disk for InjectedDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.carry_out(Operation::List, |disk| disk.list())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.file(self.carry_out(Operation::Open, |disk| disk.open(name)))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.file(self.carry_out(Operation::Create, |disk| disk.create(name)))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.carry_out(Operation::Remove, |disk| disk.remove(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.carry_out(Operation::Rename, |disk| disk.rename(from, to))
    }

    fn sync_names(&self) -> io::Result<()> {
        self.carry_out(Operation::SyncNames, |disk| disk.sync_names())
    }

    fn free(&self) -> io::Result<Option<u64>> {
        self.disk.free()
    }
}

struct InjectedFile {
    file: Arc<dyn File>,
    sim: SimDisk,
    injector: CrashInjector,
}

impl InjectedFile {
    fn carry_out<T>(&self, operation: Operation, act: impl FnOnce(&dyn File) -> T) -> T {
        self.injector
            .carry_out(&self.sim, operation, || act(&*self.file))
    }
}

impl File for InjectedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.carry_out(Operation::Read, |file| file.read_at(offset, buffer))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.carry_out(Operation::Write, |file| file.write_at(offset, bytes))
    }

    fn sync(&self) -> io::Result<()> {
        self.carry_out(Operation::Sync, |file| file.sync())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.carry_out(Operation::SetLen, |file| file.set_len(len))
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        self.carry_out(Operation::Reserve, |file| file.reserve(len))
    }

    fn len(&self) -> io::Result<u64> {
        self.carry_out(Operation::Len, |file| file.len())
    }
}
