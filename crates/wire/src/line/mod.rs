//! Line protocol: `measurement,tag=value field=1.5,other=2i 1700000000000000000`.
//!
//! The parser turns text into rows in one pass. Names and texts borrow from the input, or from an [`Arena`] if
//! they contain escapes; the parser allocates nothing per line. The name of a source keeps its written form. A
//! store that sees the name for the first time parses it with [`LineNotation`]. A line with an error is
//! rejected as a whole and reported by number; other lines are not affected.

mod added_tag;
mod end;
mod escape;
mod fault;
mod notation;
mod number;
mod precision;
mod scan;
#[cfg(test)]
mod tests;

pub use added_tag::{AddedTag, AddedTagError};
pub use escape::Arena;
pub(crate) use escape::{escape_measurement, escape_tag};
pub(crate) use fault::shown;
pub use fault::{LineError, LineReason};
pub use notation::LineNotation;
pub use precision::{Precision, PrecisionError};

use end::LineEnd;
use escape::{IN_NAME, IN_TEXT, find_quote, is_escaped};
use memchr::{memchr, memchr_iter, memrchr};
use number::{Number, NumberFault};
use seiner_model::{Batch, Cell, Row, Value, plausible_times, plausible_unit, rfc3339};
use std::ops::RangeInclusive;

/// Parser of lines into batches. It counts lines.
///
/// One parser reads one text from the first line to the last, in any number of pieces.
#[derive(Debug)]
pub struct LineParser {
    precision: Precision,
    refuse_1970: bool,
    /// True if the unit of a time follows from its number.
    guess_unit: bool,
    /// Length of a unit in ns, for times that [`LineParser::short_time`] parses.
    unit: i64,
    /// Times in ns that [`LineParser::short_time`] accepts. Others are parsed and examined by the slow path.
    plain: RangeInclusive<i64>,
    /// Number of the line at the front of the next piece, from 1.
    line: u64,
    /// Number of newlines within quoted texts of the current line.
    inner_newlines: u64,
    /// Rows whose line does not directly follow the previous row's line, each with its line number.
    strides: Vec<(usize, u64)>,
    /// Line number minus row index at the last entry of `strides`.
    lead: u64,
    /// State of the search for the end of a rejected line, while its rest is skipped.
    passing: Option<LineEnd>,
}

type Fault = Box<LineReason>;

impl LineParser {
    /// Maximum length of a line in bytes.
    pub const MAX_LINE: usize = 1 << 20;

    /// Creates a parser at line 1 for times in `precision`.
    pub fn new(precision: Precision) -> LineParser {
        LineParser {
            precision,
            refuse_1970: false,
            guess_unit: false,
            unit: precision.ns(),
            plain: i64::MIN..=i64::MAX,
            line: 1,
            inner_newlines: 0,
            strides: Vec::new(),
            lead: 0,
            passing: None,
        }
    }

    /// Rejects lines whose time is not plausible in this precision but lies between 1990 and 2100 in a coarser
    /// one. Such times usually land in 1970, because the precision parameter is missing.
    #[must_use]
    pub fn refuse_1970(mut self, refuse: bool) -> LineParser {
        self.refuse_1970 = refuse;
        self.plain = match refuse {
            true => plausible_times(),
            false => i64::MIN..=i64::MAX,
        };
        self
    }

    /// Gives each time the unit that its number suggests, as InfluxDB 3 does: numbers below 5·10⁹ are seconds, below
    /// 5·10¹² milliseconds, below 5·10¹⁵ microseconds, and larger ones nanoseconds. The precision has no effect then.
    #[must_use]
    pub fn guess_unit(mut self, guess: bool) -> LineParser {
        self.guess_unit = guess;
        if guess {
            // Times of 19 digits are ns in any case.
            self.precision = Precision::Ns;
        }
        self
    }

