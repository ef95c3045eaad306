//! Decoder of packets.

use super::parts::{Part, next_part, number, text};
use super::security::{Level, Security};
use super::types_db::Types;
use crate::Skipped;
use crate::line::Arena;
use crate::sample::Name;
use seiner_model::{Batch, Cell, SourceKey, Value};

/// Types of parts.
const HOST: u16 = 0x0000;
const TIME: u16 = 0x0001;
const PLUGIN: u16 = 0x0002;
const PLUGIN_INSTANCE: u16 = 0x0003;
const TYPE: u16 = 0x0004;
const TYPE_INSTANCE: u16 = 0x0005;
const VALUES: u16 = 0x0006;
const TIME_HIGH: u16 = 0x0008;
const MESSAGE: u16 = 0x0100;
const SIGNATURE: u16 = 0x0200;
const ENCRYPTION: u16 = 0x0210;

/// Types of values.
const COUNTER: u8 = 0;
const GAUGE: u8 = 1;
const DERIVE: u8 = 2;
const ABSOLUTE: u8 = 3;
/// Bytes of a value, its type included.
const VALUE_BYTES: usize = 9;

const SECOND: u64 = 1_000_000_000;
/// Fractions of a second in a time of high resolution, as bits.
const FRACTION_BITS: u32 = 30;

/// Decoder of packets.
#[derive(Clone, Default)]
pub struct Packets {
    /// Types and the names of their data sources.
    pub types: Types,
    /// Protection that packets must have.
    pub security: Security,
}

/// Content of a packet that became no row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    /// Number of rejected rows. A packet that cannot be read to its end counts once more.
    pub rejected: u64,
    /// First reason.
    pub reason: Option<String>,
    /// Number of values of NaN and of notifications, which are ignored.
    pub ignored: u64,
}

/// Texts and time that apply to the following values.
#[derive(Default)]
struct Context {
    host: String,
    plugin: String,
    plugin_instance: String,
    kind: String,
    type_instance: String,
    /// Time in ns since 1970; `None` before the first one.
    time: Option<i64>,
}

impl Packets {
    /// Appends the rows of a packet. `now` is the time in ns of rows before the first time of the packet.
    pub fn decode<'b>(
        &self,
        packet: &[u8],
        now: i64,
        arena: &'b Arena,
        batch: &mut Batch<'b>,
    ) -> Problems {
        let mut problems = Problems::default();
        let mut context = Context::default();
        let read = self.outer(packet, &mut |parts| {
            self.parts(parts, now, &mut context, arena, batch, &mut problems)
        });
        if let Err(reason) = read {
            problems.reject(reason);
        }
        problems
    }

    /// Reads a packet that may be signed, and passes on its parts as far as they have the required protection.
    fn outer(
        &self,
        mut packet: &[u8],
        take: &mut impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut level = Level::None;
        while let Some(part) = next_part(packet)? {
            match part.kind {
                SIGNATURE => {
                    if self.security.verify(part.content, part.rest)? {
                        level = Level::Sign;
                    }
                    packet = part.rest;
                }
                ENCRYPTION => {
                    take(&self.security.decrypt(part.content)?)?;
                    packet = part.rest;
                }
                // An encrypted part stands before all others of its packet.
                _ if level >= self.security.level => return take(packet),
                _ => {
                    let reason = match self.security.level {
                        Level::Encrypt => {
                            "the packet is not encrypted; set SecurityLevel Encrypt for the sender"
                        }
                        _ => "the packet is not signed; set SecurityLevel Sign for the sender",
                    };
                    return Err(reason.to_string());
                }
            }
        }
        Ok(())
    }

    /// Reads parts without protection.
    fn parts<'b>(
        &self,
        mut packet: &[u8],
        now: i64,
        context: &mut Context,
        arena: &'b Arena,
        batch: &mut Batch<'b>,
        problems: &mut Problems,
    ) -> Result<(), String> {
        while let Some(Part {
            kind,
            content,
            rest,
        }) = next_part(packet)?
        {
            match kind {
                HOST => context.host = text(content)?.to_string(),
                PLUGIN => context.plugin = text(content)?.to_string(),
                PLUGIN_INSTANCE => context.plugin_instance = text(content)?.to_string(),
                TYPE => context.kind = text(content)?.to_string(),
                TYPE_INSTANCE => context.type_instance = text(content)?.to_string(),
                TIME => context.time = Some(nanoseconds(number(content)?, 0)?),
                TIME_HIGH => context.time = Some(nanoseconds(number(content)?, FRACTION_BITS)?),
                VALUES => {
                    let row = self.row(content, now, context, arena, batch, problems);
                    if let Err(Skipped::Rejected(reason)) = row {
                        problems.reject(reason);
                    }
                }
                MESSAGE => problems.ignored += 1,
                // Parts of other types, such as the interval, are skipped, as collectd does.
                _ => {}
            }
            packet = rest;
        }
        Ok(())
    }

    /// Appends the row of a list of values.
    fn row<'b>(
        &self,
        content: &[u8],
        now: i64,
        context: &Context,
        arena: &'b Arena,
        batch: &mut Batch<'b>,
        problems: &mut Problems,
    ) -> Result<(), Skipped> {
        let name = context.name()?;
        let values = values(content).map_err(Skipped::Rejected)?;
        let count = values.len();
        let mut cells = Vec::with_capacity(count);
        for (at, value) in values.into_iter().enumerate() {
            if value.is_nan() {
                problems.ignored += 1;
                continue;
            }
            if value.is_infinite() {
                let reason = "the value is not finite";
                return Err(Skipped::because(reason));
            }
            let field = self.types.field(&context.kind, at, count);
            cells.push(Cell {
                field: arena.keep(field.as_bytes()),
                value: Value::F64(value),
            });
        }
        if !cells.is_empty() {
            batch.push(
                arena.keep(name.as_bytes()),
                context.time.unwrap_or(now),
                cells,
            );
        }
        Ok(())
    }
}

