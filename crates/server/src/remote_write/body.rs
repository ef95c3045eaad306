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

/// Compression of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// One block of Snappy, as Prometheus sends it.
    Snappy,
    /// Frames of Zstandard, as agents of VictoriaMetrics send them.
    Zstd,
}

/// Receives and decompresses the body of a request.
///
/// # Errors
/// If the body is too long, too slow or in another encoding, or if other bodies take too much memory.
pub async fn receive(
    app: &AppState,
    encoding: Encoding,
    stream: &mut IngestStream,
) -> Result<Held, ApiError> {
    let limit = whole_body::limit(app);
    let compressed = collect(app, stream, limit).await?;
    let len = match encoding {
        Encoding::Snappy => decompressed_len(&compressed, limit)?,
        Encoding::Zstd => zstd_len(&compressed, limit)?,
    };
    let permit = app.bodies.acquire(len)?;
    let decompress = || match encoding {
        Encoding::Snappy => {
            let mut bytes = vec![0; len];
            let written = snap::raw::Decoder::new().decompress(&compressed, &mut bytes);
            written.map(|_| bytes).map_err(bad_snappy)
        }
        Encoding::Zstd => zstd::bulk::decompress(&compressed, len).map_err(bad_zstd),
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

/// Returns the length after decompression, which the first frame states. Without it, a body may have the maximum.
fn zstd_len(body: &[u8], limit: usize) -> Result<usize, ApiError> {
    let stated = zstd::zstd_safe::get_frame_content_size(body)
        .map_err(|_| bad_zstd("it does not begin with a frame"))?;
    match stated.map(usize::try_from) {
        None => Ok(limit),
        Some(Ok(len)) if len <= limit => Ok(len),
        Some(_) => Err(too_long(limit)),
    }
}

fn bad_zstd(error: impl ToString) -> ApiError {
    ApiError::invalid(format!(
        "the body is not Zstandard of the stated length: {}",
        error.to_string()
    ))
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
    fn bombs_of_zstd_are_rejected() {
        let zeros = vec![0; 1 << 20];
        let body = zstd::bulk::compress(&zeros, 1).unwrap();
        assert_eq!(zstd_len(&body, 1 << 20).unwrap(), 1 << 20);
        assert!(zstd_len(&body, (1 << 20) - 1).is_err());
        // A frame without its length has at most the limit.
        let unstated = zstd::stream::encode_all(&zeros[..], 1).unwrap();
        assert_eq!(zstd_len(&unstated, 4096).unwrap(), 4096);
        assert!(zstd::bulk::decompress(&unstated, 4096).is_err());
        for bad in [&b""[..], b"\x28\xb5", b"no frame at all"] {
            assert!(zstd_len(bad, 1 << 20).is_err(), "{bad:?}");
        }
    }

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
