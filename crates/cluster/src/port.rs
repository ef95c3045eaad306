//! Port: the parts of a cluster store, their opening and their maintenance.

use crate::blocks::{ClassTables, DirectoryCache};
use crate::classes::Classes;
use crate::clocks;
use crate::counts::PortCounts;
use crate::deletes::{self, Cleanup, DeleteId, Mark};
use crate::earlier::EarlierJournals;
use crate::failure::HandoverError;
use crate::handover::Handover;
use crate::journal::{self, JournalId, Mirror};
use crate::lease::{self, BEAT, Beat, Lease, Observer, Record};
use crate::locks::{locked, read, written};
use crate::names::Names;
use crate::opening::{
    Beginning, Earlier, OpeningLease, begin, disk_error, new_lease, open_local, write_port_file,
};
use crate::patience::{at_end, at_start};
use crate::placement::Registrar;
use crate::places::Places;
use crate::ports::{self, PortInfo};
use crate::publication::Publication;
use crate::release::{StoredRows, SyncTime};
use crate::rows::{Level, TableSpec};
use crate::settings::{PortOptions, Surroundings};
use crate::shelves::Grids;
use crate::stamps::Stamps;
use crate::strangers::Numbers;
use crate::tables::base_tables;
use crate::takeover::Takeover;
use seiner_engine::Engine;
use seiner_model::Selector;
use seiner_store::Error;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

/// Part of the engine's memory that directories may take in addition.
const CACHE_SHARE: u64 = 16;
/// Sleep of a port that waits, between beats of its leases.
const NAP: Duration = Duration::from_millis(100);

/// Port of a cluster.
pub(crate) struct Port {
    pub options: PortOptions,
    pub around: Surroundings,
    pub engine: Arc<Engine>,
    pub mirror: Option<Arc<Mirror>>,
    pub lease: Arc<RwLock<Arc<Lease>>>,
    pub names: Names,
    pub numbers: Numbers,
    /// Places of the sources of the engine.
    pub places: Mutex<Places>,
    /// Directories that queries have read.
    pub directories: Arc<DirectoryCache>,
    pub classes: Classes,
    pub grids: Arc<Grids>,
    pub stamps: Stamps,
    /// Number of the next handover.
    pub next: AtomicU64,
    /// Number of handovers whose rows are stored, raised before the rows leave the engine.
    pub stored: AtomicU64,
    /// Journals of failed ports that this port finishes.
    pub takeovers: Mutex<Vec<Arc<Takeover>>>,
    /// Journals of earlier starts, until their rows are released.
    pub earlier: EarlierJournals,
    pub is_closed: AtomicBool,
    observer: Mutex<Observer>,
    /// Serialises handovers of the own engine. Rows that wait for their release.
    handing: Mutex<Option<StoredRows>>,
    last_handover: AtomicU64,
    cleanup: Cleanup,
    /// Number of sources of the engine that are registered.
    registered: AtomicU64,
    /// Rows accepted before the last handover.
    rows_handed_over: AtomicU64,
    last_beat: AtomicU64,
    /// Marks of the deletes that this port has applied, with true if they are stored.
    applied: Mutex<BTreeMap<DeleteId, (Mark, bool)>>,
    /// Serialises the application of deletes.
    applying: Mutex<()>,
    /// Serialises beats. Two beats at the same time would each find the record changed.
    beating: Mutex<()>,
    /// Load of this port, and the balance with the others.
    pub publication: Publication,
    counts: Mutex<PortCounts>,
    /// Last failure of the maintenance.
    trouble: Mutex<Option<String>>,
}

