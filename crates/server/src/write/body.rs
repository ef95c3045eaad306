//! Bodies of line protocol: decompression on the way into the store, within a limit.
//!
//! Gzip and Zstandard are decompressed piece by piece. A block of Snappy states its length and is in memory as a whole.

use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::ingest::LineIngest;
use crate::ingest_stream::IngestStream;
use crate::intake;
use crate::remote_write::body::{self, Encoding};
use crate::whole_body::{self, Held, ZSTD_WINDOW_LOG};
use axum::http::{HeaderMap, header};
use flate2::write::MultiGzDecoder;
use seiner_store::Error;
use std::io::{self, Write};
use zstd::stream::{raw, zio};
use zstd::zstd_safe::DParameter;

/// Compressed bytes that are inflated before other tasks run: at the highest ratio of
/// deflate they become some 16 MiB.
const INFLATE_BYTES: usize = 16 << 10;
/// Bytes of Zstandard that are decompressed before other tasks run: four bytes become at most 128 KiB.
const ZSTD_BYTES: usize = 512;
/// Decompressed bytes that are stored before other tasks run.
const PIECE_BYTES: usize = 1 << 20;

/// Compression of a body.
enum Compression {
    None,
    Gzip,
    Zstd,
    Snappy,
}

fn compression(headers: &HeaderMap) -> Result<Compression, ApiError> {
    match headers
        .get(header::CONTENT_ENCODING)
        .map(|encoding| encoding.as_bytes())
    {
        None | Some(b"identity" | b"") => Ok(Compression::None),
        Some(b"gzip" | b"x-gzip") => Ok(Compression::Gzip),
        Some(b"zstd") => Ok(Compression::Zstd),
        Some(b"snappy") => Ok(Compression::Snappy),
        Some(_) => Err(ApiError::invalid(
            "Content-Encoding can be gzip, zstd, snappy or left out",
        )),
    }
}

/// Receives and decompresses a body that must be in memory as a whole.
///
/// # Errors
/// If the body is too long, too slow or in another encoding, or if other bodies take too much memory.
pub async fn whole(
    app: &AppState,
    stream: &mut IngestStream,
    headers: &HeaderMap,
) -> Result<Held, ApiError> {
    let limit = whole_body::limit(app);
    match compression(headers)? {
        Compression::None => whole_body::collect(app, stream, limit).await,
        Compression::Gzip => whole_body::receive(app, whole_body::Compression::Gzip, stream).await,
        Compression::Zstd => body::receive(app, Encoding::Zstd, stream).await,
        Compression::Snappy => body::receive(app, Encoding::Snappy, stream).await,
    }
}

/// Ingest behind a size limit. As a `Write` it is the destination of a decoder.
pub struct Sink<'e> {
    app: &'e AppState,
    ingest: LineIngest<'e>,
    left: u64,
    limit: u64,
    /// Error of `write` that an [`io::Error`] cannot express.
    error: Option<ApiError>,
}

impl<'e> Sink<'e> {
    /// Creates an ingest with the limit of the settings.
    pub fn new(app: &'e AppState, ingest: LineIngest<'e>) -> Sink<'e> {
        let limit = app.settings.max_body;
        Sink {
            app,
            ingest,
            left: limit,
            limit,
            error: None,
        }
    }

    /// Stores a body while it arrives. Returns the ingest, which the caller finishes.
    ///
    /// # Errors
    /// If the body is too long, too slow or in another encoding, or if the store accepts no more.
    pub async fn receive(
        mut self,
        stream: &mut IngestStream,
        headers: &HeaderMap,
    ) -> Result<LineIngest<'e>, ApiError> {
        match compression(headers)? {
            Compression::None => {
                while let Some(frame) = stream.next().await? {
                    self.take(&frame)?;
                }
            }
            Compression::Gzip => self = inflate(stream, self).await?,
            Compression::Zstd => self = decompress_zstd(stream, self).await?,
            Compression::Snappy => {
                let held = body::receive(self.app, Encoding::Snappy, stream).await?;
                self.take_whole(&held).await?;
            }
        }
        Ok(self.ingest)
    }

    /// Stores a body that is in memory. Returns the ingest, which the caller finishes.
    ///
    /// # Errors
    /// If the store accepts no more.
    pub async fn store(mut self, body: &[u8]) -> Result<LineIngest<'e>, ApiError> {
        self.take_whole(body).await?;
        Ok(self.ingest)
    }

    async fn take_whole(&mut self, body: &[u8]) -> Result<(), ApiError> {
        for piece in body.chunks(PIECE_BYTES) {
            self.take(piece)?;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), ApiError> {
        self.left = self
            .left
            .checked_sub(bytes.len() as u64)
            .ok_or_else(|| intake::too_long(self.limit, "; the lines before it are stored"))?;
        let ingest = &mut self.ingest;
        let taken = self.app.with_patience(|| ingest.take(bytes));
        taken.map_err(|error: Error| error.into())
    }
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.take(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(error) => {
                self.error = Some(error);
                Err(io::Error::other("rejected"))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn inflate<'e>(stream: &mut IngestStream, sink: Sink<'e>) -> Result<Sink<'e>, ApiError> {
    let mut decoder = MultiGzDecoder::new(sink);
    let cause = |sink: &mut Sink<'_>, error| sink.error.take().unwrap_or_else(|| bad_gzip(&error));
    while let Some(frame) = stream.next().await? {
        for piece in frame.chunks(INFLATE_BYTES) {
            if let Err(error) = decoder.write_all(piece) {
                return Err(cause(decoder.get_mut(), error));
            }
            tokio::task::yield_now().await;
        }
    }
    if let Err(error) = decoder.try_finish() {
        return Err(cause(decoder.get_mut(), error));
    }
    decoder.finish().map_err(|error| bad_gzip(&error))
}

async fn decompress_zstd<'e>(
    stream: &mut IngestStream,
    sink: Sink<'e>,
) -> Result<Sink<'e>, ApiError> {
    let mut decoder = raw::Decoder::new().map_err(|error| bad_zstd(&error))?;
    let window = DParameter::WindowLogMax(ZSTD_WINDOW_LOG);
    decoder
        .set_parameter(window)
        .map_err(|error| bad_zstd(&error))?;
    let mut writer = zio::Writer::new(sink, decoder);
    let cause = |sink: &mut Sink<'_>, error| sink.error.take().unwrap_or_else(|| bad_zstd(&error));
    while let Some(frame) = stream.next().await? {
        for piece in frame.chunks(ZSTD_BYTES) {
            if let Err(error) = writer.write_all(piece) {
                return Err(cause(writer.writer_mut(), error));
            }
            tokio::task::yield_now().await;
        }
    }
    if let Err(error) = writer.finish() {
        return Err(cause(writer.writer_mut(), error));
    }
    Ok(writer.into_inner().0)
}

fn bad_gzip(error: &io::Error) -> ApiError {
    ApiError::invalid(format!(
        "the body is not the gzip that Content-Encoding says it is: {error}"
    ))
}

fn bad_zstd(error: &io::Error) -> ApiError {
    ApiError::invalid(format!(
        "the body is not complete Zstandard with a window of at most 8 MiB: {error}"
    ))
}
