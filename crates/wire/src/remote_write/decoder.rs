//! Decoder of requests into batches.

use super::metadata::{self, Metadata};
use super::notation::{LABELS, METRIC_NAME};
use super::rejections::Rejections;
use super::symbols::Symbols;
use crate::line::Arena;
use crate::protobuf::{Content, Fault, Fields, Malformed};
use seiner_model::{Batch, Cell, Value};

/// Field of all samples.
pub const VALUE: &str = "value";

const NS_PER_MS: i64 = 1_000_000;
/// Maximum number of metadata that a request may contain. Further metadata are ignored.
const MAX_METADATA: usize = 10_000;
/// Tags of the fields of a sample.
const SAMPLE_VALUE: u8 = 0x09;
const SAMPLE_TIME: u8 = 0x10;
const HISTOGRAM: &str = "native histograms are not supported; send classic histograms";
const REFERENCES: &str = "its labels refer to symbols that the request does not contain";
const TIME: &str = "its time is outside of the years 1677 to 2262; send milliseconds since 1970";

/// Version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `prometheus.WriteRequest`.
    V1,
    /// `io.prometheus.write.v2.Request`.
    V2,
}

/// Numbers of fields that differ between the versions; 0 for a field that a version does not have.
struct Numbers {
    series: u32,
    request_metadata: u32,
    histograms: u32,
    exemplars: u32,
    series_metadata: u32,
}

impl Version {
    const fn numbers(self) -> Numbers {
        match self {
            Version::V1 => Numbers {
                series: 1,
                request_metadata: 3,
                histograms: 4,
                exemplars: 3,
                series_metadata: 0,
            },
            Version::V2 => Numbers {
                series: 5,
                request_metadata: 0,
                histograms: 3,
                exemplars: 4,
                series_metadata: 5,
            },
        }
    }
}

/// Number of the field of samples within a series, in both versions.
const SAMPLES: u32 = 2;

/// Decoder of one request.
///
/// Names of rows are in [`LabelNotation`](super::LabelNotation). [`WriteDecoder::fill`] is called until it returns
/// false.
#[derive(Debug)]
pub struct WriteDecoder<'a> {
    version: Version,
    request: Fields<'a>,
    symbols: Symbols<'a>,
    /// Numbers of symbols whose metrics have metadata in `metadata`, as bits.
    described: Vec<u64>,
    /// Series whose samples are being decoded.
    open: Option<Series<'a>>,
    /// Number of the open series, from 1.
    series: u64,
    /// First rows of series in the present batch, each with the number of its series.
    starts: Vec<(usize, u64)>,
    /// Name that is being built.
    name: Vec<u8>,
    /// Metadata of the request so far.
    pub metadata: Vec<Metadata<'a>>,
    /// Rejections of the decoder so far. The caller adds those of the store.
    pub rejections: Rejections,
    /// Number of exemplars and metadata so far that were ignored.
    pub ignored: u64,
}

/// Series whose fields were counted.
#[derive(Clone, Copy, Debug)]
struct Series<'a> {
    message: Fields<'a>,
    /// Name in one piece; `None` if the name must be built.
    name: Option<&'a [u8]>,
    /// Fields from the first sample on.
    rest: Fields<'a>,
    samples: u64,
    histograms: u64,
}

