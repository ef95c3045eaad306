//! Decoder of requests into batches.

use super::histogram::{BOUND, Part, QUANTILE, Samples};
use super::messages::{DATA, REQUEST, RESOURCE_METRICS, SCOPE_METRICS};
use super::metric::{Data, Families, Metric, SeriesNames, Temporality};
use super::point::Point;
use super::resource::Resource;
use super::shape::{Form, PointLabels, Shape};
use crate::line::Arena;
use crate::protobuf::{Content, Fault, Fields, Malformed};
use crate::remote_write::notation::put_label;
use crate::remote_write::{METRIC_NAME, Metadata, Rejections, VALUE};
use seiner_model::{Batch, Cell, Value};

/// Metric with the attributes of a resource, and its value.
const TARGET_INFO: &[u8] = b"target_info";
const INFO: f64 = 1.0;

/// Maximum number of bytes of the labels of a point.
const MAX_LABELS: usize = 64 << 10;
/// Number of bytes of names after which a batch ends.
const BATCH_BYTES: usize = 1 << 20;

const NAME: &str = "its name has no letter or digit";
const LABELS: &str = "its labels have more than 64 KiB; send shorter attributes";
const KEY: &str = "an attribute has a key without a letter or digit";
const DEPTH: &str = "an attribute has more than 16 lists inside each other";
const TEMPORALITY: &str = "its temporality is not stated; send delta or cumulative";
const TIME: &str = "its time is after the year 2262; send nanoseconds since 1970";

/// Row in a batch from which on the rows belong to a point.
#[derive(Clone, Copy, Debug)]
struct Start {
    row: usize,
    metric: u64,
    point: u64,
}

/// Decoder of one request.
///
/// Names of rows are in [`LabelNotation`](crate::remote_write::LabelNotation). [`MetricsDecoder::fill`] is called until
/// it returns false.
#[derive(Debug)]
pub struct MetricsDecoder<'a> {
    /// Time of points that state none, in ns since 1970.
    now: i64,
    /// Attributes of resources that become labels.
    promoted: &'a [String],
    request: Fields<'a>,
    /// Rest of the open resource, scope and metric.
    scopes: Option<Fields<'a>>,
    metrics: Option<Fields<'a>>,
    metric: Option<Metric<'a>>,
    resource: Resource<'a>,
    /// Latest time of a point of the open resource.
    latest: Option<i64>,
    /// Names of the series of the open metric.
    names: SeriesNames,
    shape: Shape<'a>,
    resource_shape: Shape<'a>,
    point: Point<'a>,
    labels: PointLabels,
    /// Rows of the open point, their time, and the number of those that are in a batch.
    samples: Samples,
    time: i64,
    taken: usize,
    /// Number of metrics so far, and of the open point.
    metric_number: u64,
    point_number: u64,
    /// First rows of points in the present batch.
    starts: Vec<Start>,
    described: Families<'a>,
    /// Number of data points so far.
    pub points: u64,
    /// Rejections of the decoder so far, in data points. The caller adds those of the store.
    pub rejections: Rejections,
    /// Number of exemplars and of metrics of unknown types so far that were ignored.
    pub ignored: u64,
}

