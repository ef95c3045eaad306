//! `seiner write`: line protocol from files.

use crate::failure::Failure;
use crate::remote::Remote;
use crate::source::{self, Source};
use crate::target::{Open, Target};
use anyhow::Context;
use clap::Args;
use seiner_engine::Engine;
use seiner_model::Batch;
use seiner_server::ingest::Intake;
use seiner_wire::line::{Arena, LineParser, Precision};
use std::io::Read;
use std::path::PathBuf;

/// Bytes of a request: large enough that what a request costs does not count, small enough to
/// be sent again when the server is too busy.
const REQUEST_BYTES: usize = 4 << 20;

/// Bytes read at once.
const READ_BYTES: usize = 256 << 10;

/// Write line protocol to a server or into a directory.
///
/// Lines such as `cpu,host=a usage=12.5 1700000000000000000`. Lines that are refused are reported
/// with file, line and reason, and the others are stored; the exit status is then 1.
#[derive(Args)]
pub struct Write {
    #[command(flatten)]
    target: Target,
    /// The unit of the times: ns, us, ms, s, m or h.
    #[arg(long, default_value = "ns")]
    precision: Precision,
    /// The files, packed by gzip or not; without any, or for `-`, standard input.
    files: Vec<PathBuf>,
}

impl Write {
    /// Writes all files.
    pub fn run(self) -> Result<(), Failure> {
        let target = self.target.open()?;
        let mut rejected = 0;
        for path in source::or_standard_input(self.files) {
            let mut source = source::open(&path)?;
            rejected += match &target {
                Open::Store(engine) => into_store(engine, &mut source, self.precision)?,
                Open::Server(remote) => to_server(remote, &mut source, self.precision)?,
            };
            source.bar.finish_and_clear();
        }
        if let Open::Store(engine) = &target {
            engine.close()?;
        }
        if rejected > 0 {
            eprintln!("seiner: {rejected} lines were refused, the rest is stored");
            return Err(Failure::Refused);
        }
        Ok(())
    }
}

/// Answers how many lines were refused.
fn into_store(engine: &Engine, source: &mut Source, precision: Precision) -> Result<u64, Failure> {
    let mut intake = Intake::new(engine, None, precision);
    let mut bytes = vec![0; READ_BYTES];
    loop {
        let read = source
            .reader
            .read(&mut bytes)
            .with_context(|| format!("{} cannot be read", source.name))?;
        if read == 0 {
            break;
        }
        intake.take(&bytes[..read])?;
    }
    let outcome = intake.finish()?;
    for refused in &outcome.refused {
        source
            .bar
            .suspend(|| eprintln!("{}:{}: {}", source.name, refused.line, refused.reason));
    }
    tell_more(source, outcome.rejected, outcome.refused.len());
    Ok(outcome.rejected)
}

/// Answers how many lines were refused.
fn to_server(remote: &Remote, source: &mut Source, precision: Precision) -> Result<u64, Failure> {
    let mut lines = Vec::new();
    let (mut rejected, mut listed, mut lines_before) = (0, 0, 0);
    loop {
        let wanted = (REQUEST_BYTES.saturating_sub(lines.len()).max(READ_BYTES)) as u64;
        let read = source.reader.by_ref().take(wanted).read_to_end(&mut lines);
        let last = read.with_context(|| format!("{} cannot be read", source.name))? == 0;
        let end = if last {
            lines.len()
        } else {
            whole_lines(&lines)
        };
        if end > 0 {
            let written = remote.write(&lines[..end], precision)?;
            for refused in &written.refused {
                let line = lines_before + refused.line;
                source
                    .bar
                    .suspend(|| eprintln!("{}:{line}: {}", source.name, refused.reason));
            }
            (rejected, listed) = (rejected + written.rejected, listed + written.refused.len());
            lines_before += lines[..end].iter().filter(|byte| **byte == b'\n').count() as u64;
            lines.drain(..end);
        }
        if last {
            tell_more(source, rejected, listed);
            return Ok(rejected);
        }
    }
}

fn tell_more(source: &Source, rejected: u64, listed: usize) {
    let more = rejected - (listed as u64).min(rejected);
    if more > 0 {
        source
            .bar
            .suspend(|| eprintln!("{}: and {more} more", source.name));
    }
}

/// Where the last whole line ends. Texts may hold newlines, so only the parser knows.
fn whole_lines(lines: &[u8]) -> usize {
    let (arena, mut batch, mut errors) = (Arena::new(), Batch::new(), Vec::new());
    LineParser::new(Precision::Ns).parse(
        lines,
        false,
        0,
        usize::MAX,
        &arena,
        &mut batch,
        &mut errors,
    )
}

#[cfg(test)]
mod tests {
    use super::whole_lines;

    #[test]
    fn a_text_is_not_cut_at_its_newline() {
        assert_eq!(whole_lines(b"a x=1\nb y=\"one\ntwo"), 6);
        assert_eq!(whole_lines(b"a x=1\nb y=2"), 6);
    }
}