impl<'a> WriteDecoder<'a> {
    /// Creates a decoder of a request after decompression.
    ///
    /// # Errors
    /// If the fields of the request itself are malformed. Faults within a series are found by [`WriteDecoder::fill`].
    pub fn new(version: Version, request: &'a [u8]) -> Result<WriteDecoder<'a>, Malformed> {
        // Symbols may follow the series that refer to them. In version 1 the table is empty.
        let symbols = match version {
            Version::V1 => Symbols::default(),
            Version::V2 => Symbols::of(request)?,
        };
        Ok(WriteDecoder {
            version,
            request: Fields::new(request, 0),
            symbols,
            described: Vec::new(),
            open: None,
            series: 0,
            starts: Vec::new(),
            name: Vec::new(),
            metadata: Vec::new(),
            rejections: Rejections::default(),
            ignored: 0,
        })
    }

    /// Appends samples to an empty batch, up to `max_rows` in all. Returns whether more may follow.
    ///
    /// # Errors
    /// If the request is malformed. The rows in the batch are valid.
    pub fn fill<'b>(
        &mut self,
        max_rows: usize,
        arena: &'b Arena,
        batch: &mut Batch<'b>,
    ) -> Result<bool, Malformed>
    where
        'a: 'b,
    {
        self.starts.clear();
        let numbers = self.version.numbers();
        loop {
            if let Some(series) = self.open.take()
                && !self.take_samples(series, max_rows, arena, batch)?
            {
                return Ok(true);
            }
            match self.request.next()? {
                None => return Ok(false),
                Some((number, Content::Bytes(message))) if number == numbers.series => {
                    self.series += 1;
                    let message = self.request.inner(message);
                    self.open = Some(self.scan(message)?);
                }
                Some((number, Content::Bytes(message))) if number == numbers.request_metadata => {
                    let metadata = metadata::of_version_1(self.request.inner(message))?;
                    self.note_metadata(metadata);
                }
                Some((number, _)) if number == numbers.series => {
                    return Err(self.request.error(Fault::FieldType));
                }
                Some(_) => {}
            }
        }
    }

    /// Returns the number of the series to which a row of the present batch belongs.
    pub fn series_of_row(&self, row: usize) -> u64 {
        let after = self.starts.partition_point(|(first, _)| *first <= row);
        match after.checked_sub(1) {
            Some(at) => self.starts[at].1,
            None => self.series,
        }
    }

    /// Counts the fields of a series, and finds its name.
    fn scan(&mut self, message: Fields<'a>) -> Result<Series<'a>, Malformed> {
        let numbers = self.version.numbers();
        let mut fields = message;
        let mut first_sample = None;
        let (mut samples, mut histograms, mut exemplars) = (0, 0, 0);
        let mut metadata = None;
        // Begin and end of the labels, as long as they are one piece.
        let mut labels: Option<(usize, usize)> = None;
        let mut is_whole = self.version == Version::V1;
        loop {
            let begin = fields.at();
            let Some((number, content)) = fields.next()? else {
                break;
            };
            match (number, content) {
                (LABELS, Content::Bytes(_)) => {
                    is_whole &= labels.is_none_or(|(_, end)| end == begin);
                    labels = Some((labels.map_or(begin, |(first, _)| first), fields.at()));
                }
                (SAMPLES, Content::Bytes(_)) => {
                    first_sample.get_or_insert(begin);
                    samples += 1;
                }
                // References of version 2 need not be packed.
                (LABELS, Content::Number(_)) if self.version == Version::V2 => {}
                (LABELS | SAMPLES, _) => return Err(fields.error(Fault::FieldType)),
                (number, _) if number == numbers.histograms => histograms += 1,
                (number, _) if number == numbers.exemplars => exemplars += 1,
                (number, Content::Bytes(content)) if number == numbers.series_metadata => {
                    metadata = Some(fields.inner(content));
                }
                _ => {}
            }
        }
        self.ignored += exemplars;
        if let Some(metadata) = metadata {
            self.describe(message, metadata)?;
        }
        let (begin, end) = labels.unwrap_or_default();
        Ok(Series {
            message,
            name: is_whole.then(|| message.between(begin, end)),
            rest: message.from(first_sample.unwrap_or(fields.at())),
            samples,
            histograms,
        })
    }

    /// Appends the samples of a series to a batch. Returns whether all fit; otherwise the rest is open.
    fn take_samples<'b>(
        &mut self,
        mut series: Series<'a>,
        max_rows: usize,
        arena: &'b Arena,
        batch: &mut Batch<'b>,
    ) -> Result<bool, Malformed>
    where
        'a: 'b,
    {
        let Some(name) = self.name_of(&series, arena) else {
            let samples = series.samples + series.histograms;
            self.rejections.histograms += series.histograms;
            self.rejections.add(self.series, b"", samples, REFERENCES);
            return Ok(true);
        };
        if series.histograms > 0 {
            self.rejections.histograms += series.histograms;
            self.rejections
                .add(self.series, name, series.histograms, HISTOGRAM);
            series.histograms = 0;
        }
        self.starts.push((batch.rows.len(), self.series));
        while !series.rest.is_empty() {
            if batch.rows.len() >= max_rows {
                self.open = Some(series);
                return Ok(false);
            }
            let Some((SAMPLES, Content::Bytes(message))) = series.rest.next()? else {
                continue;
            };
            let (ms, value) = sample(series.rest.inner(message), message)?;
            series.samples -= 1;
            let Some(time) = ms.checked_mul(NS_PER_MS) else {
                self.rejections.add(self.series, name, 1, TIME);
                continue;
            };
            let cell = Cell {
                field: VALUE.as_bytes(),
                value: Value::F64(value),
            };
            batch.push(name, time, [cell]);
        }
        Ok(true)
    }

