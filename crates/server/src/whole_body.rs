//! Bodies that are in memory as a whole: reception and decompression, within limits.

use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::ingest_stream::IngestStream;
use crate::intake;
use crate::limiter::{MAX_WHOLE_BODY, Permit};
use crate::port;
use axum::http::{HeaderValue, StatusCode};
use flate2::bufread::MultiGzDecoder;
use std::io::{self, Read};
use std::ops::Deref;
use zstd::stream::read::Decoder;

/// Bytes for which memory is reserved at the begin of a body.
const FIRST_BYTES: usize = 64 << 10;
/// Length of a compressed body from which other tasks leave the thread before decompression.
const LONG_BYTES: usize = 64 << 10;

/// Binary logarithm of the maximum memory that a frame of Zstandard may require: 8 MiB, which every decoder supports.
pub const ZSTD_WINDOW_LOG: u32 = 23;

/// Compression of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Zstd,
}

/// Bytes with a permit for their memory.
#[derive(Default)]
pub struct Held {
    bytes: Vec<u8>,
    permit: Option<Permit>,
    /// Number of bytes that the permit covers.
    reserved: usize,
    /// Number of bytes at the begin that are left out.
    begin: usize,
}

impl Held {
    /// Returns bytes whose memory a permit covers.
    pub fn new(bytes: Vec<u8>, permit: Permit) -> Held {
        Held {
            reserved: bytes.len(),
            permit: Some(permit),
            begin: 0,
            bytes,
        }
    }

    /// Leaves out bytes at the begin. The caller has checked that they exist.
    pub fn without_first(mut self, bytes: usize) -> Held {
        self.begin += bytes;
        self
    }

    /// Appends bytes. Memory is reserved for up to twice as many, but not for more than `limit`.
    ///
    /// # Errors
    /// If the bytes exceed the limit, or if other bodies take too much memory.
    fn extend(&mut self, app: &AppState, limit: usize, more: &[u8]) -> Result<(), ApiError> {
        let len = self.bytes.len() + more.len();
        if len > limit {
            return Err(too_long(limit));
        }
        if len > self.reserved {
            let reserved = len.max(2 * self.reserved).max(FIRST_BYTES).min(limit);
            let added = app.bodies.acquire(reserved - self.reserved)?;
            match &mut self.permit {
                Some(permit) => permit.merge(added),
                None => self.permit = Some(added),
            }
            self.reserved = reserved;
            self.bytes.reserve_exact(reserved - self.bytes.len());
        }
        self.bytes.extend_from_slice(more);
        Ok(())
    }
}

impl Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.begin..]
    }
}

/// Returns the maximum length of such a body, before and after decompression.
pub fn limit(app: &AppState) -> usize {
    app.settings.max_body.min(MAX_WHOLE_BODY) as usize
}

/// Receives a body. Memory is reserved as bytes arrive.
///
/// # Errors
/// If the body is too long or too slow, or if other bodies take too much memory.
pub async fn collect(
    app: &AppState,
    stream: &mut IngestStream,
    limit: usize,
) -> Result<Held, ApiError> {
    let mut held = Held::default();
    while let Some(frame) = stream.next().await? {
        held.extend(app, limit, &frame)?;
    }
    Ok(held)
}

/// Receives a body that may be compressed.
///
/// # Errors
/// As [`collect`] and [`decompress`].
pub async fn receive(
    app: &AppState,
    compression: Compression,
    stream: &mut IngestStream,
) -> Result<Held, ApiError> {
    let limit = limit(app);
    let body = collect(app, stream, limit).await?;
    decompress(app, compression, body, limit)
}

/// Returns the compression that a header states.
///
/// # Errors
/// If the body has another encoding.
pub fn compression(encoding: Option<&HeaderValue>) -> Result<Compression, ApiError> {
    match encoding.map(HeaderValue::as_bytes) {
        None | Some(b"" | b"identity") => Ok(Compression::None),
        Some(b"gzip" | b"x-gzip") => Ok(Compression::Gzip),
        Some(b"zstd") => Ok(Compression::Zstd),
        Some(_) => Err(ApiError::with(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "invalid",
            "the encoding of a body can be gzip, zstd or left out",
        )),
    }
}

/// Decompresses a body.
///
/// # Errors
/// If the bytes have another compression, or are too long after decompression, or if other bodies take too much memory.
pub fn decompress(
    app: &AppState,
    compression: Compression,
    body: Held,
    limit: usize,
) -> Result<Held, ApiError> {
    let gunzip = || {
        let decoder = MultiGzDecoder::new(&*body);
        read(app, decoder, limit, |error| bad("gzip", &error))
    };
    let unzstd = || {
        let bad = |error| bad("Zstandard with a window of at most 8 MiB", &error);
        let mut decoder = Decoder::with_buffer(&*body).map_err(bad)?;
        decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(bad)?;
        read(app, decoder, limit, bad)
    };
    let is_long = body.len() >= LONG_BYTES;
    match compression {
        Compression::None => Ok(body),
        Compression::Gzip if is_long => port::waiting(gunzip),
        Compression::Gzip => gunzip(),
        Compression::Zstd if is_long => port::waiting(unzstd),
        Compression::Zstd => unzstd(),
    }
}

/// Reads all that a decoder returns.
fn read(
    app: &AppState,
    mut decoder: impl Read,
    limit: usize,
    bad: impl Fn(io::Error) -> ApiError,
) -> Result<Held, ApiError> {
    let (mut held, mut piece) = (Held::default(), vec![0; FIRST_BYTES]);
    loop {
        match decoder.read(&mut piece).map_err(&bad)? {
            0 => return Ok(held),
            len => held.extend(app, limit, &piece[..len])?,
        }
    }
}

fn bad(stated: &str, error: &io::Error) -> ApiError {
    ApiError::invalid(format!(
        "the body is not the {stated} that its header states: {error}"
    ))
}

/// Returns the error of a body that exceeds the limit.
pub fn too_long(limit: usize) -> ApiError {
    let rest = format!(", which is {} MiB at most here", MAX_WHOLE_BODY >> 20);
    intake::too_long(limit as u64, &rest)
}
