//! Requests in JSON: they become Protocol Buffers while they are read, without a tree of values in between.

use super::base64;
use super::messages::{
    BUCKETS, DATA, EXPONENTIAL, HISTOGRAM, METRIC, NUMBER, QUANTILE, REQUEST, RESOURCE,
    RESOURCE_METRICS, SCOPE_METRICS, SUMMARY,
};
use crate::protobuf::put_number;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess};
use std::fmt;

/// Number of bytes that are reserved for the length of a message.
const LENGTH_BYTES: usize = 5;
const TOO_LONG: &str = "the request is too long";

/// Error of a request in JSON.
#[derive(Debug, thiserror::Error)]
pub enum BadJson {
    /// The body is no JSON, or a field has the wrong type.
    #[error("{0}")]
    Syntax(serde_json::Error),
    /// The request is longer than the limit, in Protocol Buffers.
    #[error("the request is too long")]
    TooLong,
}

/// Converts an `ExportMetricsServiceRequest` from JSON to Protocol Buffers of at most `max_bytes`.
///
/// Unknown fields are ignored, and integers may be texts. Exemplars become empty.
///
/// # Errors
/// If the body is not such a request, or too long.
pub fn from_json(body: &[u8], max_bytes: usize) -> Result<Vec<u8>, BadJson> {
    let mut writer = Writer {
        out: Vec::new(),
        max_bytes,
        is_too_long: false,
    };
    let mut json = serde_json::Deserializer::from_slice(body);
    let request = Message {
        fields: &REQUEST_FIELDS,
        writer: &mut writer,
    };
    let read = request.deserialize(&mut json).and_then(|()| json.end());
    match read {
        Ok(()) => Ok(writer.out),
        Err(_) if writer.is_too_long => Err(BadJson::TooLong),
        Err(error) => Err(BadJson::Syntax(error)),
    }
}

/// Field of a message.
struct Field {
    name: &'static str,
    number: u32,
    kind: Kind,
}

/// Type of a field.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    /// Bytes, in base64.
    Bytes,
    Bool,
    /// Number of an enumeration, or its name, which ends in one of these texts; the first has the number 0.
    Enum(&'static [&'static str]),
    /// Integer without sign of eight bytes.
    Fixed,
    /// Integer with sign of eight bytes.
    SignedFixed,
    Double,
    /// Integer of variable length.
    Int,
    /// Integer without sign of variable length.
    Unsigned,
    /// Integer in zigzag form.
    ZigZag,
    Message(&'static [Field]),
}

const fn field(name: &'static str, number: u32, kind: Kind) -> Field {
    Field { name, number, kind }
}

