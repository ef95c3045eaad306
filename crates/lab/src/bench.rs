//! Services for a running experiment: registry, interrupt and progress.

use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::progress::{self, ProgressLog};
use crate::registry::Registry;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::sync::Arc;
use std::time::Duration;

/// Ticks of the progress bar per estimated second.
const TICKS: f64 = 10.0;

/// Services for a running experiment.
pub struct Bench {
    /// Record of created resources.
    pub registry: Arc<Registry>,
    /// Flag that the user sets to stop the run.
    pub interrupt: Interrupt,
    bar: ProgressBar,
    /// Lines of progress, which replace the bar if there is no terminal.
    progress_log: Option<ProgressLog>,
}

impl Bench {
    /// Returns a bench without a progress bar.
    pub fn silent(registry: Arc<Registry>, interrupt: Interrupt) -> Bench {
        Bench {
            registry,
            interrupt,
            bar: ProgressBar::hidden(),
            progress_log: None,
        }
    }

    /// Returns a bench that shows progress: a bar on a terminal, otherwise lines. `estimate_s` is the
    /// expected duration of the run, s.
    pub fn visible(registry: Arc<Registry>, interrupt: Interrupt, estimate_s: f64) -> Bench {
        Bench {
            registry,
            interrupt,
            bar: bar(estimate_s),
            progress_log: progress_log(estimate_s),
        }
    }

    /// Starts to measure the remaining time.
    pub fn begin(&self) {
        self.bar.reset_eta();
    }

    /// Moves the progress bar to a position: `estimate_s` is the estimated duration of the cells so far, s.
    pub fn advance(&self, estimate_s: f64) {
        self.bar.set_position((estimate_s * TICKS) as u64);
    }

    /// Removes the progress bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Shows the current activity in the progress bar.
    pub fn say(&self, what: impl Into<String>) {
        let what = what.into();
        if let Some(progress_log) = &self.progress_log {
            progress_log.say(&what);
        }
        self.bar.set_message(what);
    }

    /// Prints a line that stays visible after the progress bar is gone.
    pub fn print(&self, what: &str) {
        if self.bar.is_hidden() {
            eprintln!("{what}");
        } else {
            self.bar.println(what);
        }
    }

    /// Sleeps for a duration, or until the user stops the run.
    ///
    /// # Errors
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn sleep(&self, how_long: Duration) -> Result<()> {
        let end = crate::time::now() + how_long;
        loop {
            self.interrupt.check()?;
            let left = end.saturating_duration_since(crate::time::now());
            if left.is_zero() {
                return Ok(());
            }
            crate::time::sleep(left.min(Duration::from_millis(100)));
        }
    }
}

/// Begins lines of progress, if standard error is not a terminal.
fn progress_log(seconds: f64) -> Option<ProgressLog> {
    let write = |line: &str| eprintln!("{line}");
    (!stderr().is_terminal()).then(|| ProgressLog::begin(seconds, progress::EVERY, write))
}

fn bar(seconds: f64) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new((seconds * TICKS) as u64);
    let style = ProgressStyle::with_template("{bar:30} {percent}% {eta} left  {wide_msg}")
        .expect("the template is a constant");
    bar.set_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
