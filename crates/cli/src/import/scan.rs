//! Scan of the files before an import: types of columns, and rows that would be lost.

use super::columns::Columns;
use super::fault::Fault;
use super::records::Layout;
use super::repeats::{Content, Duplicates, LISTED, Part, Row, Spans, fingerprint};
use super::sink::Counts;
use super::types;
use csv::StringRecord;
use std::path::{Path, PathBuf};

/// A scanned file.
pub struct File {
    pub name: String,
    pub path: PathBuf,
    pub measurement: String,
    pub layout: Layout,
    pub columns: Columns,
    /// Number of rows, including rows that are not valid.
    pub rows: u64,
    /// First and last time, ns since 1970.
    pub span: Option<(i64, i64)>,
    /// Number of rows that cannot be read, and the first of them.
    unreadable: (u64, Fault),
    /// Number of rows without a value, and the line numbers of the first of them.
    empty: (u64, Vec<u64>),
    /// Number of rows without a valid time, and the first reason.
    timeless: (u64, Option<String>),
    /// Number of rows whose time is not plausible in the given unit, and the coarser unit in which it is.
    in_1970: (u64, &'static str),
    /// Number of times that the inferred unit does not place between 1990 and 2100, and the first line number.
    doubtful: (u64, u64),
    notes: Vec<String>,
    doubts: Vec<String>,
}

impl File {
    /// Creates the state of a file before its first record. `notes` are assumptions.
    pub fn new(
        name: &str,
        path: &Path,
        measurement: String,
        layout: Layout,
        columns: Columns,
        notes: Vec<String>,
    ) -> File {
        File {
            name: name.to_string(),
            path: path.to_path_buf(),
            measurement,
            layout,
            columns,
            rows: 0,
            span: None,
            unreadable: (0, Fault::default()),
            empty: (0, Vec::new()),
            timeless: (0, None),
            in_1970: (0, ""),
            doubtful: (0, 0),
            notes,
            doubts: Vec::new(),
        }
    }

    /// Prints the note about columns of 32-bit floats.
    pub fn report_singles(&self) {
        if let Some(note) = self.columns.note_of_singles() {
            eprintln!("note: {}: {note}", self.name);
        }
    }

    /// Returns the fingerprints of a record; `None` if the record contains nothing to store.
    fn row(&self, number: usize, record: &StringRecord) -> Option<Row> {
        let time = self.columns.time.time(record).ok()?;
        let texts: Vec<(usize, &str)> = self.columns.present(record).collect();
        let fields = texts
            .iter()
            .fold(0, |fields, (field, _)| fields | 1_u64 << (field % 64));
        let tags: Vec<&str> = self
            .columns
            .tags
            .iter()
            .map(|(_, place)| record.get(*place).unwrap_or_default().trim())
            .collect();
        (fields != 0).then(|| Row {
            source: fingerprint((&self.measurement, tags)),
            time,
            content: Content {
                fields,
                values: fingerprint(texts),
            },
            place: (number, record.position().map_or(0, csv::Position::line)),
        })
    }
}

/// First pass of a scan over the files.
#[derive(Default)]
pub struct Scan {
    files: Vec<File>,
    spans: Spans,
}

impl Scan {
    /// Begins the next file.
    pub fn begin(&mut self, file: File) {
        self.files.push(file);
    }

    /// Counts a row of the file that cannot be read.
    pub fn skip(&mut self, fault: Fault) {
        let file = self.files.last_mut().expect("a file was begun");
        if file.unreadable.0 == 0 {
            file.unreadable.1 = fault;
        }
        file.unreadable.0 += 1;
    }

    /// Processes the next record of the file.
    pub fn take(&mut self, record: &StringRecord) {
        let number = self.files.len() - 1;
        let file = &mut self.files[number];
        file.rows += 1;
        file.columns.count(record);
        match file.columns.time.time(record) {
            Ok(time) => {
                let (first, last) = file.span.unwrap_or((time, time));
                file.span = Some((first.min(time), last.max(time)));
                if let Some(unit) = file.columns.time.better_unit(time) {
                    file.in_1970 = (file.in_1970.0 + 1, unit);
                }
                if file.columns.time.is_doubtful(time) {
                    let line = record.position().map_or(0, csv::Position::line);
                    let first = if file.doubtful.0 == 0 {
                        line
                    } else {
                        file.doubtful.1
                    };
                    file.doubtful = (file.doubtful.0 + 1, first);
                }
            }
            Err(reason) => {
                file.timeless.0 += 1;
                file.timeless.1.get_or_insert(reason);
                return;
            }
        }
        match file.row(number, record) {
            Some(row) => self.spans.see(&row),
            None => {
                file.empty.0 += 1;
                if file.empty.1.len() < LISTED {
                    let line = record.position().map_or(0, csv::Position::line);
                    file.empty.1.push(line);
                }
            }
        }
    }

    /// Ends the first pass.
    pub fn end(mut self) -> Comparison {
        for file in &mut self.files {
            let (notes, doubts) = file.columns.decide();
            file.notes.extend(notes);
            file.doubts.extend(doubts);
        }
        let files = self.files.iter_mut();
        let mut files: Vec<_> = files
            .map(|file| (file.measurement.as_str(), &mut file.columns))
            .collect();
        types::unify(&mut files);
        let (duplicates, parts) = match self.spans.end() {
            Ok(duplicates) => (duplicates, 0),
            Err(parts) => (Duplicates::default(), parts),
        };
        Comparison {
            result: ScanResult {
                files: self.files,
                duplicates,
            },
            parts,
            part: None,
            next: 0,
        }
    }
}

/// Further passes over all files. Each pass compares a part of the rows.
pub struct Comparison {
    pub result: ScanResult,
    parts: u64,
    part: Option<Part>,
    next: u64,
}

impl Comparison {
    /// Begins the next part. Returns false if there is none.
    pub fn next_part(&mut self) -> bool {
        let more = self.next < self.parts;
        self.part = more.then(|| Part::new(self.next, self.parts));
        self.next += 1;
        more
    }