impl Port {
    /// Opens a port: creates tables, begins a journal, and recovers the local engine. The caller calls
    /// [`Port::finish_earlier`], which may take longer than a lease, and ends the third value, which keeps the lease.
    ///
    /// # Errors
    /// If too few replicas answer, the settings are invalid or contradict the stored ones, or the local store cannot
    /// be opened.
    pub fn open(
        options: PortOptions,
        around: Surroundings,
        threads: bool,
    ) -> Result<(Port, Earlier, Arc<OpeningLease>), Error> {
        options.check()?;
        let (rows, clock) = (&around.rows, &*around.clock);
        at_start(clock, || rows.create(&base_tables()))?;
        let ports = at_start(clock, || ports::list(&**rows))?;
        clocks::check(clock.now(), &options.name, &ports)?;
        let wanted = options.classes.as_deref();
        let classes = at_start(clock, || Classes::open(&**rows, wanted))?;
        let tables = classes.all().iter();
        let tables: Vec<TableSpec> = tables.flat_map(ClassTables::specs).collect();
        at_start(clock, || rows.create(&tables))?;
        let grids = at_start(clock, || Grids::open(&**rows, options.grid))?;
        let names = Names::new(rows.clone(), &options.name);
        at_start(clock, || names.refresh())?;
        let stamps = Stamps::new(around.clock.clone());
        let Beginning { lease, earlier } = begin(&options, &around, &stamps)?;
        let epoch = lease.record().epoch;
        let lease = Arc::new(RwLock::new(Arc::new(lease)));
        let local = open_local(&options, &around, &lease, threads)?;
        let (mirror, engine) = (local.mirror, local.engine);
        let memory = (engine.status().memory_budget / CACHE_SHARE).min(1 << 30);
        let directories = Arc::new(DirectoryCache::new(memory as usize));
        let port = Port {
            next: AtomicU64::new(epoch << 32),
            stored: AtomicU64::new(0),
            takeovers: Mutex::default(),
            earlier: EarlierJournals::default(),
            is_closed: AtomicBool::new(false),
            observer: Mutex::default(),
            handing: Mutex::default(),
            last_handover: AtomicU64::new(around.clock.monotonic()),
            cleanup: Cleanup::new(&*around.clock),
            registered: AtomicU64::new(0),
            rows_handed_over: AtomicU64::new(0),
            last_beat: AtomicU64::new(0),
            applied: Mutex::default(),
            applying: Mutex::default(),
            beating: Mutex::default(),
            publication: Publication::default(),
            counts: Mutex::default(),
            trouble: Mutex::default(),
            grids: Arc::new(grids),
            options,
            around,
            engine,
            mirror,
            lease,
            names,
            numbers: Numbers::default(),
            places: Mutex::default(),
            directories,
            classes,
            stamps,
        };
        // All rows on the local disk were accepted before the deletes that this port has not applied.
        at_start(&*port.around.clock, || port.apply_deletes())?;
        Ok((port, earlier, local.opening))
    }

    /// Hands over what earlier starts of this port have left. The rows and their journals wait for their release.
    ///
    /// # Errors
    /// If the distributed store fails for long, or the engine fails.
    pub fn finish_earlier(&self, earlier: Earlier) -> Result<(), Error> {
        let clock = &*self.around.clock;
        self.earlier.keep(clock, earlier.leases)?;
        let mut waiting = locked(&self.handing);
        at_start(clock, || {
            self.beat()?; // Earlier attempts may have taken longer than a lease.
            self.store_rows(&mut waiting, earlier.stamp)
        })?;
        Ok(at_start(clock, || self.advance(&mut waiting))?)
    }

    /// Hands over all rows accepted so far, and waits for their release. Their stamp is that of this moment, or `stamp`.
    ///
    /// # Errors
    /// If the distributed store or the engine fails. The rows stay here then.
    pub fn hand_over(&self, stamp: Option<u64>) -> Result<(), HandoverError> {
        let mut waiting = locked(&self.handing);
        self.wait_for_release(&mut waiting)?;
        self.store_rows(&mut waiting, stamp)?;
        self.wait_for_release(&mut waiting)
    }

    /// Writes the data of bundles with all rows accepted so far. The rows wait for their release.
    fn store_rows(
        &self,
        waiting: &mut Option<StoredRows>,
        stamp: Option<u64>,
    ) -> Result<(), HandoverError> {
        self.last_handover
            .store(self.around.clock.monotonic(), Ordering::Relaxed);
        let stamp = match stamp {
            Some(stamp) => stamp,
            None => self.stamp_of_handover()?,
        };
        let removed = self.mirror.as_ref().map(|mirror| mirror.removed_so_far());
        let accepted = self.engine.status().rows_accepted;
        let cut = self.engine.cut()?;
        let handover = self.handover(&self.engine, &self.places, stamp)?;
        let (report, directories) = handover.run(cut.block)?;
        *waiting = Some(StoredRows {
            cut,
            accepted,
            removed,
            // Without bundles, there is nothing to wait for.
            synced: match directories.is_empty() {
                true => SyncTime::after(&*self.around.clock, Duration::ZERO),
                false => self.sync_time(),
            },
            directories,
            report,
        });
        Ok(())
    }

    /// Returns the time at which the replicas have synced what they have acknowledged until now.
    pub fn sync_time(&self) -> SyncTime {
        SyncTime::after(&*self.around.clock, self.options.replica_sync)
    }

