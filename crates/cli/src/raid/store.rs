//! An array that carries a store: `seiner serve --array`.

use super::control::Control;
use super::devices;
use super::monitor::RunningArray;
use crate::failure::Failure;
use anyhow::anyhow;
use seiner_platform::Disk;
use seiner_raid::{Array, ArraySettings, AssembleError, Condition, IoMethod};
use seiner_server::array::ArrayMonitor;
use seiner_server::{ArrayIo, Settings, StorageTarget};
use seiner_volume::{ArrayBlocks, OpenError, VolumeDisk};
use signal_hook::consts::SIGTERM;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// An array with the files of a store, and the thread that serves the array's control socket.
pub struct ArrayStore {
    target: Arc<ArrayTarget>,
    control: PathBuf,
    over: Arc<AtomicBool>,
    orders: JoinHandle<()>,
}

struct ArrayTarget {
    running: RunningArray,
    disk: Arc<VolumeDisk>,
}

impl ArrayStore {
    /// Starts the array of the settings, opens the files on it, and serves its control socket.
    pub fn start(settings: &Settings) -> Result<ArrayStore, Failure> {
        let control = Control::listen(&settings.array_control)?;
        let devices = devices::open_all(&settings.array)?;
        let mut running = of_settings(settings);
        // All data of a store have checksums, and files are written as this setting requires.
        running.shard.checked_above = true;
        let assembled = Array::assemble(devices, settings.array_degraded, running);
        let array = Arc::new(assembled.map_err(rejection)?);
        let name = array.uuid().map_or([0; 16], |uuid| uuid.0);
        let opened = VolumeDisk::open(Arc::new(ArrayBlocks::new(array.clone())), name);
        let disk = match opened {
            Ok(disk) => Arc::new(disk),
            Err(error) => {
                // Nothing was written to the array, so a stop suffices.
                let _ = array.stop();
                return Err(unusable(error));
            }
        };
        let over = Arc::new(AtomicBool::new(false));
        let orders = {
            let (array, over) = (array.clone(), over.clone());
            let take = move || {
                control.serve(&array, &[], || over.load(Ordering::SeqCst));
                if !over.load(Ordering::SeqCst) {
                    // `seiner raid stop` ends the server in the same way as a signal.
                    let _ = signal_hook::low_level::raise(SIGTERM);
                }
                // The socket stays until the array has stopped, so that the client can wait for the stop.
                while !over.load(Ordering::SeqCst) {
                    std::thread::park();
                }
            };
            std::thread::Builder::new()
                .name("control".to_string())
                .spawn(take)?
        };
        Ok(ArrayStore {
            target: Arc::new(ArrayTarget {
                running: RunningArray {
                    array,
                    exports: Vec::new(),
                },
                disk,
            }),
            control: settings.array_control.clone(),
            over,
            orders,
        })
    }

    /// Returns the storage target for the server's store.
    pub fn target(&self) -> Arc<dyn StorageTarget> {
        self.target.clone()
    }

    /// Flushes everything and records that the array is clean.
    pub fn stop(self) -> Result<(), Failure> {
        let stopped = self.target.running.array.stop();
        self.over.store(true, Ordering::SeqCst);
        self.orders.thread().unpark();
        // The thread may be blocked in `accept`.
        let _ = UnixStream::connect(&self.control);
        // A panic of the thread has already been printed to standard error.
        let _ = self.orders.join();
        Ok(stopped.map_err(|failure| anyhow!("the last flush of the array failed: {failure}"))?)
    }
}

fn of_settings(settings: &Settings) -> ArraySettings {
    ArraySettings {
        method: match settings.array_io {
            ArrayIo::Auto => IoMethod::Automatic,
            ArrayIo::Ring => IoMethod::Ring,
            ArrayIo::Threads => IoMethod::Threads,
        },
        patience: settings.array_patience,
        background_rate: settings.array_background_rate,
        ..ArraySettings::default()
    }
}

fn rejection(error: AssembleError) -> Failure {
    match error {
        AssembleError::System { .. } | AssembleError::Start(_) => Failure::Failed(error.into()),
        error => {
            let text = error
                .to_string()
                .replace("--degraded", "--array-degraded true");
            Failure::Usage(format!("array: {text}"))
        }
    }
}

fn unusable(error: OpenError) -> Failure {
    match error {
        OpenError::Io(error) => Failure::Failed(anyhow!("array: {error}")),
        OpenError::Damage { .. } => Failure::Failed(anyhow!("array: {error}")),
        OpenError::Foreign => Failure::Usage(format!(
            "array: {error}: `seiner raid clear --yes` with its members"
        )),
        error => Failure::Usage(format!("array: {error}")),
    }
}

impl StorageTarget for ArrayTarget {
    fn name(&self) -> String {
        let uuid = self.running.array.uuid();
        uuid.map_or_else(|| "an array".to_string(), |uuid| format!("array {uuid}"))
    }

    fn disk(&self) -> Arc<dyn Disk> {
        self.disk.clone()
    }

    fn capacity(&self) -> u64 {
        self.disk.capacity()
    }

    fn array(&self) -> Option<&dyn ArrayMonitor> {
        Some(&self.running)
    }

    fn warnings(&self) -> Vec<String> {
        let Some(status) = self.running.array.status() else {
            return Vec::new();
        };
        let mut warnings = Vec::new();
        match status.condition {
            Condition::Whole => {}
            Condition::Degraded(missing) => warnings.push(format!(
                "{missing} members of the array are lost or being rebuilt: `seiner raid status` names them, and `seiner raid \
                 replace` replaces them by new devices"
            )),
            Condition::Broken => warnings.push(
                "more members of the array are lost than its level permits: reconnect them and start again".to_string(),
            ),
        }
        if status.doubtful_stripes > 0 {
            warnings.push(format!(
                "{} stripes of the array lost data in a power cut while members were missing, and their data are damaged; \
                 `seiner raid status` has details",
                status.doubtful_stripes
            ));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn array_settings_follow_the_settings_of_the_store() {
        let mut settings = Settings::default();
        let running = of_settings(&settings);
        let defaults = ArraySettings::default();
        assert_eq!(running, defaults);
        settings.array_io = ArrayIo::Threads;
        settings.array_patience = Duration::from_secs(7);
        settings.array_background_rate = 1 << 20;
        let running = of_settings(&settings);
        assert_eq!(
            (running.method, running.patience, running.background_rate),
            (IoMethod::Threads, Duration::from_secs(7), 1 << 20)
        );
    }
}
