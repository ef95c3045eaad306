//! `seiner import prometheus`: imports blocks of Prometheus (TSDB).
//!
//! Blocks that overlap are read together, one series after the other, so that each sample is stored once. Memory
//! contains buffers of these blocks, every 64th position of a symbol, and the deletes, but no whole file.

mod block;
mod folder;
mod merge;
mod symbols;
#[cfg(test)]
mod tests;
mod window;

use self::block::{Block, Damages, Labels, shown};
use self::folder::Described;
use self::merge::{Merge, MergedSeries, Parts};
use super::fault::Fault;
use super::flags::pair;
use super::outcome::conclude;
use super::rejects::{Rejects, RejectsFlag, Reporter};
use super::series::Series;
use super::sink::Counts as Rows;
use super::table::sink::TableSink;
use crate::failure::Failure;
use crate::progress;
use crate::target::{Archive, Target};
use anyhow::Result;
use clap::Args;
use indicatif::ProgressBar;
use seiner_model::rfc3339;
use seiner_wire::remote_write::source_key;
use seiner_wire::tsdb::chunk::Encoding;
use std::io::{Write, stdout};
use std::path::PathBuf;

/// Number of samples that are written together.
const BATCH_SAMPLES: usize = 1 << 17;

/// Maximum number of series that are written together.
const BATCH_SERIES: usize = 1 << 13;

/// Maximum number of overlapping blocks that are read together.
const BLOCKS_TOGETHER: usize = 64;

const NS_PER_MS: i64 = 1_000_000;

/// Import blocks of Prometheus: its folder of data, a snapshot, or single blocks.
///
/// A metric becomes a measurement with the field `value`, and its labels become tags, as with
/// remote write. Stale markers are kept, and deleted samples are left out. Native histograms are
/// rejected. Damaged parts are reported; the rest is stored. Samples of the last hours are in the
/// write-ahead log instead of a block. Take a snapshot to import them, too.
///
/// Examples:
///
///   curl -X POST http://prometheus:9090/api/v1/admin/tsdb/snapshot
///
///   seiner import prometheus --data ./seiner-data /var/lib/prometheus/snapshots/NAME
#[derive(Args)]
pub struct Prometheus {
    #[command(flatten)]
    target: Target,
    /// List the blocks with their times, series and samples. Stores nothing.
    #[arg(long)]
    dry_run: bool,
    /// Tag to add to all rows, as TAG=VALUE. May be given several times.
    #[arg(long, value_name = "TAG=VALUE", value_parser = pair)]
    tag: Vec<(String, String)>,
    #[command(flatten)]
    rejects: RejectsFlag,
    #[command(flatten)]
    archive: Archive,
    /// Folders with blocks, or single blocks.
    #[arg(required = true)]
    folders: Vec<PathBuf>,
}

/// Counts of an import.
#[derive(Default)]
struct Counts {
    blocks: u64,
    failed: u64,
    /// Damaged parts of blocks: series, chunks and files.
    damaged: u64,
    /// Chunks whose samples are lost.
    damaged_chunks: u64,
    histograms: u64,
    duplicates: u64,
    deleted: u64,
}

impl Prometheus {
    /// Imports all blocks.
    pub fn run(self) -> Result<(), Failure> {
        self.rejects.check()?;
        let mut paths = Vec::new();
        for folder in &self.folders {
            let found = folder::blocks(folder)?;
            if found.is_empty() {
                let name = folder.display();
                return Err(Failure::Usage(format!(
                    "{name} has no blocks: folders with a file meta.json"
                )));
            }
            paths.extend(found);
        }
        paths.sort();
        paths.dedup();
        let mut counts = Counts {
            blocks: paths.len() as u64,
            ..Counts::default()
        };
        let mut rejects = self.rejects.create()?;
        let mut blocks = Vec::new();
        for path in paths {
            match folder::describe(&path) {
                Ok(block) => blocks.push(block),
                Err(error) => {
                    rejects.report_file(&path, &error);
                    counts.failed += 1;
                }
            }
        }
        if self.dry_run {
            list(&blocks)?;
            self.note_heads();
            let nothing = Rows::default();
            return conclude("nothing was imported", &nothing, counts.failed, rejects);
        }
        let sink = TableSink::new(self.target.open_archive(self.archive.block_bytes)?);
        let bar = progress::over(
            blocks.iter().map(|block| block.meta.stats.num_chunks).sum(),
            "{bar:30} {pos}/{len} chunks {eta} left",
        );
        let mut import = Import {
            sink,
            rejects,
            bar,
            series: Series::new(&self.tag),
            waiting: 0,
            number: 0,
            damages: Vec::new(),
            counts,
        };
        for group in folder::groups(blocks, BLOCKS_TOGETHER) {
            import.group(&group)?;
        }
        import.write()?;
        import.bar.finish_and_clear();
        let rows = import.sink.finish()?;
        let (counts, rejects) = (import.counts, import.rejects);
        self.note_heads();
        let failed = counts.failed + counts.damaged;
        conclude(&counts.summary(&rows), &rows, failed, rejects)
    }

