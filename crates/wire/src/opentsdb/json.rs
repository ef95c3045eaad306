//! Bodies of `/api/put`: a point in JSON, or a list of points.

use super::point::Point;
use crate::Skipped;
use crate::line::{Arena, shown};
use seiner_model::Batch;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;

/// Point as OpenTSDB has it. Numbers may be texts.
#[derive(Deserialize)]
struct Written<'t> {
    metric: String,
    #[serde(borrow)]
    timestamp: &'t RawValue,
    #[serde(borrow)]
    value: &'t RawValue,
    #[serde(borrow, default)]
    tags: BTreeMap<String, &'t RawValue>,
}

/// Body that is not a list of values in JSON.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct BadPoints(#[from] serde_json::Error);

/// Calls a function with the text of each point of a body, in order. The memory for that does not grow with the body.
///
/// # Errors
/// If the body is not JSON. The points before the error were passed on.
pub fn each_point<'t>(body: &'t [u8], mut each: impl FnMut(&'t [u8])) -> Result<(), BadPoints> {
    if body.trim_ascii_start().first() != Some(&b'[') {
        each(body.trim_ascii());
        return Ok(());
    }
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    deserializer.deserialize_seq(Each(&mut each))?;
    Ok(deserializer.end()?)
}

/// Visitor that passes the elements of a list on.
struct Each<'f, F>(&'f mut F);

impl<'t, F: FnMut(&'t [u8])> Visitor<'t> for Each<'_, F> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of points")
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(point) = list.next_element::<&'t RawValue>()? {
            (self.0)(point.get().as_bytes());
        }
        Ok(())
    }
}

/// Appends a point in JSON.
///
/// A point has a time, so that the time of reception is not used.
///
/// # Errors
/// If the point becomes no row.
pub fn decode_point<'b>(
    json: &'b [u8],
    _now: i64,
    arena: &'b Arena,
    batch: &mut Batch<'b>,
) -> Result<(), Skipped> {
    let written: Written<'_> = serde_json::from_slice(json).map_err(|error| {
        Skipped::because(format!(
            "{:?} is not a point with metric, timestamp, value and tags: {error}",
            shown(json)
        ))
    })?;
    let mut point = Point::new(&written.metric)?;
    for (tag, value) in &written.tags {
        point.tag(tag, &text(value)?)?;
    }
    let (time, value) = (text(written.timestamp)?, text(written.value)?);
    point.push(&time, &value, arena, batch)
}

/// Returns a text, or a number as it is written.
fn text(value: &RawValue) -> Result<String, Skipped> {
    let raw = value.get();
    match raw.as_bytes().first() {
        Some(b'"') => {
            serde_json::from_str(raw).map_err(|error| Skipped::because(error.to_string()))
        }
        Some(b'{' | b'[' | b'n') => Err(Skipped::because(format!(
            "{:?} is neither a text nor a number",
            shown(raw.as_bytes())
        ))),
        _ => Ok(raw.to_string()),
    }
}
