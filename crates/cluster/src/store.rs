//! Store of a cluster: what its users see.

mod unflushed;

use self::unflushed::{Elsewhere, rows_of};
use crate::blocks::{Blocks, ClassTables};
use crate::counts::PortCounts;
use crate::deletes::{self, Delete};
use crate::lease;
use crate::locks::locked;
use crate::names::Names;
use crate::patience::at_start;
use crate::peers::{PortRows, Unflushed};
use crate::port::Port;
use crate::ports::{self, PortInfo};
use crate::scan::{ClusterScan, Inputs, OwnRows, Wanted};
use crate::settings::{PortOptions, Surroundings};
use seiner_model::{Batch, Columns, FieldType, Interval, Notation, Selector, SourceId, SourceKey};
use seiner_store::{
    Class, Cut, Durability, Error, IsOver, Keep, Piece, Query, Reason, Receipt, Results, Status,
    Store,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// First number of sources that the local engine does not know.
const REMOTE: u32 = 1 << 31;
/// Pause between runs of maintenance.
const PAUSE: Duration = Duration::from_millis(250);

/// Store of samples on a distributed store, as seen through one port.
///
/// New samples go to a local engine, whose journal is replicated. Handovers move them into the distributed store as
/// bundles. Reads return the samples of all ports.
pub struct ClusterStore {
    pub(crate) port: Arc<Port>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl ClusterStore {
    /// Opens a port of a cluster, with threads for its maintenance. Hands over the rows that an earlier start has left
    /// in the local directory.
    ///
    /// # Errors
    /// If too few replicas answer, the settings are invalid or contradict the stored ones, or the local store cannot
    /// be opened.
    pub fn start(options: PortOptions, around: Surroundings) -> Result<Arc<ClusterStore>, Error> {
        let (port, earlier, opening) = Port::open(options, around, true)?;
        opening.end();
        let store = ClusterStore {
            port: Arc::new(port),
            threads: Mutex::default(),
        };
        // Other work may take longer than a lease.
        let begun = store
            .begin("seiner-lease", Port::keep_leases)
            .and_then(|()| store.port.finish_earlier(earlier))
            .and_then(|()| store.begin("seiner-port", Port::maintain));
        if let Err(error) = begun {
            store.port.is_closed.store(true, Ordering::SeqCst);
            store.join();
            return Err(error);
        }
        Ok(Arc::new(store))
    }

    /// Begins a thread that repeats some work until the port is closed.
    fn begin(&self, name: &str, work: fn(&Port)) -> Result<(), Error> {
        let port = self.port.clone();
        let run = move || {
            while !port.is_closed.load(Ordering::SeqCst) {
                work(&port);
                port.around.clock.sleep(PAUSE);
            }
        };
        let thread = std::thread::Builder::new().name(name.to_string());
        let thread = thread.spawn(run).map_err(|error| Error::Io {
            context: "starting a thread of the port".to_string(),
            error,
        })?;
        locked(&self.threads).push(thread);
        Ok(())
    }

    /// Waits for the ends of the threads, after their present runs.
    fn join(&self) {
        for thread in locked(&self.threads).drain(..) {
            let _ = thread.join();
        }
    }

    /// Opens a port without threads. The caller calls [`ClusterStore::maintain`].
    ///
    /// # Errors
    /// As [`ClusterStore::start`].
    pub fn open(options: PortOptions, around: Surroundings) -> Result<ClusterStore, Error> {
        let (port, earlier, opening) = Port::open(options, around, false)?;
        port.finish_earlier(earlier)?;
        opening.end();
        Ok(ClusterStore {
            port: Arc::new(port),
            threads: Mutex::default(),
        })
    }

    /// Performs one run of maintenance: prolongs leases, finishes the journals of failed ports, and hands over rows if
    /// that is due.
    pub fn maintain(&self) {
        self.port.maintain();
        // An engine without threads works here.
        while self.port.engine.step().is_ok_and(|more| more) {}
    }

    /// Prolongs the leases that this port holds, if a beat is due. Other maintenance may take longer than a lease, so
    /// call this function from a thread of its own, about once a second.
    pub fn keep_leases(&self) {
        self.port.keep_leases();
    }

    /// Hands over all rows accepted so far to the distributed store.
    ///
    /// # Errors
    /// If too few replicas answer, or the local disk fails. The rows stay in the port then.
    pub fn hand_over(&self) -> Result<(), Error> {
        self.port.hand_over(None)?;
        Ok(())
    }

    /// Returns counts since the port was opened.
    pub fn counts(&self) -> PortCounts {
        self.port.counts()
    }

    /// Returns the reason why acknowledgements or handovers wait at present, if they do.
    pub fn trouble(&self) -> Option<String> {
        self.port.trouble()
    }

    /// Returns this port as it publishes itself.
    pub fn info(&self) -> PortInfo {
        self.port.info()
    }

    /// Returns the ports of the cluster, by name.
    ///
    /// # Errors
    /// If no replica answers.
    pub fn ports(&self) -> Result<Vec<PortInfo>, Error> {
        Ok(ports::list(&*self.port.around.rows)?)
    }

    /// Returns the address of the port to which a client should move that sends so many rows per second to this one.
    /// `None` if the client should stay.
    pub fn better_port(&self, rows_per_second: f64) -> Option<String> {
        self.port.publication.better_port(rows_per_second)
    }

    /// Returns the addresses of the other ports that can receive more rows, the least loaded one first.
    pub fn able_ports(&self) -> Vec<String> {
        self.port.publication.able_ports()
    }

    /// Returns the retention classes of the cluster, as a single server has them.
    pub fn retention(&self) -> Vec<Class> {
        let classes = self.port.classes.all().iter().map(|class| Class {
            name: class.name.clone(),
            sources: class.selector_text(),
            keep: Keep {
                age: class.age,
                ..Keep::default()
            },
            copies: class.copies(),
            ..Class::forever()
        });
        classes.collect()
    }

    /// Returns the secret that the ports of the cluster show to each other. The first port stores its proposal.
    ///
    /// # Errors
    /// If too few replicas answer.
    pub fn secret(&self, proposal: &str) -> Result<String, Error> {
        let Surroundings { rows, clock, .. } = &self.port.around;
        Ok(at_start(&**clock, || ports::secret(&**rows, proposal))?)
    }

    /// Returns the rows of a query that this port has accepted and not handed over, for another port.
    ///
    /// # Errors
    /// If the local disk fails.
    pub fn unflushed(&self, query: &Query) -> Result<PortRows, Error> {
        let mut found = self.elsewhere().taken_over_rows(query)?;
        found
            .rows
            .extend(rows_of(&self.port.engine, query, u64::MAX)?);
        Ok(found)
    }

    /// Applies the deletes that are stored, for another port that has stored one.
    ///
    /// # Errors
    /// If too few replicas answer, or the local disk fails.
    pub fn apply_deletes(&self) -> Result<(), Error> {
        Ok(self.port.apply_deletes()?)
    }

    fn elsewhere(&self) -> Elsewhere<'_> {
        Elsewhere { port: &self.port }
    }

    /// Reads the names and grids that other ports have added.
    fn refresh_names_and_grids(&self) -> Result<(), Error> {
        let (rows, port) = (&*self.port.around.rows, &self.port);
        let mut found = rows
            .read_all(vec![Names::reading(), port.grids.reading()])?
            .into_iter();
        port.names.refresh_to(found.next().unwrap_or_default())?;
        let grid = found.next().unwrap_or_default();
        port.grids.refresh_by(rows, grid)?;
        Ok(())
    }

    /// Returns the sources of a selector, ascending: those of the engine, and those of the distributed store.
    fn wanted(&self, selector: &Selector, also: &[Unflushed]) -> Result<Vec<Wanted>, Error> {
        let engine = &self.port.engine;
        let mut local: HashMap<SourceKey, SourceId> = HashMap::new();
        for id in engine.sources(selector)? {
            local.extend(engine.source_key(id)?.map(|key| (key, id)));
        }
        let mut found: BTreeMap<SourceId, Wanted> = BTreeMap::new();
        for (position, named) in self.port.names.select(selector) {
            let own = local.remove(&*named.key);
            let id = own.unwrap_or(SourceId(REMOTE + position as u32));
            found.insert(
                id,
                Wanted {
                    id,
                    key: named.key.clone(),
                    local: own,
                },
            );
        }
        for (key, id) in local {
            found.insert(
                id,
                Wanted {
                    id,
                    key: Arc::new(key),
                    local: Some(id),
                },
            );
        }
        let known: BTreeSet<Arc<SourceKey>> =
            found.values().map(|wanted| wanted.key.clone()).collect();
        let strangers: BTreeSet<&Arc<SourceKey>> = also.iter().map(|rows| &rows.key).collect();
        for key in strangers.into_iter().filter(|key| !known.contains(*key)) {
            // No handover has given the source a number yet.
            let id = SourceId(self.port.numbers.of(key));
            found.insert(
                id,
                Wanted {
                    id,
                    key: key.clone(),
                    local: None,
                },
            );
        }
        Ok(found.into_values().collect())
    }

    /// Returns the tables of all classes.
    pub(crate) fn tables(&self) -> Vec<ClassTables> {
        let classes = self.port.classes.all().iter();
        classes.flat_map(ClassTables::both).collect()
    }

    fn refresh(&self) -> Result<(), Error> {
        Ok(self.port.names.refresh()?)
    }
}

impl Drop for ClusterStore {
    /// Ends the maintenance. Rows that are not handed over stay in the journal: call [`Store::close`] before.
    fn drop(&mut self) {
        self.port.is_closed.store(true, Ordering::SeqCst);
        if let Some(mirror) = &self.port.mirror {
            mirror.close();
        }
    }
}

impl Store for ClusterStore {
    fn append(&self, notation: &dyn Notation, batch: &Batch<'_>) -> Result<Receipt, Error> {
        self.port.engine.append(notation, batch)
    }

    fn register(&self, key: &SourceKey) -> Result<SourceId, Error> {
        self.port.engine.register(key)
    }

    fn register_all(&self, keys: &[&SourceKey]) -> Result<Vec<Result<SourceId, Reason>>, Error> {
        self.port.engine.register_all(keys)
    }

    fn append_columns(
        &self,
        source: SourceId,
        fields: &[&str],
        columns: &Columns,
    ) -> Result<Receipt, Error> {
        let source = match source.0 < REMOTE {
            true => source,
            // The first rows of the source at this port.
            false => match self.source_key(source)? {
                Some(key) => self.port.engine.register(&key)?,
                None => return Err(Error::UnknownSource(source.0)),
            },
        };
        self.port.engine.append_columns(source, fields, columns)
    }

    fn durability(&self) -> Durability {
        self.port.engine.durability()
    }

    fn is_durable(&self, position: u64) -> bool {
        self.port.engine.is_durable(position)
    }

    fn wait_durable(&self, position: u64) -> Result<(), Error> {
        self.port.engine.wait_durable(position)
    }

    fn delete(&self, selector: &Selector, interval: Interval) -> Result<u64, Error> {
        self.refresh()?;
        let port = &self.port;
        let delete = Delete {
            id: (port.stamps.next(), port.options.name.clone()),
            selector: selector.clone(),
            interval,
            marks: BTreeMap::new(),
        };
        let rows = &*port.around.rows;
        deletes::write(rows, &delete)?;
        port.apply_deletes()?;
        let records = lease::records(rows)?;
        let owners: BTreeSet<String> = records.into_iter().map(|record| record.owner).collect();
        for owner in owners.iter().filter(|owner| **owner != port.options.name) {
            // A port that does not answer applies the delete later. All its rows are hidden until then.
            if let Err(error) = port.around.peers.apply_deletes(owner) {
                tracing::info!("a delete hides later rows of a port for some time: {error}");
            }
        }
        Ok(self.wanted(selector, &[])?.len() as u64)
    }

    fn measurements(&self) -> Result<Vec<String>, Error> {
        self.refresh()?;
        let mut found: BTreeSet<String> = self.port.engine.measurements()?.into_iter().collect();
        let named = self.port.names.select(&Selector::all());
        found.extend(
            named
                .iter()
                .map(|(_, named)| named.key.measurement().to_string()),
        );
        Ok(found.into_iter().collect())
    }

    fn tag_names(&self, selector: &Selector) -> Result<Vec<String>, Error> {
        self.refresh()?;
        let mut found: BTreeSet<String> =
            self.port.engine.tag_names(selector)?.into_iter().collect();
        for (_, named) in self.port.names.select(selector) {
            found.extend(named.key.tags().map(|(name, _)| name.to_string()));
        }
        Ok(found.into_iter().collect())
    }

    fn tag_values(
        &self,
        selector: &Selector,
        tag: &str,
        limit: usize,
    ) -> Result<Vec<String>, Error> {
        self.refresh()?;
        let own = self.port.engine.tag_values(selector, tag, limit)?;
        let mut found: BTreeSet<String> = own.into_iter().collect();
        for (_, named) in self.port.names.select(selector) {
            let value = named.key.tag(tag);
            found.extend((!value.is_empty()).then(|| value.to_string()));
        }
        Ok(found.into_iter().take(limit).collect())
    }

    fn fields(&self, selector: &Selector) -> Result<Vec<(String, FieldType)>, Error> {
        self.refresh()?;
        let own = self.port.engine.fields(selector)?;
        let mut found: BTreeSet<(String, FieldType)> = own.into_iter().collect();
        for (_, named) in self.port.names.select(selector) {
            let fields = named.fields.into_iter();
            found.extend(fields.map(|(name, field_type)| (name.to_string(), field_type)));
        }
        Ok(found.into_iter().collect())
    }

    fn sources(&self, selector: &Selector) -> Result<Vec<SourceId>, Error> {
        self.refresh()?;
        let wanted = self.wanted(selector, &[])?.into_iter();
        Ok(wanted.map(|wanted| wanted.id).collect())
    }

    fn source_key(&self, source: SourceId) -> Result<Option<SourceKey>, Error> {
        Ok(match source.0.checked_sub(REMOTE) {
            None => self.port.engine.source_key(source)?,
            Some(position) => {
                let named = self.port.names.at(position as usize).map(|named| named.key);
                let found = named.or_else(|| self.port.numbers.key(source.0));
                found.map(|key| (*key).clone())
            }
        })
    }

    fn scan(&self, query: &Query, is_over: Option<IsOver>) -> Result<Results<'_, Piece>, Error> {
        if query.interval.is_empty() {
            return Ok(Box::new(std::iter::empty()));
        }
        // Rows move from ports to bundles, so the ports are asked first.
        let (deletes, others) = self.elsewhere().deletes_and_others(query)?;
        let (unflushed, notes) = (others.rows, others.notes);
        self.refresh_names_and_grids()?;
        let rows = &self.port.around.rows;
        let sources = self.wanted(&query.selector, &unflushed)?;
        let blocks = Blocks::new(
            rows.clone(),
            self.port.grids.clone(),
            self.tables(),
            query.interval,
            self.port.directories.clone(),
        );
        let now = self.port.around.clock.now();
        let classes = &self.port.classes;
        let kept_from = move |key: &SourceKey| classes.at(classes.class_of(key)).kept_from(now);
        let inputs = Inputs {
            sources,
            unflushed,
            blocks,
            deletes,
            kept_from: Box::new(kept_from),
            notes,
        };
        let own = OwnRows {
            port: &self.port.options.name,
            engine: &self.port.engine,
            names: &self.port.names,
            stored: &self.port.stored,
        };
        let scan = ClusterScan::new(query.clone(), own, inputs);
        let scan = scan.take_while(move |_| is_over.as_ref().is_none_or(|is_over| !is_over()));
        Ok(Box::new(Cut::new(scan)))
    }

    fn status(&self) -> Status {
        let status = self.port.engine.status();
        Status {
            sources: status.sources.max(self.port.names.len() as u64),
            ..status
        }
    }

    fn close(&self) -> Result<(), Error> {
        let closed = self.port.close();
        self.join();
        closed
    }
}