    /// Prints which samples were not imported, because no block has them.
    fn note_heads(&self) {
        for folder in self
            .folders
            .iter()
            .filter(|folder| folder::has_head(folder))
        {
            eprintln!(
                "note: the samples of the last hours in {}/wal are not imported: they are in no block yet. To import \
                 them, start Prometheus with --web.enable-admin-api, take a snapshot (curl -X POST \
                 http://localhost:9090/api/v1/admin/tsdb/snapshot), and import its folder below {}/snapshots",
                folder.display(),
                folder.display()
            );
        }
    }
}

/// Prints blocks as a table.
fn list(blocks: &[Described]) -> Result<()> {
    let mut out = stdout().lock();
    writeln!(
        out,
        "{:26}  {:24}  {:24}  {:>10}  {:>14}",
        "block", "from", "to", "series", "samples"
    )?;
    for block in blocks {
        let name = block.path.file_name().unwrap_or_default().to_string_lossy();
        let (meta, stats) = (&block.meta, block.meta.stats);
        let time = |ms: i64| rfc3339(ms.saturating_mul(NS_PER_MS));
        let (from, to) = (time(meta.first_ms), time(meta.end_ms));
        let (series, samples) = (stats.num_series, stats.num_samples);
        writeln!(
            out,
            "{name:26}  {from:24}  {to:24}  {series:>10}  {samples:>14}"
        )?;
    }
    Ok(())
}

/// An import on its way.
struct Import<'a> {
    sink: TableSink,
    rejects: Rejects,
    bar: ProgressBar,
    series: Series<'a>,
    /// Number of series that were not written yet.
    waiting: usize,
    /// Number of the series, from 1.
    number: u64,
    damages: Damages,
    counts: Counts,
}

