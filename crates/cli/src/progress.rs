//! Progress bars on standard error, shown only on a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Read, stderr};

/// Creates a bar over `total` bytes, or a spinner if the total is unknown.
pub fn bytes(total: Option<u64>, what: &str) -> ProgressBar {
    let bar = match total {
        Some(total) => over(
            total,
            "{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta} left",
        ),
        None => drawn(
            ProgressBar::new_spinner(),
            "{msg} {spinner} {bytes} {bytes_per_sec}",
        ),
    };
    bar.with_message(what.to_string())
}

/// Creates a bar over `total` items, with a template of indicatif.
pub fn over(total: u64, template: &'static str) -> ProgressBar {
    drawn(ProgressBar::new(total), template)
}

fn drawn(bar: ProgressBar, template: &'static str) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    bar.with_style(style)
}

/// A reader that advances a progress bar.
pub struct Watched<R> {
    reader: R,
    bar: ProgressBar,
}

impl<R: Read> Watched<R> {
    /// Creates a reader that advances `bar` by the bytes read from `reader`.
    pub fn new(reader: R, bar: ProgressBar) -> Watched<R> {
        Watched { reader, bar }
    }
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let read = self.reader.read(bytes)?;
        self.bar.inc(read as u64);
        Ok(read)
    }
}
