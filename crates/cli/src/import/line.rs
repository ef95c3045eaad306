//! `seiner import line`: imports the export of InfluxDB in line protocol.
//!
//! The export contains comments that name the database and the retention policy of the lines below, and statements that
//! create databases. A comment within a quoted text is a part of the text: a comment counts only if a line ends before
//! it.

use super::fault::Fault;
use super::outcome::{conclude, each_file};
use super::rejects::{Rejects, RejectsFlag, Reporter};
use super::sink::{BATCH_ROWS, Origin, Sink};
use crate::failure::Failure;
use crate::source;
use crate::target::{Archive, Target};
use anyhow::{Context, Result, bail};
use clap::Args;
use seiner_model::Batch;
use seiner_store::Receipt;
use seiner_wire::line::{AddedTag, Arena, LineError, LineParser, Precision};
use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of one read.
const READ_BYTES: u64 = 256 << 10;

const DATABASE: &str = "# CONTEXT-DATABASE:";
const POLICY: &str = "# CONTEXT-RETENTION-POLICY:";
const STATEMENT: &[u8] = b"CREATE DATABASE ";

/// Import the export of InfluxDB: line protocol of `influx_inspect export` or `influxd inspect
/// export-lp`.
///
/// The comments of the export name the database of the lines below. Lines that cannot be read are
/// rejected; the rest is stored. Line protocol without such comments can also be written by
/// `seiner write`.
///
/// Examples:
///
///   influx_inspect export -datadir /var/lib/influxdb/data -waldir /var/lib/influxdb/wal -compress -out export.gz
///
///   seiner import line --data ./seiner-data --database-tag db export.gz
#[derive(Args)]
pub struct Line {
    #[command(flatten)]
    target: Target,
    /// Tag that gets the name of the database. Without it, an export of several databases is not
    /// imported.
    #[arg(long, value_name = "TAG")]
    database_tag: Option<String>,
    /// Import only this database.
    #[arg(long, value_name = "NAME")]
    database: Option<String>,
    /// Tag that gets the name of the retention policy.
    #[arg(long, value_name = "TAG")]
    policy_tag: Option<String>,
    #[command(flatten)]
    rejects: RejectsFlag,
    #[command(flatten)]
    archive: Archive,
    /// Files to import, plain or compressed by gzip. `-` is standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

impl Line {
    /// Imports all files.
    pub fn run(self) -> Result<(), Failure> {
        let mut rejects = self.rejects.create()?;
        let target = self.target.open_archive(self.archive.block_bytes)?;
        let mut sink = Sink::new(target);
        let failed = each_file(
            &self.files,
            PathBuf::as_path,
            &mut rejects,
            |path, rejects| self.import(path, &mut sink, rejects),
        );
        let counts = sink.finish()?;
        let mut summary = format!(
            "{} rows imported, {} rejected",
            counts.taken, counts.rejected
        );
        if failed > 0 {
            summary.push_str(&format!("\n{failed} of {} files failed", self.files.len()));
        }
        conclude(&summary, &counts, failed, rejects)
    }

    fn import(&self, path: &Path, sink: &mut Sink, rejects: &mut Rejects) -> Result<()> {
        let mut source = source::open(path)?;
        let mut reporter = Reporter {
            rejects,
            bar: &source.bar,
            name: &source.name,
            noun: "",
        };
        let mut import = FileImport {
            flags: self,
            parser: LineParser::new(Precision::Ns),
            sections: Sections::default(),
            is_wanted: self.database.is_none(),
            tags: Vec::new(),
        };
        let mut text = Vec::new();
        loop {
            let read = source
                .reader
                .by_ref()
                .take(READ_BYTES)
                .read_to_end(&mut text);
            let is_last = read.context("the file cannot be read")? == 0;
            let done = import.take(&text, is_last, sink, &mut reporter)?;
            text.drain(..done);
            if is_last {
                break;
            }
        }
        sink.flush(&mut reporter).map_err(error_of)?;
        for note in import.notes() {
            reporter
                .bar
                .suspend(|| eprintln!("note: {}: {note}", reporter.name));
        }
        source.bar.finish_and_clear();
        Ok(())
    }
}

/// Databases and retention policies of an export.
#[derive(Default)]
struct Sections {
    databases: BTreeSet<String>,
    policies: BTreeSet<String>,
    database: String,
    policy: String,
}

/// Import of one file.
struct FileImport<'a> {
    flags: &'a Line,
    parser: LineParser,
    sections: Sections,
    /// True if rows of the present database are imported.
    is_wanted: bool,
    /// Tags of all rows of the present section.
    tags: Vec<AddedTag>,
}

