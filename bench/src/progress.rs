//! A progress bar: on standard error, and only where somebody looks.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, stderr};

/// A bar over so many of something.
pub fn bar(total: u64, what: &'static str) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = "{bar:30} {pos} of {len} {msg}, {eta} left";
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    ProgressBar::new(total).with_style(style).with_message(what)
}