    /// Parses whole lines from the front of `text`, until the batch contains `max_rows` rows or the text ends.
    /// Returns the number of bytes consumed.
    ///
    /// The caller puts the remaining bytes at the front of the next call's text, with more bytes behind them.
    /// Bytes remain if the last line has no newline, or if the batch is full. `last` means that no bytes
    /// follow, so the last line needs no newline. Lines without a time get the time `now`, in ns. Rejected
    /// lines are appended to `errors`.
    #[expect(
        clippy::too_many_arguments,
        reason = "a text, where it goes, and its bounds"
    )]
    pub fn parse<'a>(
        &mut self,
        text: &'a [u8],
        last: bool,
        now: i64,
        max_rows: usize,
        arena: &'a Arena,
        batch: &mut Batch<'a>,
        errors: &mut Vec<LineError>,
    ) -> usize {
        if batch.rows.is_empty() {
            self.strides.clear();
        }
        let mut at = self.pass(text);
        let end = if last {
            text.len()
        } else {
            memrchr(b'\n', text).map_or(at, |newline| at.max(newline + 1))
        };
        let lines = &text[..end];
        while batch.rows.len() < max_rows && self.passing.is_none() {
            at = line_start(lines, at, &mut self.line);
            if at == end {
                break;
            }
            let first_cell = batch.cells.len();
            let fault = match self.row(lines, at, now, arena, batch) {
                Ok(next) if next - at <= Self::MAX_LINE => {
                    self.count(batch.rows.len() - 1);
                    at = next;
                    continue;
                }
                Ok(_) => {
                    batch.rows.pop();
                    LineReason::TooLong
                }
                Err(fault) => *fault,
            };
            batch.cells.truncate(first_cell);
            self.inner_newlines = 0;
            // The closing quote of the text may be in the next piece.
            if matches!(fault, LineReason::OpenText { .. }) && !last {
                break;
            }
            at += self.refuse(fault, &text[at..], errors);
        }
        if !last && text.len() - at > Self::MAX_LINE && batch.rows.len() < max_rows {
            at += self.refuse(LineReason::TooLong, &text[at..], errors);
        }
        at
    }

    /// Ends a text that was parsed to its end. The next piece begins a new text, with the next line number.
    pub fn end_text(&mut self) {
        self.passing = None;
        self.inner_newlines = 0;
    }

    /// Returns the number of the line at the front of the next piece, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Returns the number of the line that contained a row of the batch. `row` is an index into the rows that
    /// this parser has added since the batch was empty.
    pub fn line_of_row(&self, row: usize) -> u64 {
        let after = self.strides.partition_point(|(first, _)| *first <= row);
        let (first, line) = after.checked_sub(1).map_or((0, 1), |at| self.strides[at]);
        line + (row - first) as u64
    }

    /// Records the line number of `row` and advances to the next line.
    #[inline(always)]
    fn count(&mut self, row: usize) {
        let lead = self.line.wrapping_sub(row as u64);
        if lead != self.lead || self.strides.is_empty() {
            self.lead = lead;
            self.strides.push((row, self.line));
        }
        self.line += 1 + self.inner_newlines;
        self.inner_newlines = 0;
    }
}

impl LineParser {
    /// Skips the rest of a line that was rejected before its end was seen. Returns the number of bytes skipped.
    fn pass(&mut self, text: &[u8]) -> usize {
        match self.passing.take() {
            Some(line_end) => self.pass_from(line_end, text),
            None => 0,
        }
    }

    /// Rejects the line at the front of `text` and skips it. Returns the number of bytes skipped.
    #[cold]
    fn refuse(&mut self, reason: LineReason, text: &[u8], errors: &mut Vec<LineError>) -> usize {
        errors.push(LineError {
            line: self.line,
            reason,
        });
        self.pass_from(LineEnd::default(), text)
    }

    fn pass_from(&mut self, mut line_end: LineEnd, text: &[u8]) -> usize {
        let len = line_end.find(text).unwrap_or_else(|| {
            self.passing = Some(line_end);
            text.len()
        });
        self.line += memchr_iter(b'\n', &text[..len]).count() as u64;
        len
    }

