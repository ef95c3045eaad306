//! Opening of a port: its journal, its lease and its local engine.

use crate::journal::{JournalId, Mirror, Ownership, Policy};
use crate::lease::{self, BEAT, Beat, Lease, Record};
use crate::locks::read;
use crate::patience::at_start;
use crate::rows::RowsError;
use crate::settings::{Acknowledge, PortOptions, Surroundings};
use crate::stamps::Stamps;
use seiner_engine::{Engine, Options};
use seiner_platform::{Clock, Disk};
use seiner_store::Error;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

/// Name of the file that states which journal the local disk belongs to.
const PORT_FILE: &str = "port";

/// Begin of a journal.
pub(crate) struct Beginning {
    /// Lease of the new journal.
    pub lease: Lease,
    /// Rows that earlier starts have left.
    pub earlier: Earlier,
}

/// Rows on the local disk that earlier starts of a port have left.
pub(crate) struct Earlier {
    /// Leases of their journals.
    pub leases: Vec<Lease>,
    /// Stamp of the rows, whose journal another port may have finished.
    pub stamp: Option<u64>,
}

/// Begins a journal of a port.
///
/// # Errors
/// If too few replicas answer, the disk fails, or it belongs to another port.
pub(crate) fn begin(
    options: &PortOptions,
    around: &Surroundings,
    stamps: &Stamps,
) -> Result<Beginning, Error> {
    let Surroundings {
        rows, clock, disk, ..
    } = around;
    let name = &options.name;
    let records = at_start(&**clock, || lease::records(&**rows))?;
    records.iter().for_each(|record| stamps.see(record.stamp));
    let local = read_port_file(&**disk)?;
    if let Some((other, _)) = local.as_ref().filter(|(other, _)| other != name) {
        return Err(Error::Options(format!(
            "the directory belongs to the port {other:?}, and this port is named {name:?}; give it a directory of its own"
        )));
    }
    let stamp = match &local {
        None => None,
        Some((_, epoch)) => {
            let id = JournalId {
                port: name.clone(),
                epoch: *epoch,
            };
            at_start(&**clock, || lease::stamp(&**rows, &id))?
        }
    };
    stamp.into_iter().for_each(|stamp| stamps.see(stamp));
    let mut leases = Vec::new();
    for record in records
        .iter()
        .filter(|record| record.port == *name && record.owner == *name)
    {
        let is_here = local
            .as_ref()
            .is_some_and(|(_, epoch)| *epoch == record.epoch);
        if !is_here && !is_silent(around, record)? {
            return Err(Error::Options(format!(
                "another machine runs a port named {name:?}; give each port a name of its own"
            )));
        }
        // The replicated journal of a lost directory is left to the takeover.
        if is_here || record.is_local {
            let lease = at_start(&**clock, || {
                Lease::take(rows.clone(), clock.clone(), record, name)
            })?;
            match is_here {
                true => leases.extend(lease),
                false => give_up(&**clock, lease)?,
            }
        }
    }
    let last = at_start(&**clock, || lease::last_epoch(&**rows, name));
    // Replicas that lost their power may have lost the latest journals.
    let epoch = last?.max(local.map_or(0, |(_, epoch)| epoch)) + 1;
    let is_local = options.acknowledge == Acknowledge::Local;
    let record = Record {
        port: name.clone(),
        epoch,
        owner: name.clone(),
        beat: 0,
        stamp: stamps.next(),
        is_local,
    };
    let lease = at_start(&**clock, || new_lease(around, record.clone()))?;
    // The first beat begins the lease: an attempt to create it may have succeeded long ago.
    let beat = at_start(&**clock, || lease.beat(stamps.next()))?;
    if beat == Beat::Lost {
        let text = format!(
            "another port has taken over the new journal of {name:?}; start the port again"
        );
        return Err(Error::Options(text));
    }
    write_port_file(&**disk, name, epoch)?;
    Ok(Beginning {
        lease,
        earlier: Earlier { leases, stamp },
    })
}

/// Ends a journal whose only disk is gone.
fn give_up(clock: &dyn Clock, lease: Option<Lease>) -> Result<(), RowsError> {
    let Some(lease) = lease else {
        return Ok(());
    };
    tracing::warn!(
        "the samples of journal {} of this port were on its earlier disk only, and are lost",
        lease.record().epoch
    );
    at_start(clock, || lease.end())
}

