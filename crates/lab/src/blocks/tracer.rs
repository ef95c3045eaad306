//! A private instance of the kernel's tracer that records the operations of one device.
//!
//! The global tracer of the system is never changed. The instance, and a mount of tracefs if there
//! is none, are in the registry.

use super::Operation;
use crate::error::Result;
use crate::location::{self, Device};
use crate::registry::{Registry, ResourceGuard};
use crate::resource::{PREFIX, Resource};
use crate::tool;
use anyhow::{Context, anyhow};
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Size of the kernel's event buffer per processor, KiB.
const BUFFER_KIB: &str = "8192";
/// Interval between two reads of the pipe.
pub const EVERY: Duration = Duration::from_millis(50);

/// A running trace.
pub struct Tracer {
    instance: PathBuf,
    pipe: File,
    rest: Vec<u8>,
    _guards: ResourceGuards,
}

/// Guards that are released in reverse order.
struct ResourceGuards(Vec<ResourceGuard>);

impl Drop for ResourceGuards {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

impl Tracer {
    /// Starts to trace the operations that are issued to a device.
    ///
    /// # Errors
    /// The rights are missing, or the kernel does not have the event.
    pub fn start(device: &Device, registry: &Arc<Registry>) -> Result<Tracer> {
        let mut guards = ResourceGuards(Vec::new());
        let root = tracer_root(registry, &mut guards)?;
        let instance = root.join(format!(
            "instances/seiner-lab-{}-{}",
            std::process::id(),
            device.name
        ));
        let resource = Resource::Trace {
            path: instance.clone(),
        };
        let (guard, ()) = registry.create(resource, || {
            let made = fs::create_dir(&instance);
            Ok(made.with_context(|| format!("{} was not made", instance.display()))?)
        })?;
        guards.0.push(guard);
        let put = |name: &str, value: &str| {
            fs::write(instance.join(name), value)
                .with_context(|| format!("the tracer rejected {value:?} in {name}"))
        };
        put("buffer_size_kb", BUFFER_KIB)?;
        put("events/block/block_rq_issue/filter", &filter(device)?)?;
        put("events/block/block_rq_issue/enable", "1")?;
        put("tracing_on", "1")?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let pipe = rustix::fs::open(instance.join("trace_pipe"), flags, Mode::empty())
            .context("the tracer's pipe was not opened")?;
        Ok(Tracer {
            instance,
            pipe: pipe.into(),
            rest: Vec::new(),
            _guards: guards,
        })
    }

    /// Passes the operations since the previous call of this function to `take`.
    ///
    /// # Errors
    /// Reading the pipe fails.
    fn drain(&mut self, mut take: impl FnMut(Operation)) -> Result<()> {
        let mut piece = [0; 64 << 10];
        loop {
            let count = match self.pipe.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            self.rest.extend_from_slice(&piece[..count]);
            let end = self
                .rest
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |place| place + 1);
            for line in self.rest[..end].split(|byte| *byte == b'\n') {
                if let Some(operation) = std::str::from_utf8(line).ok().and_then(parse) {
                    take(operation);
                }
            }
            self.rest.drain(..end);
        }
    }

    /// Runs `work`. Returns its result and the operations that reached the device during `work`. A
    /// thread reads the pipe continuously, because the kernel's buffer is too small for the
    /// requests of many files.
    ///
    /// # Errors
    /// Those of `work`, or reading the pipe fails.
    pub fn during<T>(&mut self, work: impl FnOnce() -> Result<T>) -> Result<(T, Vec<Operation>)> {
        let over = AtomicBool::new(false);
        let (done, operations) = thread::scope(|scope| {
            let watching = scope.spawn(|| -> Result<Vec<Operation>> {
                let mut operations = Vec::new();
                self.follow(&over, |operation| operations.push(operation))?;
                Ok(operations)
            });
            let end = End(&over);
            let done = work();
            drop(end);
            (done, watching.join().expect("watching does not panic"))
        });
        Ok((done?, operations?))
    }

    /// Passes operations to `take` until `over` is set.
    ///
    /// # Errors
    /// Reading the pipe fails.
    pub fn follow(&mut self, over: &AtomicBool, mut take: impl FnMut(Operation)) -> Result<()> {
        loop {
            // Loaded before the read, so that the last read begins after the end of the work.
            let is_over = over.load(Ordering::Acquire);
            self.drain(&mut take)?;
            if is_over {
                return Ok(());
            }
            crate::time::sleep(EVERY);
        }
    }

