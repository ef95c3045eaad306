//! Table of symbols: the texts of a request of version 2.

use super::notation::put_label;
use crate::protobuf::{Content, Fault, Fields, Malformed};

/// Number of the field that contains a symbol.
const SYMBOLS: u32 = 4;

/// Symbols of a request, by number.
///
/// A symbol takes four bytes of memory besides the request.
#[derive(Debug, Default)]
pub(super) struct Symbols<'a> {
    request: &'a [u8],
    /// Offsets of the symbols in the request. The length of the symbol is there.
    offsets: Vec<u32>,
}

impl<'a> Symbols<'a> {
    /// Finds the symbols of a request.
    ///
    /// # Errors
    /// If the request is malformed, or longer than 4 GiB.
    pub fn of(request: &'a [u8]) -> Result<Symbols<'a>, Malformed> {
        let mut fields = Fields::new(request, 0);
        let mut offsets = Vec::new();
        while let Some(field) = fields.next()? {
            match field {
                (SYMBOLS, Content::Bytes(symbol)) => {
                    // The length is read again with the symbol, whatever its number of bytes.
                    let begin = fields.at() - symbol.len();
                    let offset = begin - number_before(request, begin);
                    match u32::try_from(offset) {
                        Ok(offset) => offsets.push(offset),
                        Err(_) => return Err(fields.error(Fault::Symbols)),
                    }
                }
                (SYMBOLS, _) => return Err(fields.error(Fault::FieldType)),
                _ => {}
            }
        }
        Ok(Symbols { request, offsets })
    }

    /// Returns the number of symbols.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Returns a symbol by its number.
    #[inline]
    pub fn get(&self, number: u64) -> Option<&'a [u8]> {
        let offset = *self.offsets.get(usize::try_from(number).ok()?)? as usize;
        let mut fields = Fields::new(self.request, 0).from(offset);
        let len = fields.number().ok()? as usize;
        let begin = fields.at();
        self.request.get(begin..begin.checked_add(len)?)
    }

    /// Appends the labels that a series refers to. Returns `None` if a reference leads nowhere, or if the last label
    /// has no value.
    pub fn put_name(&self, series: Fields<'a>, name: &mut Vec<u8>) -> Option<()> {
        let mut label = None;
        for_references(series, |number| {
            let symbol = self.get(number)?;
            match label.take() {
                None => label = Some(symbol),
                Some(label) => put_label(label, symbol, name),
            }
            Some(())
        })?;
        label.is_none().then_some(())
    }

    /// Returns the number and text of the value of a label of a series.
    pub fn value_of(&self, series: Fields<'a>, wanted: &[u8]) -> Option<(u64, &'a [u8])> {
        let (mut is_value, mut is_wanted, mut found) = (false, false, None);
        for_references(series, |number| {
            let symbol = self.get(number)?;
            match is_value {
                true if is_wanted => found = found.or(Some((number, symbol))),
                true => {}
                false => is_wanted = symbol == wanted,
            }
            is_value = !is_value;
            Some(())
        })?;
        found
    }
}

/// Calls `take` with every reference of a series. Returns `None` as soon as `take` does.
fn for_references<'a>(
    mut series: Fields<'a>,
    mut take: impl FnMut(u64) -> Option<()>,
) -> Option<()> {
    while let Some(field) = series.next().ok()? {
        match field {
            (1, Content::Bytes(packed)) => {
                let mut numbers = Fields::new(packed, 0);
                while !numbers.is_empty() {
                    take(numbers.number().ok()?)?;
                }
            }
            (1, Content::Number(number)) => take(number)?,
            _ => {}
        }
    }
    Some(())
}

/// Returns the number of bytes of the number of variable length that ends before an offset and states the length of the
/// content there. The byte before it is the tag of the field, which is less than 0x80.
fn number_before(request: &[u8], end: usize) -> usize {
    let mut len = 1;
    while len < 10 && len < end && request[end - len - 1] >= 0x80 {
        len += 1;
    }
    len
}
