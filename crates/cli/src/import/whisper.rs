//! `seiner import whisper`: imports folders of Graphite's Whisper files.

use super::flags::pair;
use super::outcome::conclude;
use super::rejects::{Rejects, RejectsFlag, Reporter};
use super::series::{Labels, Series};
use super::table::sink::TableSink;
use crate::failure::Failure;
use crate::progress;
use crate::target::{Archive, Target};
use anyhow::{Context, Result, ensure};
use clap::Args;
use seiner_wire::whisper::{WhisperFile, decode};
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum bytes of a file.
const FILE_BYTES: u64 = 256 << 20;

/// Number of samples that are written together.
const BATCH_SAMPLES: usize = 1 << 17;

/// Folder of the metrics with tags.
const TAGGED: &str = "_tagged";

/// Import folders of Whisper files, as Graphite's Carbon writes them.
///
/// The path of a file below the folder is the measurement, as in the Graphite protocols: a/b.wsp is
/// a.b. The field is `value`. Of several archives, the finest that has a time is taken. A file that
/// cannot be read is reported; the others are imported. Do not write to the files in the meantime.
///
/// Examples:
///
///   seiner import whisper --data ./seiner-data /var/lib/graphite/whisper
#[derive(Args)]
pub struct Whisper {
    #[command(flatten)]
    target: Target,
    /// Tag to add to all rows, as TAG=VALUE. May be given several times.
    #[arg(long, value_name = "TAG=VALUE", value_parser = pair)]
    tag: Vec<(String, String)>,
    #[command(flatten)]
    rejects: RejectsFlag,
    #[command(flatten)]
    archive: Archive,
    /// Folders to import, or single files.
    #[arg(required = true)]
    folders: Vec<PathBuf>,
}

/// Counts of the files.
#[derive(Default)]
struct Counts {
    files: u64,
    failed: u64,
    /// Samples of coarser archives.
    coarse: u64,
}

impl Whisper {
    /// Imports all folders.
    pub fn run(self) -> Result<(), Failure> {
        let mut files = Vec::new();
        for folder in &self.folders {
            let before = files.len();
            list(folder, folder, &mut files)?;
            if files.len() == before {
                let name = folder.display();
                return Err(Failure::Usage(format!(
                    "{name} has no files with the ending .wsp"
                )));
            }
        }
        files.sort();
        let mut rejects = self.rejects.create()?;
        let mut sink = TableSink::new(self.target.open_archive(self.archive.block_bytes)?);
        let counts = self.import(&files, &mut sink, &mut rejects)?;
        let rows = sink.finish()?;
        let summary = format!(
            "{} rows imported, {} rejected; {} of {} files failed; {} rows are aggregates of coarser archives",
            rows.taken, rows.rejected, counts.failed, counts.files, counts.coarse
        );
        conclude(&summary, &rows, counts.failed, rejects)
    }

    /// Imports files. Each has the path of its folder.
    fn import(
        &self,
        files: &[(PathBuf, PathBuf)],
        sink: &mut TableSink,
        rejects: &mut Rejects,
    ) -> Result<Counts> {
        let bar = progress::bytes(Some(files.len() as u64), "files");
        let mut reporter = Reporter {
            rejects,
            bar: &bar,
            name: "files",
            noun: " series ",
        };
        let mut series = Series::new(&self.tag);
        let mut counts = Counts::default();
        for (path, folder) in files {
            counts.files += 1;
            bar.inc(1);
            match read(path, folder) {
                Ok((labels, file)) => {
                    let coarse = file.archives.iter().skip(1).map(|archive| archive.samples);
                    counts.coarse += coarse.sum::<usize>() as u64;
                    let (times, values) =
                        file.samples.into_iter().unzip::<u32, f64, Vec<_>, Vec<_>>();
                    let times = times
                        .into_iter()
                        .map(|s| Some(i64::from(s) * 1_000_000_000));
                    // Times of 32 bits fit.
                    series.add(labels, times.collect(), values, counts.files);
                }
                Err(error) => {
                    counts.failed += 1;
                    bar.suspend(|| reporter.rejects.report_file(path, &error));
                }
            }
            if series.samples() >= BATCH_SAMPLES {
                series.write(sink, &mut reporter)?;
            }
        }
        series.write(sink, &mut reporter)?;
        bar.finish_and_clear();
        Ok(counts)
    }
}

/// Adds the Whisper files in a folder and below, each with its root.
fn list(path: &Path, root: &Path, files: &mut Vec<(PathBuf, PathBuf)>) -> Result<()> {
    let context = || format!("{} cannot be read", path.display());
    let metadata = fs::metadata(path).with_context(context)?;
    if !metadata.is_dir() {
        let folder = match path == root {
            true => path.parent().unwrap_or(root),
            false => root,
        };
        files.push((path.to_path_buf(), folder.to_path_buf()));
        return Ok(());
    }
    for entry in fs::read_dir(path).with_context(context)? {
        let below = entry.with_context(context)?.path();
        // A link to a folder could lead in a circle.
        let kind = fs::symlink_metadata(&below)
            .with_context(context)?
            .file_type();
        let is_whisper = below
            .extension()
            .is_some_and(|extension| extension == "wsp");
        if kind.is_dir() || is_whisper && !below.is_dir() {
            list(&below, root, files)?;
        }
    }
    Ok(())
}

fn read(path: &Path, folder: &Path) -> Result<(Labels, WhisperFile)> {
    let labels = labels(path.strip_prefix(folder).unwrap_or(path))?;
    let bytes = fs::metadata(path)?.len();
    ensure!(
        bytes <= FILE_BYTES,
        "the file has {bytes} bytes, and at most {FILE_BYTES} are read"
    );
    let file = decode(&fs::read(path)?)?;
    Ok((labels, file))
}

/// Returns the name and the tags that the path of a file states.
///
/// # Errors
/// If the path is not one that Carbon writes.
fn labels(path: &Path) -> Result<Labels> {
    let path = path.with_extension("");
    let parts: Option<Vec<&str>> = path.iter().map(|part| part.to_str()).collect();
    let parts = parts.context("the path is not valid UTF-8")?;
    let name = match parts.as_slice() {
        [TAGGED, .., tagged] => {
            ensure!(
                tagged.contains(';'),
                "the name of the file is a hash, from which the metric cannot be restored (TAG_HASH_FILENAMES of Carbon)"
            );
            tagged.replace("_DOT_", ".")
        }
        parts => parts.join("."),
    };
    let mut texts = name.split(';');
    let mut labels = Labels::new();
    labels.insert(
        "__name__".to_string(),
        texts.next().unwrap_or_default().to_string(),
    );
    for text in texts {
        let (tag, value) = text.split_once('=').with_context(|| {
            format!("{text:?} in the name of the file is not of the form tag=value")
        })?;
        labels.insert(tag.to_string(), value.to_string());
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_names_and_tags() {
        let text = |path: &str| labels(Path::new(path)).map(|labels| format!("{labels:?}"));
        assert_eq!(
            text("house/kitchen/temp.wsp").unwrap(),
            r#"{"__name__": "house.kitchen.temp"}"#
        );
        assert_eq!(
            text("_tagged/b6c/34f/disk_DOT_used;host=a_DOT_b;mount=x.wsp").unwrap(),
            r#"{"__name__": "disk.used", "host": "a.b", "mount": "x"}"#
        );
        assert!(text("_tagged/b6c/34f/b6c34f.wsp").is_err());
        assert!(text("_tagged/b6c/34f/disk;host.wsp").is_err());
    }
}
