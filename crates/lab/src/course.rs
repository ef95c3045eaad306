//! Lines of progress for output that is not a terminal: a log, a pipe, another program.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Pause between two lines.
pub const EVERY: Duration = Duration::from_secs(10);

/// Current activity.
#[derive(Clone, Debug)]
struct Doing {
    what: String,
    since: Instant,
}

/// Thread that writes a line at regular times. Dropping the course ends the thread.
#[derive(Debug)]
pub struct Course {
    doing: Arc<Mutex<Doing>>,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Course {
    /// Starts the thread. `seconds`: expected duration of the run, s. `write`: receives the lines.
    pub fn begin(seconds: f64, every: Duration, write: impl Fn(&str) + Send + 'static) -> Course {
        let started = Instant::now();
        let doing = Arc::new(Mutex::new(Doing {
            what: "preparing".to_string(),
            since: started,
        }));
        let (end, ended) = channel();
        let seen = doing.clone();
        let thread = std::thread::spawn(move || {
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let Ok(doing) = seen.lock().map(|doing| doing.clone()) else {
                    break;
                };
                write(&format!(
                    "  {}: {:.0} s; {:.0} s so far, about {seconds:.0} s were estimated",
                    doing.what,
                    doing.since.elapsed().as_secs_f64(),
                    started.elapsed().as_secs_f64(),
                ));
            }
        });
        Course {
            doing,
            end: Some(end),
            thread: Some(thread),
        }
    }

    /// Sets the current activity.
    pub fn say(&self, what: &str) {
        if let Ok(mut doing) = self.doing.lock() {
            *doing = Doing {
                what: what.to_string(),
                since: Instant::now(),
            };
        }
    }
}

impl Drop for Course {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A line that cannot be written is no loss.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a tour wrote no line for nine of its ten minutes.
    #[test]
    fn lines_come_as_long_as_it_lasts() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = lines.clone();
        let write = move |line: &str| kept.lock().unwrap().push(line.to_string());
        let course = Course::begin(30.0, Duration::from_millis(5), write);
        course.say("files F=1000");
        let end = Instant::now() + Duration::from_secs(10);
        while lines.lock().unwrap().len() < 3 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(course);
        let lines = lines.lock().unwrap();
        assert!(lines.len() >= 3);
        let last = lines.last().unwrap();
        assert!(
            last.contains("files F=1000") && last.contains("about 30 s"),
            "{last}"
        );
    }
}
