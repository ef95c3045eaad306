//! `seiner write`: writes line protocol from files.

use crate::failure::Failure;
use crate::remote::Remote;
use crate::source::{self, Source};
use crate::target::{Open, Target};
use anyhow::Context;
use clap::Args;
use seiner_model::Batch;
use seiner_server::ingest::LineIngest;
use seiner_store::Store;
use seiner_wire::line::{Arena, LineParser, LineReason, Precision};
use std::io::{IsTerminal, Read, stderr};
use std::path::PathBuf;

/// Bytes of one request: large enough that the overhead of a request is negligible, small enough to repeat it
/// when the server is too busy.
const REQUEST_BYTES: usize = 4 << 20;

/// Bytes of one read.
const READ_BYTES: usize = 256 << 10;

/// Write line protocol to a server or into a directory.
///
/// A line is, for example, `cpu,host=a usage=12.5 1700000000000000000`. Rejected lines are reported
/// with file, line number and reason; all other lines are stored, and the exit status is 1. The
/// last line of a pipe must end with a newline, because its writer may have ended within the line.
#[derive(Args)]
pub struct Write {
    #[command(flatten)]
    target: Target,
    /// Unit of the times: ns, us, ms, s, m or h.
    #[arg(long, default_value = "ns")]
    precision: Precision,
    /// Store times in 1970 that would be between 1990 and 2100 in a coarser unit. Without this
    /// flag, such times are rejected, because the unit is probably wrong.
    #[arg(long)]
    allow_1970: bool,
    /// Files, plain or compressed by gzip. Without files, and for `-`, the command reads standard
    /// input.
    files: Vec<PathBuf>,
}

impl Write {
    /// Writes all files.
    pub fn run(self) -> Result<(), Failure> {
        let target = self.target.open()?;
        let (mut stored, mut rejected) = (0, 0);
        for path in source::or_standard_input(self.files) {
            let mut source = source::open(&path)?;
            let (accepted, not_accepted) = match &target {
                Open::Store(store) => {
                    into_store(&**store, &mut source, self.precision, self.allow_1970)?
                }
                Open::Server(remote) => {
                    to_server(remote, &mut source, self.precision, self.allow_1970)?
                }
            };
            (stored, rejected) = (stored + accepted, rejected + not_accepted);
            source.bar.finish_and_clear();
        }
        if let Open::Store(store) = &target {
            store.close()?;
        }
        if rejected > 0 {
            let lines = match rejected {
                1 => "1 line was".to_string(),
                more => format!("{more} lines were"),
            };
            eprintln!("seiner: {lines} rejected, the rest is stored");
            return Err(Failure::Rejected);
        }
        // A successful command in a script prints nothing.
        if stderr().is_terminal() {
            eprintln!("{stored} lines stored");
        }
        Ok(())
    }
}

/// Writes a source into a store. Returns the numbers of accepted and rejected lines.
fn into_store(
    store: &dyn Store,
    source: &mut Source,
    precision: Precision,
    allow_1970: bool,
) -> Result<(u64, u64), Failure> {
    let mut ingest = LineIngest::new(store, None, precision).reject_1970(!allow_1970);
    let mut bytes = vec![0; READ_BYTES];
    loop {
        let read = source
            .reader
            .read(&mut bytes)
            .with_context(|| format!("{} cannot be read", source.name))?;
        if read == 0 {
            break;
        }
        ingest.take(&bytes[..read])?;
    }
    let outcome = match source.is_whole {
        true => ingest.finish()?,
        false => ingest.finish_lines()?,
    };
    for rejected in &outcome.listed {
        source
            .bar
            .suspend(|| eprintln!("{}:{}: {}", source.name, rejected.line, rejected.reason));
    }
    report_more(source, outcome.rejected, outcome.listed.len());
    Ok((outcome.accepted, outcome.rejected))
}

/// Writes a source to a server. Returns the numbers of accepted and rejected lines.
fn to_server(
    remote: &Remote,
    source: &mut Source,
    precision: Precision,
    allow_1970: bool,
) -> Result<(u64, u64), Failure> {
    let mut lines = Vec::new();
    let (mut sent, mut rejected, mut listed, mut lines_before) = (0, 0, 0, 0);
    loop {
        let wanted = (REQUEST_BYTES.saturating_sub(lines.len()).max(READ_BYTES)) as u64;
        let read = source.reader.by_ref().take(wanted).read_to_end(&mut lines);
        let last = read.with_context(|| format!("{} cannot be read", source.name))? == 0;
        let (end, count) = whole_lines(&lines, last && source.is_whole);
        if end > 0 {
            sent += count;
            let written = remote.write(&lines[..end], precision, allow_1970)?;
            for rejected_line in &written.listed {
                let line = lines_before + rejected_line.line;
                source
                    .bar
                    .suspend(|| eprintln!("{}:{line}: {}", source.name, rejected_line.reason));
            }
            (rejected, listed) = (rejected + written.rejected, listed + written.listed.len());
            lines_before += lines[..end].iter().filter(|byte| **byte == b'\n').count() as u64;
            lines.drain(..end);
        }
        if last {
            if !is_nothing(&lines) {
                let (line, reason) = (lines_before + 1, LineReason::NoNewline);
                source
                    .bar
                    .suspend(|| eprintln!("{}:{line}: {reason}", source.name));
                (rejected, listed) = (rejected + 1, listed + 1);
            }
            report_more(source, rejected, listed);
            return Ok((sent.saturating_sub(rejected), rejected));
        }
    }
}

fn report_more(source: &Source, rejected: u64, listed: usize) {
    let more = rejected - (listed as u64).min(rejected);
    if more > 0 {
        source
            .bar
            .suspend(|| eprintln!("{}: and {more} more", source.name));
    }
}

/// Returns true if the rest of a text contains no line: only white space, or a comment.
fn is_nothing(rest: &[u8]) -> bool {
    let rest = rest.trim_ascii_start();
    rest.is_empty() || rest.starts_with(b"#")
}

/// Returns the end of the last whole line and the number of non-empty lines. Quoted texts may contain newlines,
/// so the parser must find the ends of lines.
fn whole_lines(lines: &[u8], last: bool) -> (usize, u64) {
    let (arena, mut batch, mut errors) = (Arena::new(), Batch::new(), Vec::new());
    let end = LineParser::new(Precision::Ns).parse(
        lines,
        last,
        0,
        usize::MAX,
        &arena,
        &mut batch,
        &mut errors,
    );
    (end, (batch.rows.len() + errors.len()) as u64)
}

#[cfg(test)]
mod tests {
    use super::{is_nothing, whole_lines};

    #[test]
    fn a_text_is_not_cut_at_its_newline() {
        assert_eq!(whole_lines(b"a x=1\nb y=\"one\ntwo", false), (6, 1));
        assert_eq!(whole_lines(b"a x=1\nb y=2", false), (6, 1));
        assert_eq!(whole_lines(b"a x=1\n\nb y=", true), (11, 2));
        assert!(is_nothing(b" \n") && is_nothing(b"# end") && !is_nothing(b"b y=2"));
    }
}
