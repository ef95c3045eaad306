//! `seiner check`: verifies that everything in a directory is readable.

use crate::failure::Failure;
use crate::progress;
use clap::Args;
use seiner_engine::{CheckReport, check_directory};
use seiner_server::{Settings, access};
use serde_json::json;
use std::io::{self, Write, stdout};
use std::path::{Path, PathBuf};

/// Verify that everything in a directory is readable.
///
/// Reads every byte that a checksum covers, decodes every block and every journal record, and
/// compares all values that are stored twice. Reads the tokens in access.toml, if there are any. Changes nothing. A server may have the directory
/// open: files that change during the check are read again. Exit status: 0 if no damage was found,
/// 1 if something is damaged, 2 if the check is impossible, for example because the directory
/// contains no store.
#[derive(Args)]
pub struct Check {
    /// Directory of the store.
    directory: PathBuf,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

impl Check {
    /// Checks the directory and prints the report.
    pub fn run(self) -> Result<(), Failure> {
        let bar = progress::bytes(Some(0), "checking");
        let checked = check_directory(&self.directory, &mut |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        let mut report = checked.map_err(|error| {
            Failure::Usage(format!(
                "{} was not checked: {error}",
                self.directory.display()
            ))
        })?;
        let tokens = Tokens::read(&self.directory, &mut report);
        let mut out = stdout().lock();
        if self.json {
            writeln!(out, "{:#}", as_json(&report, &tokens))?;
        } else {
            write_report(&report, &tokens, &mut out)?;
        }
        if report.is_sound() && tokens.is_sound() {
            Ok(())
        } else {
            Err(Failure::Rejected)
        }
    }
}

/// Tokens of a server in the directory: their number, `None` without a file, or the reason why a server rejects the file.
struct Tokens {
    file: String,
    found: Result<Option<usize>, String>,
}

impl Tokens {
    /// Reads the file, which is no file of the store, and removes the note about it.
    fn read(directory: &Path, report: &mut CheckReport) -> Tokens {
        let settings = Settings {
            data: directory.to_path_buf(),
            ..Settings::default()
        };
        let path = settings.token_file();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        report.notes.retain(|note| note.file != file);
        let read = access::read(&path);
        Tokens {
            file: file.into_owned(),
            found: read.map(|tokens| tokens.map(|tokens| tokens.len())),
        }
    }

    fn is_sound(&self) -> bool {
        self.found.is_ok()
    }

    fn as_json(&self) -> serde_json::Value {
        match &self.found {
            Ok(tokens) => json!({ "tokens": tokens }),
            Err(error) => json!({ "error": error.trim_end() }),
        }
    }
}

fn write_report(report: &CheckReport, tokens: &Tokens, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "catalog   {} frames: {} sources, {} layouts",
        report.frames, report.sources, report.layouts
    )?;
    writeln!(
        out,
        "segments  {}: {} pages, {} blocks, {} rows, {} samples",
        report.segments, report.pages, report.blocks, report.rows, report.samples
    )?;
    writeln!(
        out,
        "journal   {} files: {} records, {} rows",
        report.journal_files, report.records, report.journal_rows
    )?;
    if let Ok(Some(count)) = tokens.found {
        writeln!(out, "tokens    {count} in {}", tokens.file)?;
    }
    for note in &report.notes {
        writeln!(out, "note      {}: {}", note.file, note.what)?;
    }
    write_damage(report, out)?;
    if let Err(error) = &tokens.found {
        writeln!(out, "DAMAGED   {}", error.trim_end())?;
    }
    match (report.is_sound(), tokens.is_sound()) {
        (true, true) => writeln!(out, "sound: {} bytes read", report.bytes),
        (true, false) => writeln!(
            out,
            "the data are sound, but a server does not start with these tokens"
        ),
        (false, _) => writeln!(
            out,
            "damaged in {} places; a start sets damaged parts aside and serves the rest",
            report.damaged
        ),
    }
}

/// Writes a line for each damaged place.
pub fn write_damage(report: &CheckReport, out: &mut impl Write) -> io::Result<()> {
    for damage in &report.damage {
        writeln!(
            out,
            "DAMAGED   {}, offset {}: {}",
            damage.file, damage.offset, damage.what
        )?;
    }
    let unlisted = report.damaged - report.damage.len() as u64;
    if unlisted > 0 {
        writeln!(out, "DAMAGED   and {unlisted} places more")?;
    }
    Ok(())
}

/// Returns the damaged places as JSON.
pub fn damage_json(report: &CheckReport) -> serde_json::Value {
    let damage = report.damage.iter();
    damage
        .map(|damage| json!({ "file": damage.file, "offset": damage.offset, "what": damage.what }))
        .collect()
}

fn as_json(report: &CheckReport, tokens: &Tokens) -> serde_json::Value {
    let notes = report
        .notes
        .iter()
        .map(|note| json!({ "file": note.file, "what": note.what }));
    json!({
        "sound": report.is_sound() && tokens.is_sound(),
        "bytes": report.bytes,
        "catalog": { "frames": report.frames, "sources": report.sources, "layouts": report.layouts },
        "segments": {
            "segments": report.segments,
            "pages": report.pages,
            "blocks": report.blocks,
            "rows": report.rows,
            "samples": report.samples,
        },
        "journal": { "files": report.journal_files, "records": report.records, "rows": report.journal_rows },
        "access": tokens.as_json(),
        "damaged": report.damaged,
        "damage": damage_json(report),
        "notes": notes.collect::<Vec<_>>(),
    })
}