    fn wait_for_release(&self, waiting: &mut Option<StoredRows>) -> Result<(), HandoverError> {
        while let Some(rows) = waiting {
            self.wait_until(rows.synced);
            self.advance(waiting)?;
        }
        Ok(())
    }

    /// Waits, which may take longer than a lease.
    pub fn wait_until(&self, time: SyncTime) {
        while !time.has_come(&*self.around.clock) {
            self.keep_leases();
            self.around.clock.sleep(NAP);
        }
    }

    /// Advances stored rows, if everything is synced: their directories are written, or the rows are released.
    fn advance(&self, waiting: &mut Option<StoredRows>) -> Result<(), HandoverError> {
        while let Some(rows) = waiting
            && rows.synced.has_come(&*self.around.clock)
        {
            if !rows.directories.is_empty() {
                rows.directories.write(&*self.around.rows)?;
                self.stored.fetch_add(1, Ordering::SeqCst);
                rows.synced = self.sync_time();
                continue;
            }
            self.earlier.end(&*self.around.rows)?;
            rows.release(&self.engine, self.mirror.as_deref())?;
            self.rows_handed_over
                .store(rows.accepted, Ordering::Relaxed);
            locked(&self.counts).add(&rows.report);
            *waiting = None;
        }
        Ok(())
    }

    /// Returns the stamp of a handover. The stamp of the journal is higher from now on: if this port fails, the rows
    /// that it accepts later are later than the bundles.
    fn stamp_of_handover(&self) -> Result<u64, HandoverError> {
        let stamp = self.stamps.next();
        let _beating = locked(&self.beating);
        self.prolong()?;
        Ok(stamp)
    }

