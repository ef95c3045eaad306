//! Pickles of Python, reduced to lists, tuples, texts and numbers.
//!
//! A pickle is a program for a machine with a stack. This machine has the operations that build
//! `[(path, (time, value)), …]` in protocols 0 to 5. Operations that name classes or call functions do not exist here, so
//! that a pickle with them is rejected and nothing of it is run. Memory is proportional to the length of a pickle.

use super::sample::push;
use crate::Skipped;
use crate::line::Arena;
use seiner_model::Batch;
use std::collections::HashMap;

/// Maximum length of a pickle in bytes, as in Carbon.
pub const MAX_PICKLE: usize = 1 << 20;

/// Fault of a pickle, at the position of an operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: {fault}")]
pub struct PickleError {
    /// Position in the pickle.
    pub at: usize,
    /// Cause, with the remedy.
    pub fault: &'static str,
}

/// List of samples that a pickle contains.
#[derive(Debug)]
pub struct Pickle<'p> {
    nodes: Vec<Item<'p>>,
    /// Elements of the list that the pickle returns.
    samples: Vec<Item<'p>>,
    next: usize,
}

/// Value on the stack.
#[derive(Clone, Copy, Debug)]
enum Item<'p> {
    Mark,
    /// Bytes of a text.
    Text(&'p [u8]),
    Number(f64),
    /// Value that cannot be part of a sample, such as None.
    Other,
    /// Items of `nodes`.
    Tuple {
        first: usize,
        len: usize,
    },
    /// Index of a list.
    List(usize),
}

/// Machine that runs a pickle.
struct Machine<'p> {
    pickle: &'p [u8],
    at: usize,
    stack: Vec<Item<'p>>,
    nodes: Vec<Item<'p>>,
    lists: Vec<Vec<Item<'p>>>,
    memo: HashMap<u64, Item<'p>>,
    memoized: u64,
}

type Fault = &'static str;

const ENDS: Fault = "the pickle ends too early";
const EMPTY: Fault = "an operation has too few values on the stack";
const SHAPE: Fault = "the pickle is not a list of tuples; send [(path, (time, value)), ...]";

impl<'p> Pickle<'p> {
    /// Reads the list of a pickle.
    ///
    /// # Errors
    /// If the bytes are no pickle, contain another operation than those for lists of tuples, or are too long.
    pub fn parse(pickle: &'p [u8]) -> Result<Pickle<'p>, PickleError> {
        let mut machine = Machine {
            pickle,
            at: 0,
            stack: Vec::new(),
            nodes: Vec::new(),
            lists: Vec::new(),
            memo: HashMap::new(),
            memoized: 0,
        };
        if pickle.len() > MAX_PICKLE {
            let fault = "the pickle is longer than 1 MiB; send several shorter ones";
            return Err(PickleError {
                at: MAX_PICKLE,
                fault,
            });
        }
        loop {
            let at = machine.at;
            match machine.step() {
                Ok(true) => {}
                Ok(false) => break,
                Err(fault) => return Err(PickleError { at, fault }),
            }
        }
        let samples = match machine.stack.pop() {
            Some(Item::List(list)) => std::mem::take(&mut machine.lists[list]),
            // A tuple of tuples is accepted, too.
            Some(Item::Tuple { first, len }) => machine.nodes[first..first + len].to_vec(),
            _ => {
                return Err(PickleError {
                    at: machine.at,
                    fault: SHAPE,
                });
            }
        };
        Ok(Pickle {
            nodes: machine.nodes,
            samples,
            next: 0,
        })
    }

    /// Appends the next sample. Returns `None` after the last one. `now` is the time for −1, in ns.
    pub fn next_row<'b>(
        &mut self,
        now: i64,
        arena: &'b Arena,
        batch: &mut Batch<'b>,
    ) -> Option<Result<(), Skipped>>
    where
        'p: 'b,
    {
        let sample = *self.samples.get(self.next)?;
        self.next += 1;
        Some(match self.sample(sample) {
            Some((path, time, value)) => push(path, value, Some(time), now, arena, batch),
            None => Err(Skipped::because(
                "an element is not (path, (time, value)) with a text and two numbers",
            )),
        })
    }