/// Waits to see whether a journal still has an owner. Returns true if it has none.
fn is_silent(around: &Surroundings, record: &Record) -> Result<bool, Error> {
    let waits = (2 * BEAT).as_millis() / 100;
    for _ in 0..waits {
        around.clock.sleep(Duration::from_millis(100));
        let records = at_start(&*around.clock, || lease::records(&*around.rows))?;
        if !records.contains(record) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Creates the lease of a new journal.
///
/// # Errors
/// If too few replicas answer.
pub(crate) fn new_lease(around: &Surroundings, record: Record) -> Result<Lease, RowsError> {
    Lease::create(around.rows.clone(), around.clock.clone(), record)
}

/// Lease of a port while it is opened. The port, which prolongs its lease later, does not exist yet, and recovery may
/// take longer than a lease.
pub(crate) struct OpeningLease {
    lease: Arc<RwLock<Arc<Lease>>>,
    is_open: AtomicBool,
    /// Serialises beats.
    beating: Mutex<()>,
}

impl OpeningLease {
    fn new(lease: Arc<RwLock<Arc<Lease>>>) -> OpeningLease {
        OpeningLease {
            lease,
            is_open: AtomicBool::new(false),
            beating: Mutex::default(),
        }
    }

    /// Leaves the lease to the port, which prolongs it from now on.
    pub fn end(&self) {
        self.is_open.store(true, Ordering::Release);
    }

    /// Returns the state of the lease. Until the port is open, prolongs it if that is due.
    fn ownership(&self) -> Ownership {
        let lease = read(&self.lease).clone();
        if !self.is_open.load(Ordering::Acquire)
            && let Ok(_beating) = self.beating.try_lock()
            && lease.is_due()
        {
            // An opening port accepts no rows, so the stamp stays.
            match lease.beat(0) {
                Ok(Beat::Held) => {}
                Ok(Beat::Lost) => return Ownership::Lost,
                Err(error) => tracing::debug!("the lease was not prolonged: {error}"),
            }
        }
        match lease.is_held() {
            true => Ownership::Held,
            false => Ownership::Ended,
        }
    }
}

/// Local part of a port.
pub(crate) struct Local {
    /// Mirror of the journal, if it is replicated.
    pub mirror: Option<Arc<Mirror>>,
    /// Engine, whose disk is the mirror if there is one.
    pub engine: Arc<Engine>,
    /// Lease, which this value prolongs until its end.
    pub opening: Arc<OpeningLease>,
}

/// Replicates the journal that the local disk has, and opens the local engine. Keeps the lease meanwhile.
///
/// # Errors
/// If another port takes the journal over, or the engine cannot be opened.
pub(crate) fn open_local(
    options: &PortOptions,
    around: &Surroundings,
    lease: &Arc<RwLock<Arc<Lease>>>,
    threads: bool,
) -> Result<Local, Error> {
    let epoch = read(lease).record().epoch;
    let opening = Arc::new(OpeningLease::new(lease.clone()));
    let PortDisk { mirror, disk } = mirrored(options, around, &opening, epoch)?;
    let engine = open_engine(options, around, disk, threads)?;
    Ok(Local {
        mirror,
        engine,
        opening,
    })
}

/// Disk of a port's engine.
struct PortDisk {
    mirror: Option<Arc<Mirror>>,
    /// Disk, which is the mirror if there is one.
    disk: Arc<dyn Disk>,
}

/// Returns the disk of the engine, which repeats the journal in the distributed store unless the settings say not to.
fn mirrored(
    options: &PortOptions,
    around: &Surroundings,
    lease: &Arc<OpeningLease>,
    epoch: u64,
) -> Result<PortDisk, Error> {
    let Acknowledge::Replicated(level) = options.acknowledge else {
        return Ok(PortDisk {
            mirror: None,
            disk: around.disk.clone(),
        });
    };
    let lease = lease.clone();
    let policy = Policy {
        level,
        ownership: Box::new(move || lease.ownership()),
    };
    let id = JournalId {
        port: options.name.clone(),
        epoch,
    };
    let mirror = Mirror::new(
        around.disk.clone(),
        around.rows.clone(),
        around.clock.clone(),
        id,
        policy,
    );
    let mirror = Arc::new(mirror.map_err(|error| disk_error("reading the journal", error))?);
    // From here on, the new journal alone suffices for the rows on the local disk that no earlier journal has.
    mirror
        .write_all()
        .map_err(|error| disk_error("replicating the journal", error))?;
    Ok(PortDisk {
        mirror: Some(mirror.clone()),
        disk: mirror,
    })
}

/// Opens the local engine.
///
/// # Errors
/// If it cannot be opened.
fn open_engine(
    options: &PortOptions,
    around: &Surroundings,
    disk: Arc<dyn Disk>,
    threads: bool,
) -> Result<Arc<Engine>, Error> {
    let engine = Options {
        durability: seiner_store::Durability::Sync,
        // The rows of a source are in the cluster, and its place there is known by its number.
        forget: false,
        ..options.engine.clone()
    };
    match threads {
        true => Engine::start(disk, engine),
        false => Engine::open(disk, around.clock.clone(), engine).map(Arc::new),
    }
}

fn read_port_file(disk: &dyn Disk) -> Result<Option<(String, u64)>, Error> {
    let context = "reading the file port";
    let file = match disk.open(PORT_FILE) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(disk_error(context, error)),
    };
    let mut bytes = vec![0; file.len().map_err(|error| disk_error(context, error))? as usize];
    file.read_at(0, &mut bytes)
        .map_err(|error| disk_error(context, error))?;
    let text = String::from_utf8_lossy(&bytes);
    let parsed = text.trim().rsplit_once(' ');
    let parsed = parsed.and_then(|(name, epoch)| Some((name.to_string(), epoch.parse().ok()?)));
    // A torn file is that of a start that wrote no row.
    Ok(parsed)
}

/// Writes the file that states which journal the local disk belongs to.
///
/// # Errors
/// If the disk fails.
pub(crate) fn write_port_file(disk: &dyn Disk, name: &str, epoch: u64) -> Result<(), Error> {
    let write = || {
        let next = format!("{PORT_FILE}.next");
        let file = disk.create(&next)?;
        file.write_at(0, format!("{name} {epoch}\n").as_bytes())?;
        file.sync()?;
        disk.rename(&next, PORT_FILE)?;
        disk.sync_names()
    };
    write().map_err(|error| disk_error("writing the file port", error))
}

/// Returns the error of a disk.
pub(crate) fn disk_error(context: &str, error: io::Error) -> Error {
    Error::Io {
        context: context.to_string(),
        error,
    }
}