    /// Parses the line at `at` into the batch. Returns the start of the next line.
    #[inline(always)]
    fn row<'a>(
        &mut self,
        text: &'a [u8],
        at: usize,
        now: i64,
        arena: &'a Arena,
        batch: &mut Batch<'a>,
    ) -> Result<usize, Fault> {
        let name_end = name_end(text, at)?;
        let first_cell = batch.cells.len();
        let mut next = spaces_end(text, name_end);
        loop {
            next = self.cell(text, next, arena, &mut batch.cells)?;
            if text.get(next) != Some(&b',') {
                break;
            }
            next += 1;
        }
        let (time, next) = self.time(text, next, now)?;
        batch.rows.push(Row {
            name: &text[at..name_end],
            time,
            first_cell: first_cell as u32,
            cells: (batch.cells.len() - first_cell) as u32,
        });
        Ok(next)
    }

    /// Parses the `field=value` at `at`. Returns the index after its end.
    #[inline(always)]
    fn cell<'a>(
        &mut self,
        text: &'a [u8],
        at: usize,
        arena: &'a Arena,
        cells: &mut Vec<Cell<'a>>,
    ) -> Result<usize, Fault> {
        let (field, at) = match short_field(text, at) {
            Some(short) => short,
            None => any_field(text, at, arena)?,
        };
        // Each type is pushed separately: merging the values into one variable first costs more than parsing
        // them.
        let end = match number::short(text, at) {
            Some((Number::Float(value), end)) => {
                cells.push(Cell {
                    field,
                    value: Value::F64(value),
                });
                end
            }
            Some((Number::Signed(value), end)) => {
                cells.push(Cell {
                    field,
                    value: Value::I64(value),
                });
                end
            }
            Some((Number::Unsigned(value), end)) => {
                cells.push(Cell {
                    field,
                    value: Value::U64(value),
                });
                end
            }
            None => {
                let (value, end) = self.any_value(text, at, field, arena)?;
                cells.push(Cell { field, value });
                end
            }
        };
        Ok(end)
    }

    fn any_value<'a>(
        &mut self,
        text: &'a [u8],
        at: usize,
        field: &[u8],
        arena: &'a Arena,
    ) -> Result<(Value<'a>, usize), Fault> {
        if text.get(at) == Some(&b'"') {
            let end = find_quote(text, at + 1).ok_or_else(|| LineReason::OpenText {
                field: shown(field),
            })?;
            let raw = &text[at + 1..end];
            self.inner_newlines += memchr_iter(b'\n', raw).count() as u64;
            let value = std::str::from_utf8(arena.unescape(raw, IN_TEXT)).map_err(|_| {
                LineReason::TextNotUtf8 {
                    field: shown(field),
                }
            })?;
            return Ok((Value::Str(value), end + 1));
        }
        let token = token(text, at);
        let value = match token {
            b"t" | b"T" | b"true" | b"True" | b"TRUE" => Value::Bool(true),
            b"f" | b"F" | b"false" | b"False" | b"FALSE" => Value::Bool(false),
            _ => number::value(token).map_err(|fault| value_fault(fault, field, token))?,
        };
        Ok((value, at + token.len()))
    }

    /// Parses the time after the fields, at `at`. Returns the time in ns and the start of the next line.
    #[inline(always)]
    fn time(&self, text: &[u8], at: usize, now: i64) -> Result<(i64, usize), Fault> {
        if self.precision == Precision::Ns
            && text.get(at) == Some(&b' ')
            && let Some(time) = number::nineteen_digits(text, at + 1)
        {
            return Ok((time, at + 21));
        }
        match self.short_time(text, at) {
            Some(found) => Ok(found),
            None => self.any_time(text, at, now),
        }
    }

    /// Fast path: parses a time of up to 16 digits and the newline after it. `None` means that
    /// [`LineParser::any_time`] must decide.
    #[inline(always)]
    fn short_time(&self, text: &[u8], at: usize) -> Option<(i64, usize)> {
        if text.get(at) != Some(&b' ') || self.guess_unit {
            return None;
        }
        let (units, len) = number::digits(text, at + 1)?;
        let end = at + 1 + len;
        // At most 16 digits fit in 64 bits.
        let time = (units as i64).checked_mul(self.unit)?;
        let is_plain = text.get(end) == Some(&b'\n') && self.plain.contains(&time);
        is_plain.then_some((time, end + 1))
    }

    fn any_time(&self, text: &[u8], at: usize, now: i64) -> Result<(i64, usize), Fault> {
        let start = spaces_end(text, at);
        if let Some(next) = line_break(text, start) {
            return Ok((now, next));
        }
        if start == at {
            return Err(Box::new(LineReason::Trailing {
                token: shown(token(text, at)),
            }));
        }
        let (token, mut precision) = (token(text, start), self.precision);
        let units = number::integer(token);
        if let (true, Ok(units)) = (self.guess_unit, &units) {
            precision = Precision::of(*units);
        }
        let time = units
            .and_then(|units| units.checked_mul(precision.ns()).ok_or(NumberFault::Range))
            .map_err(|fault| match fault {
                NumberFault::Range => LineReason::TimeRange {
                    token: shown(token),
                    precision,
                },
                _ => LineReason::NoTime {
                    token: shown(token),
                    precision,
                },
            })?;
        if self.refuse_1970
            && let Some((meant, unit)) = plausible_unit(time / precision.ns())
            && unit > precision.ns()
        {
            return Err(Box::new(LineReason::In1970 {
                token: shown(token),
                precision,
                lands: rfc3339(time),
                meant,
            }));
        }
        let end = spaces_end(text, start + token.len());
        match line_break(text, end) {
            Some(next) => Ok((time, next)),
            None => Err(Box::new(LineReason::Trailing {
                token: shown(self::token(text, end)),
            })),
        }
    }
}

