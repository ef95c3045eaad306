//! Import of records: CSV and JSON lines.
//!
//! Each file is read at least twice: first to find the types and the rows that would be lost ([`Scan`]), then to store
//! the rows. If the import would lose rows without permission on the command line, nothing is stored. Values are exact:
//! each number is the nearest one to its text.

use super::columns::Columns;
use super::detect;
use super::fault::Fault;
use super::flags::Flags;
use super::outcome::conclude;
use super::records::{Input, Layout, Next};
use super::rejects::{Rejects, Reporter};
use super::rows::{name, row};
use super::scan::{File, Scan, ScanResult};
use super::sink::{BATCH_ROWS, Origin, Sink};
use super::types;
use crate::failure::Failure;
#[cfg(feature = "plan")]
use crate::target::Open;
use anyhow::anyhow;
use csv::{Position, StringRecord};
use seiner_model::Batch;
#[cfg(feature = "plan")]
use seiner_model::FieldType;
use seiner_store::Receipt;
#[cfg(feature = "plan")]
use seiner_store::Store;
use std::path::Path;
#[cfg(feature = "plan")]
use std::sync::Arc;

/// Function that returns the layout of a file, with notes about assumptions.
pub type LayoutOf<'a> = dyn Fn(&Path) -> Result<(Layout, Vec<String>), Failure> + 'a;

/// Imports all files.
pub fn run(flags: &Flags, layout: &LayoutOf<'_>) -> Result<(), Failure> {
    flags.rejects.check()?;
    let mut result = scan(flags, layout)?;
    if flags.dry_run {
        preview(flags, &result)?;
        result.files.iter().for_each(File::report_singles);
        result.report_rejections();
    }
    result.report();
    let stops = result.stops(flags.replace, flags.allow_empty);
    for stop in &stops {
        eprintln!("seiner: {stop}");
    }
    if !stops.is_empty() {
        eprintln!("nothing was imported");
        return Err(Failure::Rejected);
    }
    if flags.dry_run {
        return Ok(());
    }
    let target = flags.target.open_archive(flags.archive.block_bytes)?;
    let mut rejects = flags.rejects.create()?;
    let mut sink = Sink::new(target);
    for file in &mut result.files {
        let stored = sink.stored_types(&file.measurement)?;
        for reason in types::follow(&mut file.columns, &stored) {
            eprintln!("note: {}: {reason}", file.name);
        }
        file.report_singles();
    }
    for file in &result.files {
        if let Some(span) = file.span
            && sink.has_samples(&file.measurement, span)
        {
            eprintln!(
                "note: there are samples of {} in this time already; rows of the same source and time replace \
                 them, and equal ones change nothing",
                file.measurement
            );
        }
        import(flags, file, &mut sink, &mut rejects)?;
    }
    let counts = sink.finish()?;
    conclude(&result.summary(&counts), &counts, 0, rejects)
}

/// Imports all files into a store for trials, even if rows are lost.
#[cfg(feature = "plan")]
pub fn fill(flags: &Flags, layout: &LayoutOf<'_>, store: Arc<dyn Store>) -> Result<(), Failure> {
    let result = scan(flags, layout)?;
    result.report();
    let mut sink = Sink::new(Open::Store(store));
    let mut rejects = flags.rejects.create()?;
    for file in &result.files {
        import(flags, file, &mut sink, &mut rejects)?;
    }
    Ok(())
}

/// Returns the names of the columns whose values are texts.
#[cfg(feature = "plan")]
pub fn text_columns(flags: &Flags, layout: &LayoutOf<'_>) -> Result<Vec<String>, Failure> {
    let result = scan(flags, layout)?;
    let fields = result.files.iter().flat_map(|file| file.columns.types());
    let texts = fields.filter(|(_, field_type)| *field_type == FieldType::Str);
    Ok(texts.map(|(name, _)| name.to_string()).collect())
}

/// Reads all files, to find types and rows that would be lost.
fn scan(flags: &Flags, layout: &LayoutOf<'_>) -> Result<ScanResult, Failure> {
    let roles = flags.roles();
    let mut scan = Scan::default();
    for path in &flags.files {
        if path == Path::new("-") {
            return Err(standard_input());
        }
        let (layout, mut notes) = layout(path)?;
        let dialect = layout.dialect();
        let mut input = Input::open(path, &layout)?;
        let (time, assumed) = detect::time_column(&roles, &mut input, dialect.decimal)?;
        input.bar.finish_and_clear();
        notes.extend(assumed);
        let mut input = Input::open(path, &layout)?;
        input.bar.set_message(format!("{}: checking", input.name));
        let columns = Columns::find(&roles, &input.header, dialect, time)
            .map_err(|error| Failure::Usage(format!("{}: {error}", input.name)))?;
        let measurement = flags.measurement.clone().unwrap_or_else(|| stem(path));
        scan.begin(File::new(
            &input.name,
            path,
            measurement,
            layout,
            columns,
            notes,
        ));
        loop {
            match input.next()? {
                Next::Record => scan.take(&input.record),
                Next::Rejected(fault) => scan.skip(fault),
                Next::End => break,
            }
        }
        input.bar.finish_and_clear();
    }
    // If the rows of a source are unordered, the rows are compared in several parts.
    let mut scan = scan.end();
    while scan.next_part() {
        for number in 0..scan.result.files.len() {
            let (path, layout) = scan.file(number);
            let mut input = Input::open(&path, &layout)?;
            input
                .bar
                .set_message(format!("{}: comparing rows", input.name));
            while input.next_record()? {
                scan.compare(number, &input.record);
            }
            input.bar.finish_and_clear();
        }
    }
    Ok(scan.result())
}