    /// Returns the number of samples.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Returns whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    fn sample(&self, item: Item<'p>) -> Option<(&'p [u8], f64, f64)> {
        let [Item::Text(path), point] = self.tuple(item)? else {
            return None;
        };
        let [time, value] = self.tuple(*point)? else {
            return None;
        };
        Some((path, number(*time)?, number(*value)?))
    }

    fn tuple(&self, item: Item<'p>) -> Option<&[Item<'p>]> {
        match item {
            Item::Tuple { first, len } => self.nodes.get(first..first + len),
            _ => None,
        }
    }
}

/// Returns a number. A text with a number counts, because senders read values from files.
fn number(item: Item<'_>) -> Option<f64> {
    match item {
        Item::Number(number) => Some(number),
        Item::Text(text) => std::str::from_utf8(text).ok()?.trim().parse().ok(),
        _ => None,
    }
}

impl<'p> Machine<'p> {
    /// Runs an operation. Returns false at the end.
    fn step(&mut self) -> Result<bool, Fault> {
        let [operation] = self.take_array()?;
        match operation {
            b'.' => return Ok(false),
            b'(' => self.stack.push(Item::Mark),
            b']' => self.push_list(Vec::new()),
            b'l' => {
                let items = self.pop_to_mark()?;
                self.push_list(items);
            }
            b'a' => {
                let item = self.pop()?;
                self.append([item])?;
            }
            b'e' => {
                let items = self.pop_to_mark()?;
                self.append(items)?;
            }
            b')' => self.push_tuple(&[]),
            b't' => {
                let items = self.pop_to_mark()?;
                self.push_tuple(&items);
            }
            0x85..=0x87 => {
                let len = usize::from(operation - 0x84);
                let begin = self.stack.len().checked_sub(len).ok_or(EMPTY)?;
                let items = self.stack.split_off(begin);
                self.push_tuple(&items);
            }
            // The protocol, and the length of a frame.
            0x80 => drop(self.take(1)?),
            0x95 => drop(self.take(8)?),
            b'N' | 0x88 | 0x89 => self.stack.push(Item::Other),
            b'p' | b'q' | b'r' | 0x94 | b'g' | b'h' | b'j' => self.memo(operation)?,
            _ => {
                let item = self.literal(operation)?;
                self.stack.push(item);
            }
        }
        Ok(true)
    }

