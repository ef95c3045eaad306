//! Input files: standard input or named files, optionally compressed by gzip.

use crate::progress::{self, Watched};
use anyhow::{Context, Result};
use flate2::bufread::MultiGzDecoder;
use indicatif::ProgressBar;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, stdin};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// An open input: its name, its contents and its progress bar.
pub struct Source {
    /// Name for messages; `standard input` for `-`.
    pub name: String,
    /// Decompressed contents.
    pub reader: Box<dyn Read>,
    /// True if the end of the contents is certain to be the intended end. A pipe also ends when its writer
    /// ends early.
    pub is_whole: bool,
    /// Progress bar over the bytes read.
    pub bar: ProgressBar,
}

/// Opens a file; `-` is standard input. Compressed contents are recognised by their first bytes.
///
/// # Errors
/// If the file cannot be opened or read.
pub fn open(path: &Path) -> Result<Source> {
    type Opened = (String, Option<u64>, bool, Box<dyn Read>);
    let (name, total, is_file, reader): Opened = if path == Path::new("-") {
        let reader = Box::new(stdin().lock());
        let is_file = stdin()
            .as_fd()
            .try_clone_to_owned()
            .and_then(|input| File::from(input).metadata())
            .is_ok_and(|metadata| metadata.is_file());
        ("standard input".to_string(), None, is_file, reader)
    } else {
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| format!("{name} cannot be opened"))?;
        let length = file
            .metadata()
            .ok()
            .filter(|metadata| metadata.is_file())
            .map(|metadata| metadata.len());
        (name, length, length.is_some(), Box::new(file))
    };
    let bar = progress::bytes(total, &name);
    let mut reader = BufReader::with_capacity(256 << 10, Watched::new(reader, bar.clone()));
    let packed = reader
        .fill_buf()
        .with_context(|| format!("{name} cannot be read"))?
        .starts_with(&[0x1f, 0x8b]);
    let reader: Box<dyn Read> = if packed {
        Box::new(MultiGzDecoder::new(reader))
    } else {
        Box::new(reader)
    };
    Ok(Source {
        name,
        reader,
        // The decompressor checks the end of compressed contents.
        is_whole: is_file || packed,
        bar,
    })
}

/// Returns the named files, or `-` (standard input) if none is named.
pub fn or_standard_input(files: Vec<PathBuf>) -> Vec<PathBuf> {
    if files.is_empty() {
        vec![PathBuf::from("-")]
    } else {
        files
    }
}