fn preview(flags: &Flags, result: &ScanResult) -> Result<(), Failure> {
    for file in &result.files {
        let mut input = Input::open(&file.path, &file.layout)?;
        let mut first = Vec::new();
        while first.len() < super::preview::ROWS && input.next_record()? {
            let row = row(&file.columns, &input.record, &mut |_| ());
            let row = row.map_err(|fault| fault.reason);
            let name = name(&file.measurement, &flags.tag, &file.columns, &input.record);
            let row = name.as_ref().map_err(String::clone).and(row);
            first.push(super::preview::row(
                name.as_deref().unwrap_or_default(),
                row,
            ));
        }
        input.bar.finish_and_clear();
        super::preview::show(file, &first)?;
    }
    Ok(())
}

fn import(
    flags: &Flags,
    file: &File,
    sink: &mut Sink,
    rejects: &mut Rejects,
) -> Result<(), Failure> {
    let mut input = Input::open(&file.path, &file.layout)?;
    let (bar, file_name) = (input.bar.clone(), input.name.clone());
    let mut reporter = Reporter {
        rejects,
        bar: &bar,
        name: &file_name,
        noun: "",
    };
    // A store lists this many rejected rows of a batch.
    let has_file = reporter.rejects.has_file();
    let most = match has_file {
        true => Receipt::MAX_REJECTED,
        false => BATCH_ROWS,
    };
    let mut records = vec![Record::default(); most];
    let mut is_more = true;
    while is_more {
        let mut count = 0;
        while count < most {
            match input.next()? {
                Next::Record => {
                    for fault in &input.faults {
                        sink.reject_cell(fault, &mut reporter);
                    }
                    if has_file {
                        records[count].text = input.text();
                    }
                    std::mem::swap(&mut input.record, &mut records[count].cells);
                    count += 1;
                }
                Next::Rejected(fault) => sink.reject_row(&fault, &mut reporter),
                Next::End => {
                    is_more = false;
                    break;
                }
            }
        }
        store(flags, file, &records[..count], sink, &mut reporter)?;
    }
    sink.flush(&mut reporter)?;
    bar.finish_and_clear();
    Ok(())
}

/// A record that is to be stored.
#[derive(Clone, Default)]
struct Record {
    cells: StringRecord,
    /// Original text, if a file of rejected rows is wanted.
    text: String,
}

fn store(
    flags: &Flags,
    file: &File,
    records: &[Record],
    sink: &mut Sink,
    reporter: &mut Reporter<'_>,
) -> Result<(), Failure> {
    let columns = &file.columns;
    let names: Vec<Result<Vec<u8>, String>> = records
        .iter()
        .map(|record| name(&file.measurement, &flags.tag, columns, &record.cells))
        .collect();
    let (mut batch, mut origins) = (Batch::new(), Vec::new());
    for (Record { cells, text }, name) in records.iter().zip(&names) {
        let line = cells.position().map_or(0, Position::line);
        let text = text.clone();
        let mut faults = Vec::new();
        let read = match name {
            Ok(name) => row(columns, cells, &mut |fault| faults.push(fault))
                .map(|(time, cells)| (name, time, cells)),
            Err(reason) => Err(Fault {
                line,
                reason: reason.clone(),
                ..Fault::default()
            }),
        };
        match read {
            Ok((name, time, cells)) if !cells.is_empty() => {
                batch.push(name, time, cells);
                origins.push(Origin { line, text });
            }
            // A row without any value stores nothing. The scan has counted it.
            Ok(_) => {}
            Err(fault) => {
                sink.reject_row(&Fault { text, ..fault }, reporter);
                continue;
            }
        }
        for fault in &faults {
            sink.reject_cell(fault, reporter);
        }
    }
    sink.take(&batch, origins, reporter)
}

fn standard_input() -> Failure {
    anyhow!("a file is read twice, and standard input can be read only once; name a file").into()
}

/// Returns the measurement that a file's name states.
pub fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split('.')
        .find(|part| !part.is_empty())
        .unwrap_or("import")
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_are_named_after_files() {
        assert_eq!(stem(Path::new("/x/wind_scada.csv.gz")), "wind_scada");
    }
}
