//! The host's own sensors: a new user sees real curves within seconds.
//!
//! All sensors are read together, once a period, and stored as one batch. Times are whole
//! multiples of the period: the readings follow within milliseconds, and regular times cost
//! almost no space. A sensor that cannot be read is left out, never estimated.
//!
//! Measurements have the prefix `host_`. Agents such as Telegraf write `cpu` and `mem` of the same host
//! with types of their own, and a field keeps its first type.

mod cpu;
mod disk;
mod memory;
mod network;
mod store;
mod temperature;

use seiner_model::{Batch, Cell, KeyError, Notation, SourceKey, Value};
use seiner_store::{Error, Store};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Interval of log messages about readings that are not stored.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// Names of readings: measurement, tag, value, tag, value, each ended by a NUL, which no
/// name can hold.
struct HostNotation;

impl Notation for HostNotation {
    fn id(&self) -> u32 {
        16
    }

    fn source_key(&self, name: &[u8]) -> Result<SourceKey, KeyError> {
        let text = String::from_utf8_lossy(name);
        let mut names = text.split_terminator('\0');
        let measurement = names.next().unwrap_or_default();
        let mut tags = Vec::new();
        while let (Some(tag), Some(value)) = (names.next(), names.next()) {
            tags.push((tag, value));
        }
        SourceKey::new(measurement, tags)
    }
}

/// Readings of one moment.
struct Readings {
    host: String,
    sources: Vec<(String, Vec<(&'static str, Value<'static>)>)>,
}

impl Readings {
    /// Adds the fields of one source, which gets the tag `host` as well.
    fn add(
        &mut self,
        measurement: &str,
        tags: &[(&str, &str)],
        fields: Vec<(&'static str, Value<'static>)>,
    ) {
        if fields.is_empty() {
            return;
        }
        let mut name = format!("{measurement}\0");
        for (tag, value) in tags.iter().chain([&("host", self.host.as_str())]) {
            name.push_str(&format!("{tag}\0{}\0", value.replace('\0', "")));
        }
        self.sources.push((name, fields));
    }

    fn batch(&self, time: i64) -> Batch<'_> {
        let mut batch = Batch::new();
        for (name, fields) in &self.sources {
            let cells = fields.iter().map(|(field, value)| Cell {
                field: field.as_bytes(),
                value: *value,
            });
            batch.push(name.as_bytes(), time, cells);
        }
        batch
    }
}

/// Rounds a percentage or another small figure to two decimals. More would be noise, and costs bytes.
fn rounded(value: f64) -> Value<'static> {
    Value::F64((value * 100.0).round() / 100.0)
}

/// Returns the growth of a counter per second as a whole number. A counter that was reset counts from zero.
fn rate(now: u64, before: u64, seconds: f64) -> Value<'static> {
    Value::U64((now.checked_sub(before).unwrap_or(now) as f64 / seconds).round() as u64)
}

/// All sensors, with the previous values for rates.
struct Sensors {
    cpu: cpu::Cpu,
    disks: disk::Disks,
    network: network::Network,
    temperatures: temperature::Temperatures,
    store: store::Store,
    host: String,
    data: PathBuf,
    read: Instant,
}

impl Sensors {
    fn new(data: PathBuf) -> Sensors {
        Sensors {
            cpu: cpu::Cpu::default(),
            disks: disk::Disks::default(),
            network: network::Network::default(),
            temperatures: temperature::Temperatures::find(),
            store: store::Store::default(),
            host: host_name(),
            data,
            read: crate::time::now(),
        }
    }

    fn read(&mut self, store: &dyn Store) -> Readings {
        let seconds = self.read.elapsed().as_secs_f64().max(1e-3);
        self.read = crate::time::now();
        let mut readings = Readings {
            host: self.host.clone(),
            sources: Vec::new(),
        };
        self.cpu.read(&mut readings);
        memory::read(&mut readings);
        self.disks.read(seconds, &mut readings);
        disk::read_file_system(&self.data, &mut readings);
        self.network.read(seconds, &mut readings);
        self.temperatures.read(&mut readings);
        self.store.read(store, seconds, &mut readings);
        readings
    }
}

/// Returns the name of the host.
pub(crate) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "localhost".to_string(),
        name => name.to_string(),
    }
}

/// Thread that reads the sensors.
pub struct Host {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Host {
    /// Starts to read the host's sensors every `period` into the store. `data` is the directory whose
    /// file system is measured.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(store: Arc<dyn Store>, period: Duration, data: PathBuf) -> std::io::Result<Host> {
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("host-sensors".into())
            .spawn(move || {
                let mut sensors = Sensors::new(data);
                // Rates need an initial reading.
                let _ = sensors.read(&*store);
                let mut rejected = None;
                loop {
                    let (time, wait) = next_multiple(period);
                    match stopped.recv_timeout(wait) {
                        Err(RecvTimeoutError::Timeout) => {}
                        _ => return,
                    }
                    match store.append(&HostNotation, &sensors.read(&*store).batch(time)) {
                        Ok(_) => rejected = None,
                        Err(Error::Closed) => return,
                        Err(error) => {
                            // A full store rejects rows every second; one line a minute is enough.
                            if rejected.is_none_or(|at: Instant| at.elapsed() >= REPORT_EVERY) {
                                rejected = Some(crate::time::now());
                                tracing::warn!("the host's sensors were not stored: {error}");
                            }
                        }
                    }
                }
            })?;
        Ok(Host { stop, thread })
    }

    /// Ends the thread and waits for it.
    pub fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("the thread that reads the host's sensors panicked");
        }
    }
}

/// Returns the next whole multiple of the period in ns since 1970, and the time until then.
fn next_multiple(period: Duration) -> (i64, Duration) {
    let now = crate::time::wall()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos() as i64;
    let period = period.as_nanos().max(1) as i64;
    let next = (now / period + 1) * period;
    (next, Duration::from_nanos((next - now) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_readings_are_parsed_as_their_keys() {
        let mut readings = Readings {
            host: "a b".into(),
            sources: Vec::new(),
        };
        readings.add(
            "disk",
            &[("device", "sd=a,")],
            vec![("busy", Value::F64(1.0))],
        );
        readings.add("none", &[], Vec::new());
        let batch = readings.batch(7);
        assert_eq!(batch.rows.len(), 1);
        let key = HostNotation.source_key(batch.rows[0].name).unwrap();
        assert_eq!(
            key,
            SourceKey::new("disk", [("device", "sd=a,"), ("host", "a b")]).unwrap()
        );
    }

    #[test]
    fn counters_that_were_set_back_count_from_zero() {
        assert_eq!(rate(30, 10, 2.0), Value::U64(10));
        assert_eq!(rate(10, 30, 2.0), Value::U64(5));
    }

    #[test]
    fn this_host_has_sensors() {
        let mut readings = Readings {
            host: "h".into(),
            sources: Vec::new(),
        };
        let mut cpu = cpu::Cpu::default();
        cpu.read(&mut readings);
        std::thread::sleep(Duration::from_millis(30));
        cpu.read(&mut readings);
        memory::read(&mut readings);
        let has = |measurement: &str| {
            readings
                .sources
                .iter()
                .any(|(name, _)| name.starts_with(measurement))
        };
        assert!(has("host_cpu\0core\0all\0") && has("host_mem\0") && has("host_load\0"));
    }

    #[test]
    fn periods_are_whole_multiples() {
        let (next, wait) = next_multiple(Duration::from_secs(1));
        assert_eq!(next % 1_000_000_000, 0);
        assert!(wait <= Duration::from_secs(1));
    }
}