    /// Returns the path and the layout of a file.
    pub fn file(&self, number: usize) -> (PathBuf, Layout) {
        let file = &self.result.files[number];
        (file.path.clone(), file.layout.clone())
    }

    /// Processes a record of a file.
    pub fn compare(&mut self, number: usize, record: &StringRecord) {
        let ScanResult { files, duplicates } = &mut self.result;
        if let (Some(part), Some(row)) = (&mut self.part, files[number].row(number, record)) {
            part.see(&row, duplicates);
        }
    }

    /// Returns the result.
    pub fn result(mut self) -> ScanResult {
        self.result.duplicates.places.sort_unstable();
        self.result
    }
}

/// Result of a scan.
pub struct ScanResult {
    pub files: Vec<File>,
    duplicates: Duplicates,
}

impl ScanResult {
    /// Prints notes about findings that lose no data.
    pub fn report(&self) {
        for file in &self.files {
            for note in &file.notes {
                eprintln!("note: {}: {note}", file.name);
            }
            let (rows, unit) = file.in_1970;
            if rows > 0 {
                eprintln!(
                    "note: {}: {rows} times are in 1970; is it --time-unit {unit}?",
                    file.name
                );
            }
        }
        if self.duplicates.repeated > 0 {
            eprintln!(
                "note: {} rows are equal to earlier ones, and change nothing",
                self.duplicates.repeated
            );
        }
    }

    /// Prints the numbers of rows that an import would reject.
    pub fn report_rejections(&self) {
        for file in &self.files {
            let (rows, first) = &file.unreadable;
            let (timeless, reason) = &file.timeless;
            if *rows > 0 {
                eprintln!(
                    "note: {}: {rows} rows cannot be read and would be rejected; the first is line {}: {}",
                    file.name, first.line, first.reason
                );
            }
            if let Some(reason) = reason {
                eprintln!(
                    "note: {}: {timeless} rows have no time and would be rejected; the first: {reason}",
                    file.name
                );
            }
        }
    }

    /// Returns the reasons that prevent the import, with remedies.
    pub fn stops(&self, replace: bool, allow_empty: bool) -> Vec<String> {
        let mut stops = Vec::new();
        for file in &self.files {
            let name = &file.name;
            stops.extend(file.doubts.iter().map(|doubt| format!("{name}: {doubt}")));
            if let (rows, Some(reason)) = &file.timeless
                && *rows == file.rows
            {
                stops.push(format!(
                    "{name}: no time in column {:?} can be read: {reason}",
                    file.columns.time.title
                ));
            }
            let (doubtful, first) = file.doubtful;
            if doubtful > 0 {
                let unit = file.columns.time.unit.0;
                stops.push(format!(
                    "{name}: the first times are between 1990 and 2100 in {unit}, but {doubtful} others are not (line \
                     {first}); --time-unit {unit} confirms the unit, or states another"
                ));
            }
            let (empty, lines) = &file.empty;
            if *empty > 0 && !allow_empty {
                stops.push(format!(
                    "{name}: {empty} rows have no value ({}); --allow-empty leaves them out",
                    listed(lines, *empty)
                ));
            }
        }
        if self.duplicates.replaced > 0 && !replace {
            stops.push(self.replaced());
        }
        stops
    }

    /// Returns the sentence about rows that would be lost, with remedies.
    fn replaced(&self) -> String {
        let Duplicates {
            replaced, places, ..
        } = &self.duplicates;
        let file = places.first().map_or(0, |(file, _)| *file);
        let (file, lines) = (
            &self.files[file],
            places
                .iter()
                .filter(|place| place.0 == file)
                .map(|place| place.1),
        );
        let lines: Vec<u64> = lines.collect();
        let tags = file.columns.likely_tags();
        let remedy = match tags.as_slice() {
            [] => "are there more tags for --tag-columns? --replace".to_string(),
            [tag] => format!("is {tag:?} a tag? --tag-columns {tag}; or --replace"),
            _ => format!(
                "are some of {} tags? --tag-columns {}; or --replace",
                tags.join(", "),
                tags[0]
            ),
        };
        format!(
            "{}: {replaced} rows would replace earlier ones of the same source and time ({}), which would be lost; \
             {remedy} lets the last row hold",
            file.name,
            listed(&lines, *replaced)
        )
    }

    /// Returns the summary of an import.
    pub fn summary(&self, counts: &Counts) -> String {
        let mut text = format!(
            "{} rows imported, {} rejected",
            counts.taken, counts.rejected
        );
        let empty = self.files.iter().map(|file| file.empty.0).sum();
        for (count, what) in [
            (counts.rejected_cells, "cells rejected"),
            (
                self.duplicates.replaced,
                "replaced earlier rows of the files",
            ),
            (empty, "without values left out"),
        ] {
            if count > 0 {
                text.push_str(&format!(", {count} {what}"));
            }
        }
        text
    }
}

/// Formats line numbers, such as `lines 3, 7, …`.
fn listed(lines: &[u64], of: u64) -> String {
    let texts: Vec<String> = lines.iter().map(u64::to_string).collect();
    let more = match of > lines.len() as u64 {
        true => ", …",
        false => "",
    };
    let noun = if of == 1 { "line" } else { "lines" };
    format!("{noun} {}{more}", texts.join(", "))
}