static REQUEST_FIELDS: [Field; 1] = [field(
    "resourceMetrics",
    REQUEST::RESOURCES,
    Kind::Message(&RESOURCE_METRICS_FIELDS),
)];
static RESOURCE_METRICS_FIELDS: [Field; 2] = [
    field(
        "resource",
        RESOURCE_METRICS::RESOURCE,
        Kind::Message(&RESOURCE_FIELDS),
    ),
    field(
        "scopeMetrics",
        RESOURCE_METRICS::SCOPES,
        Kind::Message(&SCOPE_METRICS_FIELDS),
    ),
];
static RESOURCE_FIELDS: [Field; 1] = [field(
    "attributes",
    RESOURCE::ATTRIBUTES,
    Kind::Message(&PAIR),
)];
static SCOPE_METRICS_FIELDS: [Field; 1] = [field(
    "metrics",
    SCOPE_METRICS::METRICS,
    Kind::Message(&METRIC_FIELDS),
)];
static METRIC_FIELDS: [Field; 8] = [
    field("name", METRIC::NAME, Kind::Text),
    field("description", METRIC::DESCRIPTION, Kind::Text),
    field("unit", METRIC::UNIT, Kind::Text),
    field("gauge", METRIC::GAUGE, Kind::Message(&NUMBERS)),
    field("sum", METRIC::SUM, Kind::Message(&NUMBERS)),
    field("histogram", METRIC::HISTOGRAM, Kind::Message(&HISTOGRAMS)),
    field(
        "exponentialHistogram",
        METRIC::EXPONENTIAL,
        Kind::Message(&EXPONENTIALS),
    ),
    field("summary", METRIC::SUMMARY, Kind::Message(&SUMMARIES)),
];
const TEMPORALITY: Field = field(
    "aggregationTemporality",
    DATA::TEMPORALITY,
    Kind::Enum(&["UNSPECIFIED", "DELTA", "CUMULATIVE"]),
);
static NUMBERS: [Field; 3] = [
    field("dataPoints", DATA::POINTS, Kind::Message(&NUMBER_FIELDS)),
    TEMPORALITY,
    field("isMonotonic", DATA::MONOTONIC, Kind::Bool),
];
static HISTOGRAMS: [Field; 2] = [
    field("dataPoints", DATA::POINTS, Kind::Message(&HISTOGRAM_FIELDS)),
    TEMPORALITY,
];
static EXPONENTIALS: [Field; 2] = [
    field(
        "dataPoints",
        DATA::POINTS,
        Kind::Message(&EXPONENTIAL_FIELDS),
    ),
    TEMPORALITY,
];
static SUMMARIES: [Field; 1] = [field(
    "dataPoints",
    DATA::POINTS,
    Kind::Message(&SUMMARY_FIELDS),
)];
/// Exemplars are only counted.
static EXEMPLAR: [Field; 0] = [];
static NUMBER_FIELDS: [Field; 6] = [
    field("attributes", NUMBER::ATTRIBUTES, Kind::Message(&PAIR)),
    field("timeUnixNano", NUMBER::TIME, Kind::Fixed),
    field("asDouble", NUMBER::AS_DOUBLE, Kind::Double),
    field("asInt", NUMBER::AS_INT, Kind::SignedFixed),
    field("exemplars", NUMBER::EXEMPLARS, Kind::Message(&EXEMPLAR)),
    field("flags", NUMBER::FLAGS, Kind::Unsigned),
];
static HISTOGRAM_FIELDS: [Field; 8] = [
    field("attributes", HISTOGRAM::ATTRIBUTES, Kind::Message(&PAIR)),
    field("timeUnixNano", HISTOGRAM::TIME, Kind::Fixed),
    field("count", HISTOGRAM::COUNT, Kind::Fixed),
    field("sum", HISTOGRAM::SUM, Kind::Double),
    field("bucketCounts", HISTOGRAM::COUNTS, Kind::Fixed),
    field("explicitBounds", HISTOGRAM::BOUNDS, Kind::Double),
    field("exemplars", HISTOGRAM::EXEMPLARS, Kind::Message(&EXEMPLAR)),
    field("flags", HISTOGRAM::FLAGS, Kind::Unsigned),
];
static EXPONENTIAL_FIELDS: [Field; 11] = [
    field("attributes", EXPONENTIAL::ATTRIBUTES, Kind::Message(&PAIR)),
    field("timeUnixNano", EXPONENTIAL::TIME, Kind::Fixed),
    field("count", EXPONENTIAL::COUNT, Kind::Fixed),
    field("sum", EXPONENTIAL::SUM, Kind::Double),
    field("scale", EXPONENTIAL::SCALE, Kind::ZigZag),
    field("zeroCount", EXPONENTIAL::ZERO_COUNT, Kind::Fixed),
    field(
        "positive",
        EXPONENTIAL::POSITIVE,
        Kind::Message(&BUCKETS_FIELDS),
    ),
    field(
        "negative",
        EXPONENTIAL::NEGATIVE,
        Kind::Message(&BUCKETS_FIELDS),
    ),
    field("flags", EXPONENTIAL::FLAGS, Kind::Unsigned),
    field(
        "exemplars",
        EXPONENTIAL::EXEMPLARS,
        Kind::Message(&EXEMPLAR),
    ),
    field("zeroThreshold", EXPONENTIAL::ZERO_THRESHOLD, Kind::Double),
];
static BUCKETS_FIELDS: [Field; 2] = [
    field("offset", BUCKETS::OFFSET, Kind::ZigZag),
    field("bucketCounts", BUCKETS::COUNTS, Kind::Unsigned),
];
static SUMMARY_FIELDS: [Field; 6] = [
    field("attributes", SUMMARY::ATTRIBUTES, Kind::Message(&PAIR)),
    field("timeUnixNano", SUMMARY::TIME, Kind::Fixed),
    field("count", SUMMARY::COUNT, Kind::Fixed),
    field("sum", SUMMARY::SUM, Kind::Double),
    field(
        "quantileValues",
        SUMMARY::QUANTILES,
        Kind::Message(&QUANTILE_FIELDS),
    ),
    field("flags", SUMMARY::FLAGS, Kind::Unsigned),
];
static QUANTILE_FIELDS: [Field; 2] = [
    field("quantile", QUANTILE::QUANTILE, Kind::Double),
    field("value", QUANTILE::VALUE, Kind::Double),
];
static PAIR: [Field; 2] = [
    field("key", 1, Kind::Text),
    field("value", 2, Kind::Message(&ANY)),
];
static ANY: [Field; 7] = [
    field("stringValue", 1, Kind::Text),
    field("boolValue", 2, Kind::Bool),
    field("intValue", 3, Kind::Int),
    field("doubleValue", 4, Kind::Double),
    field("arrayValue", 5, Kind::Message(&ARRAY)),
    field("kvlistValue", 6, Kind::Message(&PAIRS)),
    field("bytesValue", 7, Kind::Bytes),
];
static ARRAY: [Field; 1] = [field("values", 1, Kind::Message(&ANY))];
static PAIRS: [Field; 1] = [field("values", 1, Kind::Message(&PAIR))];

