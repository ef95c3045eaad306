//! Bodies: decompression of Snappy, within limits.

use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::ingest_stream::IngestStream;
use crate::port;
use crate::whole_body::{self, Held, collect, too_long};

/// Length of a request from which other tasks leave the thread before decompression.
const LONG_BYTES: usize = 1 << 20;
/// Bytes that Snappy expands to at most 64: a copy with an offset of two bytes.
const LEAST_COPY: usize = 3;
const COPY_BYTES: usize = 64;

/// Receives and decompresses the body of a request.
///
/// # Errors
/// If the body is too long, too slow or not Snappy, or if other bodies take too much memory.
pub async fn receive(app: &AppState, stream: &mut IngestStream) -> Result<Held, ApiError> {
    let limit = whole_body::limit(app);
    let compressed = collect(app, stream, limit).await?;
    let len = decompressed_len(&compressed, limit)?;
    let permit = app.bodies.acquire(len)?;
    let decompress = || {
        let mut bytes = vec![0; len];
        let written = snap::raw::Decoder::new().decompress(&compressed, &mut bytes);
        written.map(|_| bytes).map_err(bad_snappy)
    };
    let bytes = match len < LONG_BYTES {
        true => decompress(),
        false => port::waiting(decompress),
    };
    Ok(Held::new(bytes?, permit))
}

/// Returns the length after decompression, which the body states, if the body can be that long.
fn decompressed_len(body: &[u8], limit: usize) -> Result<usize, ApiError> {
    let len = snap::raw::decompress_len(body).map_err(bad_snappy)?;
    if len > limit {
        return Err(too_long(limit));
    }
    if len > body.len().div_ceil(LEAST_COPY) * COPY_BYTES {
        return Err(bad_snappy("it states more bytes than it contains"));
    }
    Ok(len)
}

fn bad_snappy(error: impl ToString) -> ApiError {
    ApiError::invalid(format!(
        "the body is not a block of Snappy: {}",
        error.to_string()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bombs_are_rejected_by_their_stated_length() {
        // 4 GiB, 1 MiB, and no data.
        for body in [&b"\xff\xff\xff\xff\x0f"[..], b"\x80\x80\x40", b"\xff"] {
            assert!(decompressed_len(body, 2 << 20).is_err(), "{body:?}");
        }
        // The highest ratio that an encoder reaches is permitted.
        let zeros = vec![0; 1 << 20];
        let body = snap::raw::Encoder::new().compress_vec(&zeros).unwrap();
        assert_eq!(decompressed_len(&body, 1 << 20).unwrap(), 1 << 20);
        assert!(decompressed_len(&body, (1 << 20) - 1).is_err());
    }
}