    /// Returns the text or number that an operation contains.
    fn literal(&mut self, operation: u8) -> Result<Item<'p>, Fault> {
        let len = match operation {
            0x8c | b'U' | b'C' => Some(u64::from(u8::from_le_bytes(self.take_array()?))),
            b'X' | b'T' | b'B' => Some(u64::from(u32::from_le_bytes(self.take_array()?))),
            0x8d | 0x8e => Some(u64::from_le_bytes(self.take_array()?)),
            _ => None,
        };
        if let Some(len) = len {
            return Ok(Item::Text(
                self.take(usize::try_from(len).map_err(|_| ENDS)?)?,
            ));
        }
        Ok(match operation {
            b'V' => Item::Text(plain(self.take_line()?)?),
            b'S' => Item::Text(plain(quoted(self.take_line()?)?)?),
            b'I' | b'L' | b'F' => decimal(self.take_line()?)?,
            b'J' => Item::Number(f64::from(i32::from_le_bytes(self.take_array()?))),
            b'K' => Item::Number(f64::from(u8::from_le_bytes(self.take_array()?))),
            b'M' => Item::Number(f64::from(u16::from_le_bytes(self.take_array()?))),
            b'G' => Item::Number(f64::from_be_bytes(self.take_array()?)),
            0x8a => {
                let [len] = self.take_array()?;
                long(self.take(usize::from(len))?)?
            }
            _ => {
                return Err(
                    "an operation is not one of lists, tuples, texts and numbers; send [(path, (time, value)), ...]",
                );
            }
        })
    }

    /// Stores the top of the stack in the memo, or pushes a value of the memo.
    fn memo(&mut self, operation: u8) -> Result<(), Fault> {
        let key = match operation {
            b'p' | b'g' => {
                let text = std::str::from_utf8(self.take_line()?).ok();
                text.and_then(|text| text.parse().ok())
                    .ok_or("a key of the memo is not a number")?
            }
            b'q' | b'h' => u64::from(u8::from_le_bytes(self.take_array()?)),
            b'r' | b'j' => u64::from(u32::from_le_bytes(self.take_array()?)),
            _ => self.memoized,
        };
        if matches!(operation, b'g' | b'h' | b'j') {
            let item = self.memo.get(&key).ok_or("a key of the memo is unknown")?;
            self.stack.push(*item);
        } else {
            let top = *self.stack.last().ok_or(EMPTY)?;
            self.memo.insert(key, top);
            self.memoized += 1;
        }
        Ok(())
    }

    fn append(&mut self, items: impl IntoIterator<Item = Item<'p>>) -> Result<(), Fault> {
        let Some(Item::List(list)) = self.stack.last() else {
            return Err("a value is appended to something that is not a list");
        };
        self.lists[*list].extend(items);
        Ok(())
    }

    fn push_list(&mut self, items: Vec<Item<'p>>) {
        self.stack.push(Item::List(self.lists.len()));
        self.lists.push(items);
    }

    fn push_tuple(&mut self, items: &[Item<'p>]) {
        let (first, len) = (self.nodes.len(), items.len());
        self.nodes.extend_from_slice(items);
        self.stack.push(Item::Tuple { first, len });
    }

    fn pop(&mut self) -> Result<Item<'p>, Fault> {
        match self.stack.pop() {
            None | Some(Item::Mark) => Err(EMPTY),
            Some(item) => Ok(item),
        }
    }

    fn pop_to_mark(&mut self) -> Result<Vec<Item<'p>>, Fault> {
        let is_mark = |item: &Item<'_>| matches!(item, Item::Mark);
        let mark = self.stack.iter().rposition(is_mark).ok_or(EMPTY)?;
        let items = self.stack.split_off(mark + 1);
        self.stack.truncate(mark);
        Ok(items)
    }

    fn take(&mut self, len: usize) -> Result<&'p [u8], Fault> {
        let rest = &self.pickle[self.at..];
        let bytes = rest.get(..len).ok_or(ENDS)?;
        self.at += len;
        Ok(bytes)
    }

    fn take_array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        self.take(N)?.try_into().map_err(|_| ENDS)
    }

    fn take_line(&mut self) -> Result<&'p [u8], Fault> {
        let rest = &self.pickle[self.at..];
        let end = memchr::memchr(b'\n', rest).ok_or(ENDS)?;
        self.at += end + 1;
        Ok(&rest[..end])
    }
}

/// Returns the text between quotes, as Python writes it.
fn quoted(line: &[u8]) -> Result<&[u8], Fault> {
    match line {
        [open @ (b'\'' | b'"'), text @ .., close] if open == close => Ok(text),
        _ => Err("a text is not in quotes"),
    }
}

/// Returns a text if it contains no escapes, which paths do not need.
fn plain(text: &[u8]) -> Result<&[u8], Fault> {
    match text.contains(&b'\\') {
        true => Err("a text of protocol 0 contains a backslash; use protocol 2 or later"),
        false => Ok(text),
    }
}

fn decimal<'p>(line: &[u8]) -> Result<Item<'p>, Fault> {
    let line = line.strip_suffix(b"L").unwrap_or(line);
    let text = std::str::from_utf8(line).ok();
    let number = text.and_then(|text| text.trim().parse().ok());
    number.map(Item::Number).ok_or("a number is not decimal")
}

/// Returns an integer in two's complement.
fn long<'p>(bytes: &[u8]) -> Result<Item<'p>, Fault> {
    if bytes.len() > 8 {
        return Err("an integer has more than 64 bits");
    }
    let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut whole = [if negative { 0xff } else { 0 }; 8];
    whole[..bytes.len()].copy_from_slice(bytes);
    Ok(Item::Number(i64::from_le_bytes(whole) as f64))
}
