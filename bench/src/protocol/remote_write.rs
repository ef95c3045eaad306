//! Bodies of Prometheus remote write.

use super::Body;
use super::line::lines;
use super::protobuf::{bytes, fixed, varint};
use anyhow::Result;

/// Returns a body with one series for each value, as senders of scraped samples write them.
pub fn body(text: &[u8]) -> Result<Body> {
    let mut message = Vec::with_capacity(text.len() * 2);
    let (mut series, mut part) = (Vec::new(), Vec::new());
    for line in lines(text)? {
        let line = line?;
        for (field, value, _) in &line.fields {
            series.clear();
            let metric = format!("{}_{field}", line.measurement);
            let name = [("__name__", metric.as_str())];
            for (label, value) in name.iter().chain(&line.tags) {
                part.clear();
                bytes(&mut part, 1, label.as_bytes());
                bytes(&mut part, 2, value.as_bytes());
                bytes(&mut series, 1, &part);
            }
            part.clear();
            fixed(&mut part, 1, value.to_bits());
            varint(&mut part, 2, (line.time / 1_000_000) as u64);
            bytes(&mut series, 2, &part);
            bytes(&mut message, 1, &series);
        }
    }
    Ok(Body {
        bytes: snap::raw::Encoder::new().compress_vec(&message)?,
        headers: "Content-Encoding: snappy\r\nContent-Type: application/x-protobuf\r\n\
                  X-Prometheus-Remote-Write-Version: 0.1.0\r\n",
    })
}