impl FileImport<'_> {
    /// Imports the whole lines of a text. Returns the number of bytes consumed.
    fn take(
        &mut self,
        text: &[u8],
        is_last: bool,
        sink: &mut Sink,
        reporter: &mut Reporter<'_>,
    ) -> Result<usize> {
        let mut done = 0;
        while done < text.len() {
            let rest = &text[done..];
            if let Some(comment) = first_line(rest, is_last).filter(|line| line.starts_with(b"#")) {
                self.enter(&String::from_utf8_lossy(comment))?;
            }
            let mut consumed = 0;
            // If a comment is within a quoted text, no line ends before it.
            for end in section_ends(rest) {
                consumed =
                    self.parse(&rest[..end], is_last && end == rest.len(), sink, reporter)?;
                if consumed > 0 {
                    break;
                }
            }
            if consumed == 0 {
                break;
            }
            done += consumed;
        }
        Ok(done)
    }

    /// Parses lines of one section, up to a full batch, and writes them. Returns the number of bytes consumed.
    fn parse(
        &mut self,
        text: &[u8],
        is_last: bool,
        sink: &mut Sink,
        reporter: &mut Reporter<'_>,
    ) -> Result<usize> {
        let has_file = reporter.rejects.has_file();
        let most = if has_file {
            Receipt::MAX_REJECTED
        } else {
            BATCH_ROWS
        };
        let first_line = self.parser.line();
        let (arena, mut batch, mut errors) = (Arena::new(), Batch::new(), Vec::new());
        let done = self
            .parser
            .parse(text, is_last, 0, most, &arena, &mut batch, &mut errors);
        let lines: Vec<&[u8]> = match has_file || !errors.is_empty() {
            true => text[..done].split(|byte| *byte == b'\n').collect(),
            false => Vec::new(),
        };
        let line_text = |line: u64| {
            let at = usize::try_from(line - first_line).ok();
            at.and_then(|at| lines.get(at)).copied().unwrap_or_default()
        };
        for LineError { line, reason } in &errors {
            let text = line_text(*line);
            if let Some(statement) = text.strip_prefix(STATEMENT) {
                self.note_database(&String::from_utf8_lossy(statement))?;
                continue;
            }
            if !self.is_wanted {
                continue;
            }
            let fault = Fault {
                line: *line,
                column: String::new(),
                reason: reason.to_string(),
                text: String::from_utf8_lossy(text).into_owned(),
            };
            sink.reject_row(&fault, reporter);
        }
        if !self.is_wanted || batch.rows.is_empty() {
            return Ok(done);
        }
        let origins = (0..batch.rows.len()).map(|row| {
            let line = self.parser.line_of_row(row);
            let text = String::from_utf8_lossy(line_text(line)).into_owned();
            Origin { line, text }
        });
        let origins: Vec<Origin> = origins.collect();
        for tag in &self.tags {
            tag.add(&mut batch, &arena);
        }
        sink.take(&batch, origins, reporter).map_err(error_of)?;
        Ok(done)
    }

    /// Processes a comment: the database or the retention policy of the lines below.
    fn enter(&mut self, comment: &str) -> Result<()> {
        let sections = &mut self.sections;
        if let Some(name) = comment.strip_prefix(DATABASE) {
            sections.database = name.trim().to_string();
            sections.policy.clear();
            let name = sections.database.clone();
            self.check_database(name)?;
        } else if let Some(name) = comment.strip_prefix(POLICY) {
            sections.policy = name.trim().to_string();
        } else {
            return Ok(());
        }
        let Sections {
            database,
            policy,
            policies,
            ..
        } = &mut self.sections;
        self.is_wanted = self
            .flags
            .database
            .as_ref()
            .is_none_or(|wanted| wanted == database);
        if self.is_wanted && !policy.is_empty() {
            policies.insert(policy.clone());
        }
        self.tags.clear();
        for (tag, value) in [
            (&self.flags.database_tag, database),
            (&self.flags.policy_tag, policy),
        ] {
            if let Some(tag) = tag.as_ref().filter(|_| !value.is_empty()) {
                self.tags.push(AddedTag::new(tag, value)?);
            }
        }
        Ok(())
    }

    /// Processes the rest of a statement that creates a database: `"name" WITH NAME policy`.
    fn note_database(&mut self, statement: &str) -> Result<()> {
        let name = statement.split(" WITH ").next().unwrap_or_default().trim();
        let name = name
            .strip_prefix('"')
            .and_then(|name| name.strip_suffix('"'))
            .unwrap_or(name);
        self.check_database(name.to_string())
    }

    /// Checks that no rows of different databases would be mixed.
    fn check_database(&mut self, name: String) -> Result<()> {
        let databases = &mut self.sections.databases;
        databases.insert(name);
        let is_mixed = databases.len() > 1
            && self.flags.database.is_none()
            && self.flags.database_tag.is_none();
        if is_mixed {
            let names: Vec<&str> = databases.iter().map(String::as_str).collect();
            bail!(
                "the export has the databases {}; --database-tag db keeps them apart, and --database {} imports one",
                names.join(" and "),
                names[0]
            );
        }
        Ok(())
    }

    /// Returns notes about the whole file.
    fn notes(&self) -> Vec<String> {
        let Sections {
            databases,
            policies,
            ..
        } = &self.sections;
        let mut notes = Vec::new();
        if policies.len() > 1 && self.flags.policy_tag.is_none() {
            let names: Vec<&str> = policies.iter().map(String::as_str).collect();
            notes.push(format!(
                "rows of the retention policies {} have the same names now; --policy-tag keeps them apart",
                names.join(" and ")
            ));
        }
        if let Some(wanted) = self
            .flags
            .database
            .as_ref()
            .filter(|name| !databases.contains(*name))
        {
            notes.push(format!("the export has no database {wanted:?}"));
        }
        notes
    }
}

/// Returns the first line without its newline; `None` if its end was not read yet.
fn first_line(text: &[u8], is_last: bool) -> Option<&[u8]> {
    match text.iter().position(|byte| *byte == b'\n') {
        Some(end) => Some(&text[..end]),
        None => is_last.then_some(text),
    }
}

/// Returns the possible ends of the present section: before each comment that begins another one, and the end of the
/// text.
fn section_ends(text: &[u8]) -> impl Iterator<Item = usize> {
    let newlines = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let starts = newlines.map(|(at, _)| at + 1);
    let comments = starts.filter(|start| {
        let line = &text[*start..];
        line.starts_with(DATABASE.as_bytes()) || line.starts_with(POLICY.as_bytes())
    });
    comments.chain([text.len()])
}

fn error_of(failure: Failure) -> anyhow::Error {
    match failure {
        Failure::Failed(error) => error,
        Failure::Usage(reason) => anyhow::anyhow!(reason),
        Failure::Rejected => anyhow::anyhow!("rows were rejected"),
    }
}