impl Context {
    /// Returns the name of the source of the following values.
    fn name(&self) -> Result<Name, Skipped> {
        if self.plugin.is_empty() || self.kind.is_empty() {
            return Err(Skipped::because("values have no plugin or no type"));
        }
        let mut name = Name::new(&self.plugin)?;
        for (tag, value) in [
            ("host", &self.host),
            ("instance", &self.plugin_instance),
            ("type", &self.kind),
            ("type_instance", &self.type_instance),
        ] {
            if !value.is_empty() {
                name.tag(tag, value)?;
            }
        }
        match name.as_bytes().len() > SourceKey::MAX_BYTES {
            true => Err(Skipped::because(format!(
                "the name is longer than {} bytes",
                SourceKey::MAX_BYTES
            ))),
            false => Ok(name),
        }
    }
}

impl Problems {
    fn reject(&mut self, reason: String) {
        self.rejected += 1;
        self.reason.get_or_insert(reason);
    }
}

/// Returns the values of a part. Only gauges have the order of bytes of Intel's processors.
fn values(content: &[u8]) -> Result<Vec<f64>, String> {
    let (count, rest) = content
        .split_first_chunk::<2>()
        .ok_or("a list of values is cut off")?;
    let count = usize::from(u16::from_be_bytes(*count));
    if rest.len() != count * VALUE_BYTES || count == 0 {
        return Err(format!("a list of {count} values has {} bytes", rest.len()));
    }
    let (kinds, values) = rest.split_at(count);
    let values = values.as_chunks::<8>().0;
    let values = kinds.iter().zip(values).map(|(kind, bytes)| match *kind {
        COUNTER | ABSOLUTE => Ok(u64::from_be_bytes(*bytes) as f64),
        DERIVE => Ok(i64::from_be_bytes(*bytes) as f64),
        GAUGE => Ok(f64::from_le_bytes(*bytes)),
        kind => Err(format!("a value has the unknown type {kind}")),
    });
    values.collect()
}

/// Returns a time in ns. The time is in seconds with this number of bits after the point.
fn nanoseconds(time: u64, bits: u32) -> Result<i64, String> {
    let ns = (u128::from(time) * u128::from(SECOND)) >> bits;
    i64::try_from(ns).map_err(|_| format!("time {time} is after the year 2262"))
}
