//! Numbers of the fields of OTLP's messages, by the name of the message.

/// Defines a module of constants for a message.
macro_rules! message {
    ($name:ident, $($field:ident = $number:literal),*) => {
        #[expect(non_snake_case, reason = "the module stands for a message")]
        pub(super) mod $name {
            $(pub const $field: u32 = $number;)*
        }
    };
}

// `ExportMetricsServiceRequest`.
message!(REQUEST, RESOURCES = 1);
// `ResourceMetrics`.
message!(RESOURCE_METRICS, RESOURCE = 1, SCOPES = 2);
// `Resource`.
message!(RESOURCE, ATTRIBUTES = 1);
// `ScopeMetrics`.
message!(SCOPE_METRICS, METRICS = 2);
message!(
    METRIC,
    NAME = 1,
    DESCRIPTION = 2,
    UNIT = 3,
    GAUGE = 5,
    SUM = 7,
    HISTOGRAM = 9,
    EXPONENTIAL = 10,
    SUMMARY = 11
);
// `Gauge`, `Sum`, `Histogram`, `ExponentialHistogram` and `Summary`.
message!(DATA, POINTS = 1, TEMPORALITY = 2, MONOTONIC = 3);
// `NumberDataPoint`.
message!(
    NUMBER,
    TIME = 3,
    AS_DOUBLE = 4,
    EXEMPLARS = 5,
    AS_INT = 6,
    ATTRIBUTES = 7,
    FLAGS = 8
);
// `HistogramDataPoint`.
message!(
    HISTOGRAM,
    TIME = 3,
    COUNT = 4,
    SUM = 5,
    COUNTS = 6,
    BOUNDS = 7,
    EXEMPLARS = 8,
    ATTRIBUTES = 9,
    FLAGS = 10
);
// `ExponentialHistogramDataPoint`.
message!(
    EXPONENTIAL,
    ATTRIBUTES = 1,
    TIME = 3,
    COUNT = 4,
    SUM = 5,
    SCALE = 6,
    ZERO_COUNT = 7,
    POSITIVE = 8,
    NEGATIVE = 9,
    FLAGS = 10,
    EXEMPLARS = 11,
    ZERO_THRESHOLD = 14
);
// `ExponentialHistogramDataPoint.Buckets`.
message!(BUCKETS, OFFSET = 1, COUNTS = 2);
// `SummaryDataPoint`.
message!(
    SUMMARY,
    TIME = 3,
    COUNT = 4,
    SUM = 5,
    QUANTILES = 6,
    ATTRIBUTES = 7,
    FLAGS = 8
);
// `SummaryDataPoint.ValueAtQuantile`.
message!(QUANTILE, QUANTILE = 1, VALUE = 2);
