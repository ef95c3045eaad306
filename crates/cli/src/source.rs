//! Files to read from: standard input or named ones, packed by gzip or not.

use crate::progress::{self, Watched};
use anyhow::{Context, Result};
use flate2::bufread::MultiGzDecoder;
use indicatif::ProgressBar;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, stdin};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// An open file: its name for messages, its contents, the bar that shows how far it is read.
pub struct Source {
    /// The name; `standard input` for `-`.
    pub name: String,
    /// The contents, unpacked.
    pub reader: Box<dyn Read>,
    /// Whether the contents end where they were meant to: a pipe ends as well when its writer dies.
    pub is_whole: bool,
    /// The bar.
    pub bar: ProgressBar,
}

/// Opens a file; `-` is standard input. Packed contents are known by their first bytes.
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
        // The end of packed contents is checked when they are unpacked.
        is_whole: is_file || packed,
        bar,
    })
}

/// The files named, or standard input where none is.
pub fn or_standard_input(files: Vec<PathBuf>) -> Vec<PathBuf> {
    if files.is_empty() {
        vec![PathBuf::from("-")]
    } else {
        files
    }
}