/// Protocol Buffers, up to a limit.
struct Writer {
    out: Vec<u8>,
    max_bytes: usize,
    is_too_long: bool,
}

impl Writer {
    fn number<E: de::Error>(&mut self, field: u32, number: u64) -> Result<(), E> {
        self.tag(field, 0);
        put_number(number, &mut self.out);
        self.check()
    }

    fn fixed<E: de::Error>(&mut self, field: u32, bits: u64) -> Result<(), E> {
        self.tag(field, 1);
        self.out.extend_from_slice(&bits.to_le_bytes());
        self.check()
    }

    fn bytes<E: de::Error>(&mut self, field: u32, bytes: &[u8]) -> Result<(), E> {
        self.tag(field, 2);
        put_number(bytes.len() as u64, &mut self.out);
        self.out.extend_from_slice(bytes);
        self.check()
    }

    fn tag(&mut self, field: u32, wire: u32) {
        put_number(u64::from(field << 3 | wire), &mut self.out);
    }

    /// Begins a message. Returns the place of its length.
    fn begin(&mut self, field: u32) -> usize {
        self.tag(field, 2);
        let at = self.out.len();
        self.out.extend_from_slice(&[0; LENGTH_BYTES]);
        at
    }

    /// Ends a message: writes its length, with as many bytes as were reserved.
    fn end<E: de::Error>(&mut self, at: usize) -> Result<(), E> {
        let mut len = self.out.len() - at - LENGTH_BYTES;
        let place = &mut self.out[at..at + LENGTH_BYTES];
        for byte in &mut place[..LENGTH_BYTES - 1] {
            *byte = len as u8 | 0x80;
            len >>= 7;
        }
        place[LENGTH_BYTES - 1] = len as u8;
        self.check()
    }

    fn check<E: de::Error>(&mut self) -> Result<(), E> {
        if self.out.len() > self.max_bytes {
            self.is_too_long = true;
            return Err(E::custom(TOO_LONG));
        }
        Ok(())
    }
}

/// Reader of an object as a message.
struct Message<'w> {
    fields: &'static [Field],
    writer: &'w mut Writer,
}

