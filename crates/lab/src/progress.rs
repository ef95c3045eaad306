//! Lines of progress for output that is not a terminal: a log, a pipe, another program.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Pause between two lines.
pub const EVERY: Duration = Duration::from_secs(10);

/// Current activity.
#[derive(Clone, Debug)]
struct Activity {
    what: String,
    since: Instant,
}

/// Thread that writes a line at regular times. Dropping the log ends the thread.
#[derive(Debug)]
pub struct ProgressLog {
    activity: Arc<Mutex<Activity>>,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ProgressLog {
    /// Starts the thread. `seconds`: expected duration of the run, s. `write`: receives the lines.
    pub fn begin(
        seconds: f64,
        every: Duration,
        write: impl Fn(&str) + Send + 'static,
    ) -> ProgressLog {
        let started = crate::time::now();
        let activity = Arc::new(Mutex::new(Activity {
            what: "preparing".to_string(),
            since: started,
        }));
        let (end, ended) = channel();
        let seen = activity.clone();
        let thread = std::thread::spawn(move || {
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let Ok(activity) = seen.lock().map(|activity| activity.clone()) else {
                    break;
                };
                write(&format!(
                    "  {}: {:.0} s; {:.0} s so far, about {seconds:.0} s were estimated",
                    activity.what,
                    activity.since.elapsed().as_secs_f64(),
                    started.elapsed().as_secs_f64(),
                ));
            }
        });
        ProgressLog {
            activity,
            end: Some(end),
            thread: Some(thread),
        }
    }

    /// Sets the current activity.
    pub fn say(&self, what: &str) {
        if let Ok(mut activity) = self.activity.lock() {
            *activity = Activity {
                what: what.to_string(),
                since: crate::time::now(),
            };
        }
    }
}

impl Drop for ProgressLog {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread only loses lines of progress.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a tour wrote no line for nine of its ten minutes.
    #[test]
    fn progress_lines_continue_during_a_long_measurement() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = lines.clone();
        let write = move |line: &str| kept.lock().unwrap().push(line.to_string());
        let log = ProgressLog::begin(30.0, Duration::from_millis(5), write);
        log.say("files F=1000");
        let end = crate::time::now() + Duration::from_secs(10);
        while lines.lock().unwrap().len() < 3 && crate::time::now() < end {
            crate::time::sleep(Duration::from_millis(5));
        }
        drop(log);
        let lines = lines.lock().unwrap();
        assert!(lines.len() >= 3);
        let last = lines.last().unwrap();
        assert!(
            last.contains("files F=1000") && last.contains("about 30 s"),
            "{last}"
        );
    }
}
