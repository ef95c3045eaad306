//! Rows of a scrape: samples of the text, stale markers of vanished series, and the series about the scrape itself.

use crate::known_series::{KnownSeries, Noted, STALE_MARKER};
use crate::series::{SeriesDecoder, add_rejected};
use seiner_model::{Batch, Cell, Value};
use seiner_store::Receipt;
use seiner_wire::exposition::{Exposition, Item, Sample, TargetLabels};
use seiner_wire::line::Arena;
use seiner_wire::remote_write::{Malformed, Rejections, VALUE};

/// Series about a scrape and their values.
pub type Report = [(&'static str, f64); 3];

/// Row in the making: name, time in ns, and value.
type Made<'b> = (&'b [u8], i64, f64);

/// Decoder of a scrape. The text was checked: it ends at the first error.
pub struct Samples<'a> {
    text: Exposition<'a>,
    labels: &'a TargetLabels,
    known: &'a mut KnownSeries,
    /// Time of the scrape in ns.
    time: i64,
    vanished: Option<std::vec::IntoIter<Box<[u8]>>>,
    report: std::array::IntoIter<(&'static str, f64), 3>,
    /// Name that is being built.
    name: Vec<u8>,
    /// Lines of the rows of the present batch.
    lines: Vec<u64>,
    /// Rejected samples so far. Their numbers are lines of the text.
    pub rejections: Rejections,
    /// Number of exemplars so far.
    pub ignored: u64,
}

impl<'a> Samples<'a> {
    /// Creates the decoder of a text.
    pub fn new(
        text: Exposition<'a>,
        labels: &'a TargetLabels,
        known: &'a mut KnownSeries,
        time: i64,
        report: Report,
    ) -> Samples<'a> {
        known.begin();
        Samples {
            text,
            labels,
            known,
            time,
            vanished: None,
            report: report.into_iter(),
            name: Vec::new(),
            lines: Vec::new(),
            rejections: Rejections::default(),
            ignored: 0,
        }
    }

    /// Returns the next row.
    fn row<'b>(&mut self, arena: &'b Arena) -> Option<Made<'b>> {
        while let Some(Ok(item)) = self.text.next() {
            if let Item::Sample(sample) = item
                && let Some(row) = self.scraped(&sample, arena)
            {
                return Some(row);
            }
        }
        let known = &mut *self.known;
        let vanished = self
            .vanished
            .get_or_insert_with(|| known.take_vanished().into_iter());
        if let Some(name) = vanished.next() {
            return Some((arena.keep(&name), self.time, STALE_MARKER));
        }
        let (metric, value) = self.report.next()?;
        self.name.clear();
        self.labels.put_own_name(metric, &mut self.name);
        Some((arena.keep(&self.name), self.time, value))
    }

    /// Returns the row of a sample, unless it is rejected. A series with times of its own is not known: it does not end
    /// with a scrape.
    fn scraped<'b>(&mut self, sample: &Sample<'_>, arena: &'b Arena) -> Option<Made<'b>> {
        self.ignored += u64::from(sample.has_exemplar);
        self.name.clear();
        self.labels.put_name(sample, &mut self.name);
        let noted = match sample.time {
            Some(_) => Noted::Present,
            None => self.known.note(&self.name),
        };
        let reason = match noted {
            Noted::Present => {
                let time = sample.time.unwrap_or(self.time);
                return Some((arena.keep(&self.name), time, sample.value));
            }
            Noted::Repeated => "the series has a sample in an earlier line",
            Noted::Full => {
                "the names of scraped series take all memory for them; scrape fewer targets or series"
            }
        };
        self.rejections.add(self.text.line(), &self.name, 1, reason);
        None
    }
}

impl<'a> SeriesDecoder<'a> for Samples<'a> {
    const FORM: &'static str = "a text of metrics";

    fn fill<'b>(
        &mut self,
        max_rows: usize,
        arena: &'b Arena,
        batch: &mut Batch<'b>,
    ) -> Result<bool, Malformed>
    where
        'a: 'b,
    {
        self.lines.clear();
        while batch.rows.len() < max_rows {
            let Some((name, time, value)) = self.row(arena) else {
                return Ok(false);
            };
            self.lines.push(self.text.line());
            let cell = Cell {
                field: VALUE.as_bytes(),
                value: Value::F64(value),
            };
            batch.push(name, time, [cell]);
        }
        Ok(true)
    }

    #[cold]
    fn note_rejected(&mut self, batch: &Batch<'_>, receipt: &Receipt) {
        let line = |row: usize| self.lines.get(row).copied().unwrap_or_default();
        add_rejected(&mut self.rejections, batch, receipt, line);
    }
}