impl Import<'_> {
    /// Imports blocks that overlap.
    fn group(&mut self, group: &[Described]) -> Result<()> {
        let mut blocks = Vec::new();
        for described in group {
            match Block::open(&described.path) {
                Ok(block) => blocks.push(block),
                Err(error) => {
                    let (bar, rejects) = (&self.bar, &mut self.rejects);
                    bar.suspend(|| rejects.report_file(&described.path, &error));
                    self.counts.failed += 1;
                }
            }
        }
        let mut merge = Merge::new(blocks, &mut self.damages);
        self.report_damages();
        while let Some(series) = merge.next(&mut self.damages) {
            self.number += 1;
            self.one(&mut merge, &series)?;
            self.report_damages();
            self.bar.inc(series.chunks());
        }
        self.report_damages();
        Ok(())
    }

    /// Imports a series.
    fn one(&mut self, merge: &mut Merge, series: &MergedSeries) -> Result<()> {
        let labels = series.labels.iter();
        let named = source_key(labels.map(|(name, value)| (&**name, &**value)));
        let mut damages = std::mem::take(&mut self.damages);
        let parts = match named {
            Ok(_) => self.samples(merge, series, &mut damages)?,
            Err(error) => {
                let mut samples = 0;
                let mut count = |some: &[(i64, f64)]| {
                    samples += some.len() as u64;
                    Ok(())
                };
                let parts = merge.read(series, &mut count, &mut damages)?;
                let reason = format!("{}: {error}; {samples} samples", shown(&series.labels));
                self.reject(samples, reason, &series.labels);
                parts
            }
        };
        self.damages = damages;
        for &(encoding, samples) in &parts.unsupported {
            let name = match encoding {
                Encoding::Xor => "floats".to_string(),
                Encoding::Histogram => "native histograms".to_string(),
                Encoding::FloatHistogram => "native histograms of floats".to_string(),
                Encoding::Other(number) => format!("chunks of the unknown encoding {number}"),
            };
            let series_name = shown(&series.labels);
            let reason =
                format!("{series_name}: {samples} samples are {name}, which are not supported");
            self.reject(samples, reason, &series.labels);
        }
        self.counts.add(&parts);
        Ok(())
    }

    /// Imports the samples of a series.
    fn samples(
        &mut self,
        merge: &mut Merge,
        series: &MergedSeries,
        damages: &mut Damages,
    ) -> Result<Parts> {
        let (mut times, mut values) = (Vec::new(), Vec::new());
        let mut take = |samples: &[(i64, f64)]| {
            times.extend(samples.iter().map(|(ms, _)| ms.checked_mul(NS_PER_MS)));
            values.extend(samples.iter().map(|(_, value)| value));
            match times.len() {
                BATCH_SAMPLES.. => {
                    let (times, values) = (std::mem::take(&mut times), std::mem::take(&mut values));
                    self.add(&series.labels, times, values)
                }
                _ => Ok(()),
            }
        };
        let parts = merge.read(series, &mut take, damages)?;
        if !times.is_empty() {
            self.add(&series.labels, times, values)?;
        }
        Ok(parts)
    }

    /// Adds samples of a series, and writes them with others when there are enough.
    fn add(&mut self, labels: &Labels, times: Vec<Option<i64>>, values: Vec<f64>) -> Result<()> {
        let texts = labels.iter();
        let texts = texts.map(|(name, value)| (name.to_string(), value.to_string()));
        let faults = self.series.add(texts.collect(), times, values, self.number);
        for fault in faults {
            let reason = format!("{}: {}", shown(labels), fault.reason);
            self.reject(1, reason, labels);
        }
        self.waiting += 1;
        if self.series.samples() >= BATCH_SAMPLES || self.waiting >= BATCH_SERIES {
            self.write()?;
        }
        Ok(())
    }

    /// Writes the samples that were not written yet.
    fn write(&mut self) -> Result<()> {
        self.waiting = 0;
        let mut reporter = reporter(&mut self.rejects, &self.bar);
        self.series.write(&mut self.sink, &mut reporter)
    }

    fn reject(&mut self, rows: u64, reason: String, labels: &Labels) {
        let fault = Fault {
            line: self.number,
            reason,
            text: shown(labels),
            ..Fault::default()
        };
        let mut reporter = reporter(&mut self.rejects, &self.bar);
        self.sink.reject_rows(rows, &fault, &mut reporter);
    }

    fn report_damages(&mut self) {
        for (path, error) in self.damages.drain(..) {
            self.counts.damaged += 1;
            let rejects = &mut self.rejects;
            self.bar.suspend(|| rejects.report_file(&path, &error));
        }
    }
}

fn reporter<'a>(rejects: &'a mut Rejects, bar: &'a ProgressBar) -> Reporter<'a> {
    Reporter {
        rejects,
        bar,
        name: "blocks",
        noun: " series ",
    }
}

impl Counts {
    fn add(&mut self, parts: &Parts) {
        self.damaged_chunks += parts.damaged;
        self.duplicates += parts.duplicates;
        self.deleted += parts.deleted;
        self.histograms += parts
            .unsupported
            .iter()
            .map(|(_, samples)| samples)
            .sum::<u64>();
    }

    /// Returns the sentence at the end of the import.
    fn summary(&self, rows: &Rows) -> String {
        let mut text = match self.failed {
            0 => format!("{} rows imported, {} rejected", rows.taken, rows.rejected),
            failed => format!(
                "{} rows imported, {} rejected; {failed} of {} blocks failed",
                rows.taken, rows.rejected, self.blocks
            ),
        };
        let parts = [
            (self.damaged, "damaged parts"),
            (self.damaged_chunks, "lost chunks"),
            (
                self.histograms,
                "samples of native histograms or unknown encodings",
            ),
            (
                self.duplicates,
                "samples left out that another block has too",
            ),
            (self.deleted, "deleted samples left out"),
        ];
        for (count, what) in parts.iter().filter(|(count, _)| *count > 0) {
            text.push_str(&format!("; {what}: {count}"));
        }
        text
    }
}