/// Skips empty lines, comments and white space before a line.
#[inline(always)]
fn line_start(text: &[u8], mut at: usize, line: &mut u64) -> usize {
    while let Some(byte) = text.get(at) {
        match byte {
            b'\n' => *line += 1,
            b' ' | b'\t' | b'\r' => {}
            b'#' => {
                at = memchr(b'\n', &text[at..]).map_or(text.len(), |newline| at + newline);
                continue;
            }
            _ => break,
        }
        at += 1;
    }
    at
}

/// Returns the end of the name that starts at `start`: the first space that is not escaped.
#[inline(always)]
fn name_end(text: &[u8], start: usize) -> Result<usize, Fault> {
    let mut at = start;
    loop {
        at += scan::control_or_space(&text[at..]);
        match text.get(at) {
            Some(b' ') if !is_escaped(text, start, at) => return Ok(at),
            Some(b'\n') | None => return Err(Box::new(LineReason::NoFields)),
            Some(_) => at += 1,
        }
    }
}

/// Parses a field name of up to seven ASCII bytes without escapes. Returns the name and the start of the value.
/// Returns `None` for any other name, which is left to [`any_field`].
#[inline(always)]
fn short_field(text: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let word = scan::load(text, at)?;
    // Space and comma are below the minus. So are a few characters that names rarely contain.
    let odd = scan::below(word, b'-') | scan::equal(word, b'\\') | scan::beyond_ascii(word);
    let equals = scan::equal(word, b'=');
    let len = scan::first(equals);
    let before_equals = equals.wrapping_sub(1) & !equals;
    (equals != 0 && len > 0 && odd & before_equals == 0)
        .then(|| (&text[at..at + len], at + len + 1))
}

fn any_field<'a>(text: &'a [u8], at: usize, arena: &'a Arena) -> Result<(&'a [u8], usize), Fault> {
    let line = &text[at..];
    let end = (0..line.len())
        .find(|end| match line[*end] {
            b'\n' => true,
            b'=' | b',' | b' ' | b'\r' => !is_escaped(line, 0, *end),
            _ => false,
        })
        .unwrap_or(line.len());
    let field = arena.unescape(&line[..end], IN_NAME);
    match line.get(end) {
        Some(b'=') if field.is_empty() => Err(Box::new(LineReason::NoFieldName)),
        Some(b'=') if std::str::from_utf8(field).is_err() => {
            Err(Box::new(LineReason::FieldNameNotUtf8 {
                field: shown(field),
            }))
        }
        Some(b'=') => Ok((field, at + end + 1)),
        _ if field.is_empty() && text[at - 1] == b',' => Err(Box::new(LineReason::NoFieldName)),
        _ if field.is_empty() => Err(Box::new(LineReason::NoFields)),
        _ => Err(Box::new(LineReason::NoValue {
            field: shown(field),
        })),
    }
}

/// Returns the bytes from `at` up to the next comma, space, newline or carriage return.
fn token(text: &[u8], at: usize) -> &[u8] {
    let rest = &text[at..];
    let end = rest
        .iter()
        .position(|byte| matches!(byte, b',' | b' ' | b'\n' | b'\r'))
        .unwrap_or(rest.len());
    &rest[..end]
}

#[inline(always)]
fn spaces_end(text: &[u8], mut at: usize) -> usize {
    while text.get(at) == Some(&b' ') {
        at += 1;
    }
    at
}

/// Returns the start of the next line, if a line ends at `at`.
fn line_break(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at..)? {
        [] => Some(at),
        [b'\n', ..] => Some(at + 1),
        [b'\r', b'\n', ..] => Some(at + 2),
        [b'\r'] => Some(at + 1),
        _ => None,
    }
}

#[cold]
fn value_fault(fault: NumberFault, field: &[u8], token: &[u8]) -> Fault {
    let (field, shown) = (shown(field), shown(token));
    let numeric = token
        .first()
        .is_some_and(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.'));
    Box::new(match fault {
        _ if token.is_empty() => LineReason::NoValue { field },
        NumberFault::Syntax if numeric => LineReason::NoNumber {
            field,
            token: shown,
        },
        NumberFault::Syntax => LineReason::NoType {
            field,
            token: shown,
        },
        NumberFault::NotFinite => LineReason::NotFinite {
            field,
            token: shown,
        },
        NumberFault::Range => LineReason::Range {
            field,
            token: shown,
        },
    })
}