impl<'a> MetricsDecoder<'a> {
    /// Creates a decoder of a request after decompression. `now` is the time of points that state none, in ns since
    /// 1970. Attributes of resources that are named in `promoted` become labels.
    pub fn new(request: &'a [u8], now: i64, promoted: &'a [String]) -> MetricsDecoder<'a> {
        MetricsDecoder {
            now,
            promoted,
            request: Fields::new(request, 0),
            scopes: None,
            metrics: None,
            metric: None,
            resource: Resource::default(),
            latest: None,
            names: SeriesNames::default(),
            shape: Shape::default(),
            resource_shape: Shape::default(),
            point: Point::default(),
            labels: PointLabels::default(),
            samples: Samples::default(),
            time: 0,
            taken: 0,
            metric_number: 0,
            point_number: 0,
            starts: Vec::new(),
            described: Families::default(),
            points: 0,
            rejections: Rejections::default(),
            ignored: 0,
        }
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
    ) -> Result<bool, Malformed> {
        self.starts.clear();
        let mut bytes = 0;
        loop {
            bytes += self.take_rows(max_rows, arena, batch);
            let is_full = batch.rows.len() >= max_rows || bytes >= BATCH_BYTES;
            if is_full || self.taken < self.samples.list.len() {
                return Ok(true);
            }
            if !self.open_point()? {
                return Ok(false);
            }
        }
    }

    /// Returns the number of the metric to which a row of the present batch belongs, and the number of the data point.
    /// The number is 0 for a row that belongs to no data point.
    pub fn place_of_row(&self, row: usize) -> (u64, u64) {
        let after = self.starts.partition_point(|start| start.row <= row);
        let start = after.checked_sub(1).map(|at| self.starts[at]);
        start.map_or((0, 0), |start| (start.metric, start.point))
    }

    /// Returns the metadata of the metrics so far.
    pub fn metadata(&self) -> Vec<Metadata<'_>> {
        self.described.list()
    }

    /// Appends rows of the open point to a batch. Returns the number of bytes of their names.
    #[inline]
    fn take_rows<'b>(&mut self, max_rows: usize, arena: &'b Arena, batch: &mut Batch<'b>) -> usize {
        let samples = &self.samples.list[self.taken..];
        if samples.is_empty() {
            return 0;
        }
        self.starts.push(Start {
            row: batch.rows.len(),
            metric: self.metric_number,
            point: self.point_number,
        });
        let [before, between, after] = self.labels.parts();
        let mut bytes = 0;
        for sample in samples {
            if batch.rows.len() >= max_rows || bytes >= BATCH_BYTES {
                break;
            }
            let metric = self.names.label(sample.part);
            let bound = sample.place.map(|place| self.samples.labels.label(place));
            let name =
                arena.keep_joined([before, metric, between, bound.unwrap_or_default(), after]);
            bytes += name.len();
            let cell = Cell {
                field: VALUE.as_bytes(),
                value: Value::F64(sample.value),
            };
            batch.push(name, self.time, [cell]);
            self.taken += 1;
        }
        bytes
    }

    /// Opens the next point with rows. Returns false at the end of the request.
    fn open_point(&mut self) -> Result<bool, Malformed> {
        self.samples.list.clear();
        self.taken = 0;
        loop {
            if let Some(metric) = &mut self.metric {
                match metric.points.next()? {
                    Some((DATA::POINTS, Content::Bytes(bytes))) => {
                        let message = metric.points.inner(bytes);
                        let metric = *metric;
                        if self.read_point(metric, message)? {
                            return Ok(true);
                        }
                    }
                    Some((DATA::POINTS, _)) => return Err(metric.points.error(Fault::FieldType)),
                    Some(_) => {}
                    None => self.metric = None,
                }
            } else if let Some(metrics) = &mut self.metrics {
                match metrics.next()? {
                    Some((SCOPE_METRICS::METRICS, Content::Bytes(bytes))) => {
                        let message = metrics.inner(bytes);
                        self.open_metric(message)?;
                    }
                    Some((SCOPE_METRICS::METRICS, _)) => {
                        return Err(metrics.error(Fault::FieldType));
                    }
                    Some(_) => {}
                    None => self.metrics = None,
                }
            } else if let Some(scopes) = &mut self.scopes {
                match scopes.next()? {
                    Some((RESOURCE_METRICS::SCOPES, Content::Bytes(bytes))) => {
                        self.metrics = Some(scopes.inner(bytes));
                    }
                    Some((RESOURCE_METRICS::SCOPES, _)) => {
                        return Err(scopes.error(Fault::FieldType));
                    }
                    Some(_) => {}
                    None => {
                        self.scopes = None;
                        if self.open_target_info() {
                            return Ok(true);
                        }
                    }
                }
            } else {
                match self.request.next()? {
                    Some((REQUEST::RESOURCES, Content::Bytes(bytes))) => {
                        let message = self.request.inner(bytes);
                        self.open_resource(message)?;
                    }
                    Some((REQUEST::RESOURCES, _)) => {
                        return Err(self.request.error(Fault::FieldType));
                    }
                    Some(_) => {}
                    None => return Ok(false),
                }
            }
        }
    }

    /// Opens a `ResourceMetrics`. Its resource may follow its metrics.
    fn open_resource(&mut self, message: Fields<'a>) -> Result<(), Malformed> {
        let mut fields = message;
        self.resource.clear();
        self.latest = None;
        self.shape.discard();
        while let Some(field) = fields.next()? {
            match field {
                (RESOURCE_METRICS::RESOURCE, Content::Bytes(bytes)) => {
                    self.resource.read(fields.inner(bytes), self.promoted)?;
                }
                (RESOURCE_METRICS::RESOURCE, _) => return Err(fields.error(Fault::FieldType)),
                _ => {}
            }
        }
        self.scopes = Some(message);
        Ok(())
    }

    /// Opens a metric, or rejects all its points.
    fn open_metric(&mut self, message: Fields<'a>) -> Result<(), Malformed> {
        self.metric_number += 1;
        let Some(mut metric) = Metric::read(message)? else {
            self.ignored += 1;
            return Ok(());
        };
        let is_named = self.names.set_metric(&metric);
        let reason = match (is_named, metric.temporality) {
            (false, _) => NAME,
            (true, Temporality::Unstated) => TEMPORALITY,
            (true, _) => {
                self.ignored += u64::from(!self.described.add(self.names.family(), &metric));
                self.metric = Some(metric);
                return Ok(());
            }
        };
        let mut rejected = 0;
        while let Some((number, _)) = metric.points.next()? {
            rejected += u64::from(number == DATA::POINTS);
        }
        self.points += rejected;
        if rejected > 0 {
            let mut label = Vec::new();
            put_label(METRIC_NAME.as_bytes(), metric.name, &mut label);
            self.rejections
                .add(self.metric_number, &label, rejected, reason);
        }
        Ok(())
    }

    /// Opens a point. Returns false if the point is rejected.
    #[inline]
    fn read_point(&mut self, metric: Metric<'a>, message: Fields<'a>) -> Result<bool, Malformed> {
        self.points += 1;
        self.point_number = self.points;
        let (point, samples) = (&mut self.point, &mut self.samples);
        let (set, bound) = match metric.data {
            Data::Gauge | Data::Sum { .. } => {
                point.read_number(message)?;
                (samples.set_number(point), None)
            }
            Data::Histogram => {
                point.read_histogram(message)?;
                (samples.set_histogram(point), Some(BOUND))
            }
            Data::Exponential => {
                point.read_exponential(message)?;
                (samples.set_exponential(point), Some(BOUND))
            }
            Data::Summary => {
                point.read_summary(message)?;
                (samples.set_summary(point), Some(QUANTILE))
            }
        };
        self.ignored += self.point.exemplars;
        let form = Form {
            is_delta: metric.temporality == Temporality::Delta,
            bound,
        };
        match set.and_then(|()| self.finish_point(form)) {
            Ok(()) => Ok(true),
            Err(reason) => {
                self.samples.list.clear();
                let name = self.names.label(Part::Whole);
                self.rejections.add(self.metric_number, name, 1, reason);
                Ok(false)
            }
        }
    }

    /// Finds the time and the labels of the open point.
    #[inline]
    fn finish_point(&mut self, form: Form) -> Result<(), &'static str> {
        let attributes = &self.point.attributes;
        self.time = match i64::try_from(self.point.time) {
            Ok(0) => self.now,
            Ok(time) => time,
            Err(_) => return Err(TIME),
        };
        if attributes.is_too_deep() {
            return Err(DEPTH);
        }
        let is_encoded = self
            .shape
            .encode(form, attributes, &self.resource, &mut self.labels);
        if !is_encoded {
            return Err(KEY);
        }
        if self.labels.len() > MAX_LABELS {
            return Err(LABELS);
        }
        self.latest = self.latest.max(Some(self.time));
        Ok(())
    }

    /// Opens the row with the attributes of a resource. Returns false if the resource needs none.
    fn open_target_info(&mut self) -> bool {
        let resource = &self.resource;
        let Some(time) = self.latest else {
            return false;
        };
        if !resource.is_identified || !resource.has_more() {
            return false;
        }
        let is_encoded = self
            .resource_shape
            .encode_resource(resource, &mut self.labels);
        if !is_encoded || self.labels.len() > MAX_LABELS || resource.attributes.is_too_deep() {
            self.ignored += 1;
            return false;
        }
        self.names.set_plain(TARGET_INFO);
        self.samples.set_one(INFO);
        self.time = time;
        self.point_number = 0;
        true
    }
}
