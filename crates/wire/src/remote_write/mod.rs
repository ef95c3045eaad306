//! Prometheus remote write, versions 1 and 2: requests become batches of rows.
//!
//! The decoder reads the bytes of a request without a tree of messages in between. Names of version 1 borrow from the
//! request. A store that sees a name for the first time decodes it with [`LabelNotation`]. Every sample is a row with
//! one cell, the field [`VALUE`].

mod decoder;
mod metadata;
pub(crate) mod notation;
mod rejections;
mod symbols;
#[cfg(test)]
mod tests;

pub use crate::protobuf::{Fault, Malformed};
pub use decoder::{VALUE, Version, WriteDecoder};
pub use metadata::{METRIC_TYPES, Metadata};
pub use notation::{LabelNotation, METRIC_NAME, put_name, source_key};
pub use rejections::{MAX_LISTED, Rejection, Rejections};
