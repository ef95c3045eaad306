//! Symbols of a block: the names and values of labels, by number.

use super::window::Window;
use anyhow::{Context, Result, bail, ensure};
use crc_fast::{CrcAlgorithm, Digest};
use seiner_wire::tsdb::index::{
    MAX_LENGTH_BYTES, SYMBOLS_HEADER_BYTES, decode_length, decode_symbols_header,
};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Number of symbols per known position. Others are found by reading those before.
const STRIDE: u32 = 64;

/// Bytes of a read.
const PIECE: usize = 16 << 10;

/// Maximum bytes of a symbol.
const SYMBOL_BYTES: u64 = 16 << 20;

/// Maximum bytes of the texts that are kept.
const KEPT_BYTES: usize = 4 << 20;

/// Symbols in an index. Memory is bounded by one position per [`STRIDE`] symbols, and by [`KEPT_BYTES`].
pub struct Symbols {
    window: Window,
    /// Position of every symbol whose number is a multiple of [`STRIDE`].
    starts: Vec<u64>,
    count: u32,
    /// End of the last symbol.
    end: u64,
    kept: HashMap<u32, Arc<str>>,
    kept_bytes: usize,
}

impl Symbols {
    /// Finds the symbols of the index at a position, and compares their checksum.
    ///
    /// # Errors
    /// If the symbols are damaged, or the file cannot be read.
    pub fn open(path: &Path, at: u64) -> Result<Symbols> {
        let mut window = Window::open(path, PIECE)?;
        let (bytes, count) = decode_symbols_header(window.read(at, SYMBOLS_HEADER_BYTES)?)
            .with_context(|| format!("the symbols at byte {at} are damaged"))?;
        // The length does not count itself. The number of symbols belongs to the checksum.
        let (from, end) = (at + 4, at + 4 + u64::from(bytes));
        check(&mut window, from, end)?;
        let mut symbols = Symbols {
            window,
            starts: Vec::new(),
            count,
            end,
            kept: HashMap::new(),
            kept_bytes: 0,
        };
        let mut at = at + SYMBOLS_HEADER_BYTES as u64;
        for number in 0..count {
            if number % STRIDE == 0 {
                symbols.starts.push(at);
            }
            at = symbols.text_at(at)?.1;
        }
        Ok(symbols)
    }

    /// Returns a symbol.
    ///
    /// # Errors
    /// If there is no such symbol, or the file cannot be read.
    pub fn get(&mut self, number: u32) -> Result<Arc<str>> {
        if let Some(text) = self.kept.get(&number) {
            return Ok(text.clone());
        }
        ensure!(
            number < self.count,
            "symbol {number} is missing: there are {}",
            self.count
        );
        let mut at = self.starts[(number / STRIDE) as usize];
        for _ in 0..number % STRIDE {
            at = self.text_at(at)?.1;
        }
        let (start, end) = self.text_at(at)?;
        let bytes = self.window.read(start, (end - start) as usize)?;
        let text =
            std::str::from_utf8(bytes).with_context(|| format!("symbol {number} is not UTF-8"))?;
        let text: Arc<str> = text.into();
        if self.kept_bytes > KEPT_BYTES {
            self.kept.clear();
            self.kept_bytes = 0;
        }
        self.kept_bytes += text.len() + size_of::<(u32, Arc<str>)>();
        self.kept.insert(number, text.clone());
        Ok(text)
    }

    /// Returns the begin and the end of the text of the symbol at a position.
    fn text_at(&mut self, at: u64) -> Result<(u64, u64)> {
        let (length, bytes) = decode_length(self.window.read(at, MAX_LENGTH_BYTES)?)
            .with_context(|| format!("the symbol at byte {at} is damaged"))?;
        let start = at + bytes as u64;
        if length > SYMBOL_BYTES || start + length > self.end {
            bail!("the symbol at byte {at} has the impossible length {length}");
        }
        Ok((start, start + length))
    }
}

/// Compares the checksum of a part of a file. The checksum is behind the part.
fn check(window: &mut Window, from: u64, end: u64) -> Result<()> {
    let mut running = Digest::new(CrcAlgorithm::Crc32Iscsi);
    let mut at = from;
    while at < end {
        let piece = window.read(at, (end - at).min(PIECE as u64) as usize)?;
        ensure!(
            !piece.is_empty(),
            "the symbols end at byte {at} instead of {end}: the file is too short"
        );
        running.update(piece);
        at += piece.len() as u64;
    }
    let stated = window.read(end, 4)?.try_into().map(u32::from_be_bytes);
    let stated = stated.context("the file ends before the checksum of the symbols")?;
    let found = running.finalize() as u32;
    ensure!(
        stated == found,
        "the symbols at byte {from} have the checksum {found:08x} instead of {stated:08x}"
    );
    Ok(())
}
