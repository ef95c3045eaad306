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

impl Status {
    /// Returns the status in JSON.
    pub fn json(&self) -> Value {
        json!({ "code": self.code, "message": self.message })
    }
}