    /// Returns a registrar of an engine's sources. `places` belongs to the engine.
    fn registrar<'a>(&'a self, engine: &'a Engine, places: &'a Mutex<Places>) -> Registrar<'a> {
        Registrar {
            engine,
            names: &self.names,
            classes: &self.classes,
            places,
        }
    }

    /// Returns a handover of an engine's rows into the latest grid. `places` belongs to the engine.
    ///
    /// # Errors
    /// If too few replicas answer.
    pub fn handover<'a>(
        &'a self,
        engine: &'a Engine,
        places: &'a Mutex<Places>,
        stamp: u64,
    ) -> Result<Handover<'a>, HandoverError> {
        let grids = self.grids.refresh(&*self.around.rows)?;
        let grid_number = grids.len() - 1;
        Ok(Handover {
            of: self.registrar(engine, places),
            rows: &*self.around.rows,
            grid_number: grid_number as u16,
            grid: grids[grid_number],
            port: &self.options.name,
            next: &self.next,
            stamp,
            now: self.around.clock.now(),
        })
    }

    /// Returns the lease of the present journal.
    fn lease(&self) -> Arc<Lease> {
        read(&self.lease).clone()
    }

    /// Returns the present journal.
    pub fn journal(&self) -> JournalId {
        self.lease().record().id()
    }

    /// Returns the counts.
    pub fn counts(&self) -> PortCounts {
        *locked(&self.counts)
    }

    /// Returns the last failure of the maintenance, if the latest run failed.
    pub fn trouble(&self) -> Option<String> {
        let stalled = self.mirror.iter().any(|mirror| mirror.is_stalled());
        let text = "the journal is not on enough replicas; acknowledgements wait".to_string();
        stalled
            .then_some(text)
            .or_else(|| locked(&self.trouble).clone())
    }

    /// Performs one run of maintenance: beats, takeovers, a handover if one is due. Call it about once a second.
    pub fn maintain(&self) {
        let results = [
            self.beat(),
            self.publish(),
            self.apply_deletes(),
            self.take_over(),
            self.register_new(),
            self.hand_over_if_due(),
            self.remove_expired_deletes(),
        ];
        let failed = results.into_iter().find_map(Result::err);
        let failed = failed.map(|error| error.to_string());
        let before = std::mem::replace(&mut *locked(&self.trouble), failed.clone());
        match (before, failed) {
            // The work is repeated several times a second.
            (None, Some(why)) => {
                tracing::warn!("maintenance of the port fails, and is repeated: {why}")
            }
            (Some(_), None) => tracing::info!("maintenance of the port succeeds again"),
            _ => {}
        }
    }

    /// Prolongs the leases that this port holds and publishes its load, if that is due. A failure is repeated by the
    /// next call.
    pub fn keep_leases(&self) {
        // The maintenance beats as well, and reports failures.
        if let Err(error) = self.beat().and_then(|()| self.publish()) {
            tracing::debug!("the leases or the load of the port were not written: {error}");
        }
    }

    /// Prolongs the leases that this port holds, if a beat is due.
    fn beat(&self) -> Result<(), HandoverError> {
        let Ok(_beating) = self.beating.try_lock() else {
            return Ok(());
        };
        let now = self.around.clock.monotonic();
        if now < self.last_beat.load(Ordering::Relaxed) + BEAT.as_nanos() as u64 {
            return Ok(());
        }
        self.prolong()?;
        self.earlier.beat();
        // Queries need the list while the requests are under way.
        let takeovers = locked(&self.takeovers).clone();
        let lost = takeovers.into_iter().filter(|takeover| !takeover.beat());
        let lost: Vec<_> = lost.collect();
        locked(&self.takeovers)
            .retain(|takeover| !lost.iter().any(|lost| Arc::ptr_eq(lost, takeover)));
        self.last_beat.store(now, Ordering::Relaxed);
        Ok(())
    }

    /// Publishes this port, if that is due.
    fn publish(&self) -> Result<(), HandoverError> {
        let now = self.around.clock.monotonic();
        let info = || self.info();
        Ok(self.publication.publish(now, &*self.around.rows, info)?)
    }

    /// Applies the deletes that other ports have stored since the last call.
    ///
    /// # Errors
    /// If too few replicas answer, or the local disk fails. The deletes hide all rows of this port until then.
    pub fn apply_deletes(&self) -> Result<(), HandoverError> {
        let _applying = locked(&self.applying);
        let rows = &*self.around.rows;
        for delete in deletes::read(rows)? {
            self.stamps.see(delete.id.0);
            if delete.is_applied_by(&self.options.name) {
                continue;
            }
            let known = locked(&self.applied).get(&delete.id).copied();
            let mark = match known {
                Some((_, true)) => continue,
                Some((mark, false)) => mark,
                None => {
                    self.engine.delete(&delete.selector, delete.interval)?;
                    let takeovers = locked(&self.takeovers).clone();
                    for takeover in takeovers {
                        takeover.apply(&delete)?;
                    }
                    // Read after the delete: a shelf with this number or a higher one is read later.
                    Mark {
                        journal: self.journal().epoch,
                        handover: self.next.load(Ordering::SeqCst),
                    }
                }
            };
            locked(&self.applied).insert(delete.id.clone(), (mark, false));
            deletes::mark(rows, &delete.id, &self.options.name, mark)?;
            locked(&self.applied).insert(delete.id, (mark, true));
        }
        Ok(())
    }

    /// Returns this port as it publishes itself.
    pub fn info(&self) -> PortInfo {
        let status = self.engine.status();
        let now = self.around.clock.monotonic();
        let since = self.last_handover.load(Ordering::Relaxed);
        let (samples, rows) = (status.samples_accepted, status.rows_accepted);
        let (samples_per_second, rows_per_second) = self.publication.rates(now, samples, rows);
        PortInfo {
            name: self.options.name.clone(),
            address: self.options.address.clone(),
            samples_per_second,
            rows_per_second,
            fill: match status.disk_budget {
                0 | u64::MAX => 0.0,
                budget => (status.disk_used as f64 / budget as f64).min(1.0),
            },
            unflushed_rows: self.unflushed_rows(status.rows_accepted),
            handover_lag_s: now.saturating_sub(since) as f64 / 1e9,
            trouble: self.trouble(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            time: self.around.clock.now(),
        }
    }

    /// Returns the rows accepted since the last handover began.
    fn unflushed_rows(&self, accepted: u64) -> u64 {
        accepted.saturating_sub(self.rows_handed_over.load(Ordering::Relaxed))
    }

    /// Prolongs the lease of the present journal, with a new stamp.
    fn prolong(&self) -> Result<(), HandoverError> {
        let lease = self.lease();
        match lease.beat(self.stamps.next())? {
            Beat::Held => Ok(()),
            Beat::Lost => self.begin_again(&lease),
        }
    }

    /// Begins a new journal, because another port has taken the present one over. All rows are still here.
    fn begin_again(&self, lost: &Lease) -> Result<(), HandoverError> {
        let record = lost.record();
        tracing::warn!(
            "another port has taken over journal {} of this port; a new one begins",
            record.epoch
        );
        let epoch = lease::last_epoch(&*self.around.rows, &self.options.name)? + 1;
        let next = Record {
            epoch,
            beat: 0,
            owner: record.port.clone(),
            stamp: self.stamps.next(),
            ..record
        };
        let lease = new_lease(&self.around, next)?;
        if let Some(mirror) = &self.mirror {
            let id = lease.record().id();
            mirror
                .begin(id)
                .map_err(|error| disk_error("beginning a journal", error))?;
        }
        write_port_file(&*self.around.disk, &self.options.name, epoch)?;
        *written(&self.lease) = Arc::new(lease);
        Ok(())
    }

    /// Takes over the journals of failed ports, and finishes those that were taken.
    fn take_over(&self) -> Result<(), HandoverError> {
        let records = lease::records(&*self.around.rows)?;
        records
            .iter()
            .for_each(|record| self.stamps.see(record.stamp));
        let own = &self.options.name;
        let mut held: Vec<JournalId> = locked(&self.takeovers)
            .iter()
            .map(|takeover| takeover.journal())
            .collect();
        held.push(self.journal());
        held.extend(self.earlier.journals());
        // A journal of this port's earlier start, whose disk was lost, counts as that of another port.
        let others = records
            .into_iter()
            .filter(|record| !record.is_local && !held.contains(&record.id()));
        let others: Vec<Record> = others.collect();
        let failed = locked(&self.observer).observe(&others, self.around.clock.monotonic());
        for record in failed {
            let Surroundings { rows, clock, .. } = &self.around;
            if let Some(lease) = Lease::take(rows.clone(), clock.clone(), &record, own)? {
                tracing::warn!(
                    "port {} does not answer; this port finishes its journal {}",
                    record.port,
                    record.epoch
                );
                let takeover = Arc::new(Takeover::new(lease, record.stamp));
                locked(&self.takeovers).push(takeover);
            }
        }
        let takeovers = locked(&self.takeovers).clone();
        for takeover in takeovers {
            let report = takeover.finish(self)?;
            locked(&self.takeovers).retain(|other| !Arc::ptr_eq(other, &takeover));
            let mut counts = locked(&self.counts);
            counts.add(&report);
            counts.takeovers += 1;
        }
        Ok(())
    }

    /// Registers sources that are new since the last call, so that other ports list them. Their fields follow with the
    /// handover.
    fn register_new(&self) -> Result<(), HandoverError> {
        let known = self.registered.load(Ordering::Relaxed);
        let count = self.engine.status().sources;
        if count > known {
            let new = self.engine.sources(&Selector::all())?.into_iter();
            let new = new.filter(|source| u64::from(source.0) >= known);
            self.registrar(&self.engine, &self.places)
                .register(new.collect())?;
            self.registered.store(count, Ordering::Relaxed);
        }
        Ok(())
    }

    fn remove_expired_deletes(&self) -> Result<(), HandoverError> {
        let Surroundings { rows, clock, .. } = &self.around;
        self.cleanup.run(&**rows, &**clock, &self.classes)
    }

    /// Advances stored rows. If there are none, begins a handover if one is due.
    fn hand_over_if_due(&self) -> Result<(), HandoverError> {
        let Ok(mut waiting) = self.handing.try_lock() else {
            return Ok(());
        };
        self.advance(&mut waiting)?;
        if waiting.is_some() {
            return Ok(());
        }
        let since = self.last_handover.load(Ordering::Relaxed);
        let passed = self.around.clock.monotonic().saturating_sub(since);
        let status = self.engine.status();
        let bytes = status.segment_bytes + status.open_segment_bytes + status.buffer_bytes;
        let is_due = passed >= self.options.handover_every.as_nanos() as u64
            || bytes >= self.options.handover_bytes;
        let has_rows = status.rows_accepted > 0;
        match is_due && has_rows {
            true => self.store_rows(&mut waiting, None)?,
            false => return Ok(()),
        }
        self.advance(&mut waiting)
    }

    /// Hands over all rows and ends the journal. The next start has nothing to recover.
    ///
    /// # Errors
    /// If the distributed store or the engine fails. The rows stay on the local disk and in the journal.
    pub fn close(&self) -> Result<(), Error> {
        if self.is_closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let clock = &*self.around.clock;
        at_end(clock, || self.hand_over(None))?;
        if let Err(error) = ports::withdraw(&*self.around.rows, &self.options.name) {
            tracing::warn!("the port stays in the directory for some seconds: {error}");
        }
        let closed = self.engine.close();
        if let Some(mirror) = &self.mirror {
            mirror.close();
        }
        closed?;
        // No row of the journal is needed, so no other port has to finish it.
        let lease = self.lease();
        let (rows, id) = (&*self.around.rows, lease.record().id());
        at_end(clock, || Ok(journal::forget(rows, &id, Level::Quorum)?))?;
        Ok(at_end(clock, || Ok(lease.end()?))?)
    }
}
