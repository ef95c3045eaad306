//! Answers, as Protocol Buffers and as JSON.

use prost::Message;
use serde_json::{Value, json};

/// `ExportMetricsServiceResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct Response {
    /// Rejected part of the request, if there is one.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<PartialSuccess>,
}

/// `ExportMetricsPartialSuccess`.
#[derive(Clone, PartialEq, Message)]
pub struct PartialSuccess {
    /// Number of rejected points.
    #[prost(int64, tag = "1")]
    pub rejected_data_points: i64,
    /// Reasons of the rejections.
    #[prost(string, tag = "2")]
    pub error_message: String,
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    /// Code of gRPC.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// Reason and remedy.
    #[prost(string, tag = "2")]
    pub message: String,
    /// More about the error.
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
pub struct Any {
    /// Type of the message.
    #[prost(string, tag = "1")]
    pub type_url: String,
    /// Message.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, Message)]
pub struct RetryInfo {
    /// Time after which a retry is useful.
    #[prost(message, optional, tag = "1")]
    pub retry_delay: Option<Duration>,
}

/// `google.protobuf.Duration`.
#[derive(Clone, PartialEq, Message)]
pub struct Duration {
    /// Seconds.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
}

impl Response {
    /// Returns the answer in JSON. Integers of 64 bits are texts.
    pub fn json(&self) -> Value {
        match &self.partial_success {
            None => json!({}),
            Some(part) => json!({ "partialSuccess": {
                "rejectedDataPoints": part.rejected_data_points.to_string(),
                "errorMessage": part.error_message,
            }}),
        }
    }
}

impl Any {
    /// Wraps the time in seconds after which a retry is useful.
    pub fn retry_info(seconds: u64) -> Any {
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        let info = RetryInfo {
            retry_delay: Some(Duration { seconds }),
        };
        Any {
            type_url: "type.googleapis.com/google.rpc.RetryInfo".to_string(),
            value: info.encode_to_vec(),
        }
    }
}

impl Status {
    /// Returns the status in JSON.
    pub fn json(&self) -> Value {
        json!({ "code": self.code, "message": self.message })
    }
}