    /// Returns the name of a series. Returns `None` if its references lead nowhere.
    fn name_of<'b>(&mut self, series: &Series<'a>, arena: &'b Arena) -> Option<&'b [u8]>
    where
        'a: 'b,
    {
        if let Some(name) = series.name {
            return Some(name);
        }
        self.name.clear();
        match self.version {
            Version::V1 => join_labels(series.message, &mut self.name),
            Version::V2 => self.symbols.put_name(series.message, &mut self.name)?,
        }
        Some(arena.keep(&self.name))
    }

    /// Notes the metadata of a series of version 2, unless its metric is already described in this request.
    fn describe(&mut self, message: Fields<'a>, content: Fields<'a>) -> Result<(), Malformed> {
        let found = self.symbols.value_of(message, METRIC_NAME.as_bytes());
        let Some((number, metric)) = found else {
            return Ok(());
        };
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        self.described.resize(self.symbols.len().div_ceil(64), 0);
        if self.described[word] & bit != 0 {
            return Ok(());
        }
        self.described[word] |= bit;
        if let Some(metadata) = metadata::of_version_2(content, metric, &self.symbols)? {
            self.note_metadata(metadata);
        }
        Ok(())
    }

    fn note_metadata(&mut self, metadata: Metadata<'a>) {
        match self.metadata.len() < MAX_METADATA {
            true => self.metadata.push(metadata),
            false => self.ignored += 1,
        }
    }
}

/// Appends the labels of a series of version 1 that are not in one piece.
fn join_labels(series: Fields<'_>, name: &mut Vec<u8>) {
    let mut fields = series;
    loop {
        let begin = fields.at();
        match fields.next() {
            Ok(Some((LABELS, _))) => name.extend_from_slice(series.between(begin, fields.at())),
            Ok(Some(_)) => {}
            // The scan found no error.
            Ok(None) | Err(_) => return,
        }
    }
}

/// Returns the time in ms and the value of a sample. Senders leave out a time or value of 0.
#[inline]
fn sample<'a>(mut fields: Fields<'a>, message: &'a [u8]) -> Result<(i64, f64), Malformed> {
    // The usual form: both fields in their order, and no other.
    if let Some((head, time)) = message.split_first_chunk::<10>()
        && head[0] == SAMPLE_VALUE
        && head[9] == SAMPLE_TIME
    {
        let mut time = Fields::new(time, 0);
        if let Ok(ms) = time.number()
            && time.is_empty()
        {
            let [_, bits @ .., _] = *head;
            return Ok((ms as i64, f64::from_le_bytes(bits)));
        }
    }
    let (mut ms, mut value) = (0, 0.0);
    while let Some(field) = fields.next()? {
        match field {
            (1, Content::Fixed(bits)) => value = f64::from_bits(bits),
            (2, Content::Number(number)) => ms = number as i64,
            (1 | 2, _) => return Err(fields.error(Fault::FieldType)),
            _ => {}
        }
    }
    Ok((ms, value))
}
