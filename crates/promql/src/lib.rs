//! PromQL on a store of samples.
//!
//! [`instant`] evaluates an expression at one time, [`range`] at many times. The rules are those of Prometheus 3, with
//! these properties of the store:
//!
//! - The field `value` of a measurement `M` is the metric `M`; any other field `F` is the metric `M_F`. Tags are labels.
//! - Times are ns. Prometheus rounds them to ms.
//! - There are no native histograms.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod aggregate;
mod answer;
mod batches;
mod binary;
mod budget;
mod catalog;
mod divided;
mod error;
mod evaluator;
mod functions;
mod instant;
mod kind;
mod labels;
mod metric;
mod notes;
mod numbers;
mod operators;
mod parse;
mod plan;
mod pool;
mod query;
mod ranges;
mod raw;
mod reader;
mod run;
mod series;
mod source;
mod stack;
mod text;
mod unique;

pub use answer::{Answer, Data, Raw};
pub use budget::Limits;
pub use catalog::{Metric, label_names, label_values, metrics, series};
pub use error::Error;
pub use labels::{Labels, METRIC_NAME, is_plain_name};
pub use numbers::number_text;
pub use parse::{format, parse_selector};
pub use plan::Matcher;
pub use query::{Options, instant, range, samples_of};
pub use seiner_store::{Stop, Stopper};
pub use series::{Series, Steps, Values, is_absent};
pub use text::duration::seconds as parse_seconds;
