//! Lines of Graphite's plaintext protocol, with tags.

use super::Body;
use super::line::lines;
use anyhow::Result;
use std::io::Write;

/// Returns one line for each value. Times are whole seconds.
pub fn body(text: &[u8]) -> Result<Body> {
    let mut bytes = Vec::with_capacity(text.len());
    for line in lines(text)? {
        let line = line?;
        for (field, _, value) in &line.fields {
            write!(bytes, "{}_{field}", line.measurement)?;
            for (name, text) in &line.tags {
                write!(bytes, ";{name}={text}")?;
            }
            writeln!(bytes, " {value} {}", line.time / 1_000_000_000)?;
        }
    }
    Ok(Body { bytes, headers: "" })
}