    /// Number of events that did not fit into the kernel's buffer.
    pub fn lost(&self) -> u64 {
        let processors = fs::read_dir(self.instance.join("per_cpu"))
            .into_iter()
            .flatten()
            .flatten();
        processors
            .filter_map(|processor| fs::read_to_string(processor.path().join("stats")).ok())
            .map(|stats| lost_in(&stats))
            .sum()
    }
}

/// Guard that sets the flag at the end of the work, even after a panic.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn lost_in(stats: &str) -> u64 {
    let values = stats.lines().filter_map(|line| line.split_once(": "));
    values
        .filter(|(name, _)| *name == "overrun" || *name == "dropped events")
        .filter_map(|(_, value)| value.trim().parse::<u64>().ok())
        .sum()
}

/// Returns the mount point of tracefs. If there is none, mounts tracefs for this run.
fn tracer_root(registry: &Arc<Registry>, guards: &mut ResourceGuards) -> Result<PathBuf> {
    // A mount of another run of the lab is ignored, because that run will remove it.
    let is_ours = |point: &Path| {
        point
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
    };
    if let Some(mount) = location::mounts()?
        .into_iter()
        .find(|mount| mount.kind == "tracefs" && !is_ours(&mount.point))
    {
        return Ok(mount.point);
    }
    let (guard, tree) = registry.tree(&std::env::temp_dir())?;
    guards.0.push(guard);
    let (guard, _) = registry.create(Resource::Mount { path: tree.clone() }, || {
        let arguments = ["-t", "tracefs", "tracefs"].map(Path::new);
        Ok(tool::run("mount", arguments, [tree.as_path()])?)
    })?;
    guards.0.push(guard);
    Ok(tree)
}

/// Returns the event filter for a device. Events name whole disks, so a partition is a range of
/// sectors.
fn filter(device: &Device) -> Result<String> {
    let disk = match device.start {
        Some(_) => Device::of_node(&format!("/dev/{}", device.disk))?,
        None => device.clone(),
    };
    let (major, minor) = disk
        .number
        .split_once(':')
        .and_then(|(major, minor)| Some((major.parse::<u64>().ok()?, minor.parse::<u64>().ok()?)))
        .ok_or_else(|| anyhow!("{} is not a device number", disk.number))?;
    let mut filter = format!("dev == {}", major << 20 | minor);
    if let Some(start) = device.start {
        let end = start + device.bytes / location::SECTOR;
        filter += &format!(" && sector >= {start} && sector < {end}");
    }
    Ok(filter)
}

/// Parses a line such as `… block_rq_issue: 7,0 WS 4096 () 123 + 8 be,0,4 [writer]`.
fn parse(line: &str) -> Option<Operation> {
    let (_, event) = line.split_once(" block_rq_issue: ")?;
    let (head, tail) = event.split_once(" (")?;
    let mut head = head.split(' ').skip(1);
    let kind = head.next()?.to_string();
    let bytes = head.next()?.parse().ok()?;
    let (_, tail) = tail.split_once(") ")?;
    Some(Operation {
        kind,
        bytes,
        sector: tail.split(' ').next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read() {
        let line = "  jbd2/loop0-8-123 [001] .....  5.5: block_rq_issue: 7,0 WSM 8192 () 4456 + 16 be,0,4 [jbd2/loop0-8]";
        let operation = Operation {
            kind: "WSM".into(),
            sector: 4456,
            bytes: 8192,
        };
        assert_eq!(parse(line), Some(operation));
        assert_eq!(parse("CPU:0 [LOST 12 EVENTS]"), None);
    }

    #[test]
    fn lost_events_are_counted() {
        assert_eq!(
            lost_in("entries: 5\noverrun: 3\ncommit overrun: 9\ndropped events: 4\n"),
            7
        );
    }

    #[test]
    fn a_whole_disk_needs_no_range() {
        let device = Device {
            number: "8:16".into(),
            ..Device::default()
        };
        assert_eq!(filter(&device).unwrap(), "dev == 8388624");
    }
}
