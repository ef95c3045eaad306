//! Messages of remote read, as in `remote.proto` and `types.proto` of Prometheus.

/// Request.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ReadRequest {
    /// Queries.
    #[prost(message, repeated, tag = "1")]
    pub queries: Vec<ReadQuery>,
}

/// Query.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ReadQuery {
    /// First time, ms.
    #[prost(int64, tag = "1")]
    pub start_ms: i64,
    /// Last time, ms.
    #[prost(int64, tag = "2")]
    pub end_ms: i64,
    /// Conditions on labels.
    #[prost(message, repeated, tag = "3")]
    pub matchers: Vec<LabelMatcher>,
}

/// Condition on a label.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LabelMatcher {
    /// Kind: equal, not equal, matches, does not match.
    #[prost(int32, tag = "1")]
    pub kind: i32,
    /// Name of the label.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Value, or regular expression.
    #[prost(string, tag = "3")]
    pub value: String,
}

/// Response.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ReadResponse {
    /// Results, in the order of the queries.
    #[prost(message, repeated, tag = "1")]
    pub results: Vec<QueryResult>,
}

/// Result of a query.
#[derive(Clone, PartialEq, prost::Message)]
pub struct QueryResult {
    /// Series.
    #[prost(message, repeated, tag = "1")]
    pub series: Vec<TimeSeries>,
}

/// Series.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TimeSeries {
    /// Labels, sorted by name.
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<Label>,
    /// Samples, sorted by time.
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<Sample>,
}

/// Label.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Label {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// Sample.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Sample {
    /// Value.
    #[prost(double, tag = "1")]
    pub value: f64,
    /// Time, ms.
    #[prost(int64, tag = "2")]
    pub ms: i64,
}