impl<'de> DeserializeSeed<'de> for Message<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> de::Visitor<'de> for Message<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(field) = map.next_key_seed(Key(self.fields))? {
            match field {
                Some(field) => map.next_value_seed(Value {
                    field,
                    writer: &mut *self.writer,
                    is_item: false,
                })?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Reader of the name of a field.
struct Key(&'static [Field]);

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Option<&'static Field>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl de::Visitor<'_> for Key {
    type Value = Option<&'static Field>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().find(|field| field.name == name))
    }
}

/// Reader of the value of a field, or of an item of its list.
struct Value<'w> {
    field: &'static Field,
    writer: &'w mut Writer,
    is_item: bool,
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl Value<'_> {
    /// Writes an integer, if it fits into the type.
    fn integer<E: de::Error>(self, given: i128) -> Result<(), E> {
        let Field { name, number, kind } = *self.field;
        let out_of_range = || E::custom(format!("{name} is out of range"));
        let unsigned = || u64::try_from(given).map_err(|_| out_of_range());
        let signed = || i64::try_from(given).map_err(|_| out_of_range());
        match kind {
            Kind::Double => self.writer.fixed(number, (given as f64).to_bits()),
            Kind::Fixed => self.writer.fixed(number, unsigned()?),
            Kind::SignedFixed => self.writer.fixed(number, signed()? as u64),
            Kind::Int => self.writer.number(number, signed()? as u64),
            Kind::Unsigned | Kind::Enum(_) => self.writer.number(number, unsigned()?),
            Kind::ZigZag => {
                let small = i32::try_from(given).map_err(|_| out_of_range())?;
                let zigzag = (small << 1) ^ (small >> 31);
                self.writer.number(number, u64::from(zigzag as u32))
            }
            _ => Err(self.wrong("a number")),
        }
    }

    #[cold]
    fn wrong<E: de::Error>(&self, given: &str) -> E {
        E::custom(format!("{} cannot be {given}", self.field.name))
    }
}

impl<'de> de::Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value of {}", self.field.name)
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        match self.field.kind {
            Kind::Bool => self.writer.number(self.field.number, u64::from(value)),
            _ => Err(self.wrong("a truth value")),
        }
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<(), E> {
        self.integer(i128::from(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<(), E> {
        self.integer(i128::from(value))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<(), E> {
        match self.field.kind {
            Kind::Double => self.writer.fixed(self.field.number, value.to_bits()),
            // Integers may have a fraction or an exponent: `1e3`.
            _ if value.fract() == 0.0 => self.integer(value as i128),
            _ => Err(self.wrong("a number with a fraction")),
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        let number = self.field.number;
        match self.field.kind {
            Kind::Text => self.writer.bytes(number, text.as_bytes()),
            Kind::Bytes => {
                let mut bytes = Vec::new();
                match base64::decode(text.as_bytes(), &mut bytes) {
                    Some(()) => self.writer.bytes(number, &bytes),
                    None => Err(self.wrong("a text that is not base64")),
                }
            }
            Kind::Enum(names) if !text.starts_with(|first: char| first.is_ascii_digit()) => {
                match names.iter().position(|name| text.ends_with(name)) {
                    Some(value) => self.writer.number(number, value as u64),
                    None => Err(self.wrong("this text")),
                }
            }
            // `NaN`, `Infinity` and `-Infinity` included.
            Kind::Double => match text.parse::<f64>() {
                Ok(value) => self.writer.fixed(number, value.to_bits()),
                Err(_) => Err(self.wrong("this text")),
            },
            Kind::Bool | Kind::Message(_) => Err(self.wrong("a text")),
            _ => match text.parse::<i128>() {
                Ok(value) => self.integer(value),
                Err(_) => Err(self.wrong("this text")),
            },
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        if self.is_item {
            return Err(self.wrong("a list of lists"));
        }
        loop {
            let item = Value {
                field: self.field,
                writer: &mut *self.writer,
                is_item: true,
            };
            if list.next_element_seed(item)?.is_none() {
                return Ok(());
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        let Kind::Message(fields) = self.field.kind else {
            return Err(self.wrong("an object"));
        };
        let at = self.writer.begin(self.field.number);
        let message = Message {
            fields,
            writer: &mut *self.writer,
        };
        de::Visitor::visit_map(message, map)?;
        self.writer.end(at)
    }
}
