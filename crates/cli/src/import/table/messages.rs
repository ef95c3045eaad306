//! Messages of a stream of Arrow, one at a time, without compression.
//!
//! Programs that write Arrow often compress the buffers of a record batch, each on its own (the default of pandas for
//! Feather). The decoder of the library could do that too, but only for all of its users: a body that a server receives
//! could then demand any amount of memory. So a file is decompressed here, before the decoder sees it.

use anyhow::{Context, Result, bail, ensure};
use arrow_ipc::{
    Buffer, CompressionType, DictionaryBatchBuilder, Message, MessageBuilder, RecordBatch,
    RecordBatchBuilder, root_as_message,
};
use flatbuffers::{FlatBufferBuilder, WIPOffset};
use std::io::Read;

/// Marker before the length of a message in newer streams.
const MARKER: [u8; 4] = [0xff; 4];
/// Message that ends a stream.
pub const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
/// Maximum bytes of the buffers of a record batch after decompression.
const MOST_BYTES: u64 = 1 << 30;
/// Bytes before a compressed buffer: its length after decompression, or [`STORED`].
const PREFIX: usize = 8;
/// Length of a buffer that was not compressed because it would not have become smaller.
const STORED: i64 = -1;
/// Multiple of bytes at which buffers and messages begin.
const ALIGNMENT: usize = 8;

/// Reader of messages.
pub struct Messages<R> {
    reader: R,
}

impl<R: Read> Messages<R> {
    /// Creates a reader at the beginning of a stream.
    pub fn new(reader: R) -> Messages<R> {
        Messages { reader }
    }

    /// Returns the number of bytes of the next message in the stream, and the message without compression; `None` at the
    /// end. A message that is incomplete or damaged is returned as it is: the decoder has the error for it.
    ///
    /// # Errors
    /// If the stream cannot be read, or the buffers of a record batch cannot be decompressed.
    pub fn next(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        let mut message = Vec::new();
        self.read(4, &mut message)?;
        if message == MARKER {
            self.read(4, &mut message)?;
        }
        if message.is_empty() {
            return Ok(None);
        }
        let begin = message.len();
        let length = message
            .last_chunk()
            .map_or(0, |last| u32::from_le_bytes(*last));
        self.read(u64::from(length), &mut message)?;
        let end = message.len();
        if let Ok(metadata) = root_as_message(&message[begin..]) {
            let body = u64::try_from(metadata.bodyLength()).unwrap_or(0);
            self.read(body, &mut message)?;
        }
        let length = message.len() as u64;
        let plain = match root_as_message(&message[begin..end]) {
            Ok(metadata) => decompressed(metadata, &message[end..])?,
            Err(_) => None,
        };
        Ok(Some((length, plain.unwrap_or(message))))
    }

    /// Appends up to `count` bytes: fewer at the end of the stream.
    fn read(&mut self, count: u64, message: &mut Vec<u8>) -> Result<()> {
        let read = self.reader.by_ref().take(count).read_to_end(message);
        read.context("the file cannot be read").map(|_| ())
    }
}

/// Returns a message with decompressed buffers; `None` if they are not compressed.
fn decompressed(message: Message<'_>, body: &[u8]) -> Result<Option<Vec<u8>>> {
    let dictionary = message.header_as_dictionary_batch();
    let batch = match dictionary {
        Some(dictionary) => dictionary.data(),
        None => message.header_as_record_batch(),
    };
    let Some(batch) = batch else { return Ok(None) };
    let Some(compression) = batch.compression() else {
        return Ok(None);
    };
    let (buffers, body) = plain_buffers(batch, compression.codec(), body)?;
    let mut builder = FlatBufferBuilder::new();
    let data = put_batch(&mut builder, batch, &buffers);
    let header = match dictionary {
        None => data.as_union_value(),
        Some(dictionary) => {
            let mut table = DictionaryBatchBuilder::new(&mut builder);
            table.add_id(dictionary.id());
            table.add_data(data);
            table.add_isDelta(dictionary.isDelta());
            table.finish().as_union_value()
        }
    };
    let mut table = MessageBuilder::new(&mut builder);
    table.add_version(message.version());
    table.add_header_type(message.header_type());
    table.add_bodyLength(body.len() as i64);
    table.add_header(header);
    let table = table.finish();
    builder.finish(table, None);
    Ok(Some(framed(builder.finished_data(), &body)))
}

/// Returns the buffers of a record batch after decompression: their places, and their bytes.
fn plain_buffers(
    batch: RecordBatch<'_>,
    codec: CompressionType,
    body: &[u8],
) -> Result<(Vec<Buffer>, Vec<u8>)> {
    let mut plain = Vec::new();
    let mut places = Vec::new();
    for place in batch.buffers().into_iter().flatten() {
        let start = usize::try_from(place.offset()).unwrap_or(usize::MAX);
        let end = start.saturating_add(usize::try_from(place.length()).unwrap_or(usize::MAX));
        let bytes = body.get(start..end);
        let bytes = bytes.context("the data are damaged: a buffer does not lie in its message")?;
        let at = plain.len();
        append(bytes, codec, &mut plain)?;
        places.push(Buffer::new(at as i64, (plain.len() - at) as i64));
        plain.resize(plain.len().next_multiple_of(ALIGNMENT), 0);
    }
    Ok((places, plain))
}

/// Appends a buffer after decompression.
fn append(bytes: &[u8], codec: CompressionType, plain: &mut Vec<u8>) -> Result<()> {
    let Some((length, bytes)) = bytes.split_first_chunk::<PREFIX>() else {
        ensure!(
            bytes.is_empty(),
            "the data are damaged: a buffer has no length"
        );
        return Ok(());
    };
    let length = i64::from_le_bytes(*length);
    if length == STORED {
        plain.extend_from_slice(bytes);
        return Ok(());
    }
    let length = u64::try_from(length).context("the data are damaged: a length is negative")?;
    let sum = length.saturating_add(plain.len() as u64);
    ensure!(
        sum <= MOST_BYTES,
        "a record batch has {sum} bytes or more; the maximum is {MOST_BYTES}; write the file with fewer rows in a batch"
    );
    let before = plain.len() as u64;
    // One byte more than stated shows that the length is wrong.
    let read = match codec {
        CompressionType::LZ4_FRAME => {
            let reader = lz4_flex::frame::FrameDecoder::new(bytes);
            reader.take(length + 1).read_to_end(plain)
        }
        CompressionType::ZSTD => {
            let reader = zstd::stream::read::Decoder::with_buffer(bytes)?;
            reader.take(length + 1).read_to_end(plain)
        }
        _ => bail!("the compression is not known; write the file with LZ4 or Zstandard"),
    };
    read.context("the data are damaged: a buffer cannot be decompressed")?;
    ensure!(
        plain.len() as u64 == before + length,
        "the data are damaged: a buffer does not have its length"
    );
    Ok(())
}

/// Appends a record batch whose buffers have other places.
fn put_batch<'b>(
    builder: &mut FlatBufferBuilder<'b>,
    batch: RecordBatch<'_>,
    buffers: &[Buffer],
) -> WIPOffset<RecordBatch<'b>> {
    let nodes: Option<Vec<_>> = batch.nodes().map(|nodes| nodes.iter().copied().collect());
    let nodes = nodes.map(|nodes| builder.create_vector(&nodes));
    let buffers = builder.create_vector(buffers);
    let counts: Option<Vec<i64>> = { batch.variadicBufferCounts() }.map(|all| all.iter().collect());
    let counts = counts.map(|counts| builder.create_vector(&counts));
    let mut table = RecordBatchBuilder::new(builder);
    table.add_length(batch.length());
    nodes.into_iter().for_each(|nodes| table.add_nodes(nodes));
    table.add_buffers(buffers);
    let counts = counts.into_iter();
    counts.for_each(|counts| table.add_variadicBufferCounts(counts));
    table.finish()
}

/// Returns a message of a stream.
fn framed(metadata: &[u8], body: &[u8]) -> Vec<u8> {
    let length = metadata.len().next_multiple_of(ALIGNMENT);
    let mut message = Vec::with_capacity(MARKER.len() + 4 + length + body.len());
    message.extend_from_slice(&MARKER);
    message.extend_from_slice(&(length as u32).to_le_bytes());
    message.extend_from_slice(metadata);
    message.resize(MARKER.len() + 4 + length, 0);
    message.extend_from_slice(body);
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrow_stream::{BatchDecoder, shielded};
    use arrow_array::RecordBatch;
    use arrow_select::concat::concat_batches;

    /// Rows of the golden files, which pyarrow wrote: 400, in batches of 150.
    const ROWS: usize = 400;
    /// Bytes before the stream in a file of Arrow.
    const MAGIC_BYTES: usize = 8;

    fn golden(name: &str) -> Vec<u8> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/arrow/");
        let bytes = std::fs::read(format!("{folder}{name}")).unwrap();
        let stream = if name.ends_with("feather") {
            MAGIC_BYTES
        } else {
            0
        };
        bytes[stream..].to_vec()
    }

    fn batches(stream: &[u8]) -> Result<Vec<RecordBatch>> {
        let (mut messages, mut decoder) = (Messages::new(stream), BatchDecoder::default());
        let mut batches = Vec::new();
        while let Some((_, message)) = shielded(|| messages.next())? {
            decoder.take(message, &mut |batch| {
                batches.push(batch);
                Ok(())
            })?;
        }
        Ok(batches)
    }

    #[test]
    fn files_of_other_programs_are_decompressed() {
        let files = ["lz4.feather", "zstd.feather", "zstd.arrows"].map(|name| {
            // The footer of a file is no message.
            let found = match name.ends_with("feather") {
                true => until_end(&golden(name)),
                false => golden(name),
            };
            let batches = batches(&found).unwrap();
            concat_batches(&batches[0].schema(), &batches).unwrap()
        });
        for table in &files {
            assert_eq!(table, &files[0]);
            assert_eq!((table.num_rows(), table.num_columns()), (ROWS, 5));
        }
        let states = files[0].column(3);
        let states = states.as_any().downcast_ref::<arrow_array::StringArray>();
        assert_eq!(states.unwrap().value(ROWS - 1), "closed 399");
        assert_eq!(files[0].column(2).null_count(), 8);
    }

    /// Returns a stream up to the message that ends it.
    fn until_end(stream: &[u8]) -> Vec<u8> {
        let at = stream.windows(END.len()).rposition(|bytes| bytes == END);
        stream[..at.unwrap() + END.len()].to_vec()
    }

    /// Every byte may have another value, and a stream may end anywhere: without a panic, and without much memory.
    #[test]
    fn damaged_messages_are_errors_or_other_values() {
        for name in ["lz4.feather", "zstd.arrows"] {
            let whole = golden(name);
            for at in 0..whole.len() {
                let mut damaged = whole.clone();
                damaged[at] ^= 0x91;
                let _ = batches(&damaged);
                if at % 16 == 0 {
                    let _ = batches(&whole[..at]);
                }
            }
        }
    }

    #[test]
    fn a_buffer_has_its_stated_length() {
        let long = vec![7; 3000];
        let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
        std::io::Write::write_all(&mut encoder, &long).unwrap();
        let lz4 = encoder.finish().unwrap();
        let zstd = zstd::bulk::compress(&long, 3).unwrap();
        for (codec, bytes) in [
            (CompressionType::LZ4_FRAME, lz4),
            (CompressionType::ZSTD, zstd),
        ] {
            let read = |length: i64| {
                let mut plain = vec![1];
                let buffer = [&length.to_le_bytes()[..], &bytes].concat();
                append(&buffer, codec, &mut plain).map(|()| plain)
            };
            assert_eq!(read(3000).unwrap()[1..], long);
            assert_eq!(read(STORED).unwrap()[1..], bytes);
            for (length, words) in [
                (2999, "does not have its length"),
                (3001, "does not have its length"),
                (0, "does not have its length"),
                (-2, "negative"),
                (MOST_BYTES as i64, "fewer rows in a batch"),
                (i64::MAX, "fewer rows in a batch"),
            ] {
                let error = read(length).unwrap_err().to_string();
                assert!(error.contains(words), "{length}: {error}");
            }
            assert!(append(&[1; 7], codec, &mut Vec::new()).is_err());
            append(&[], codec, &mut Vec::new()).unwrap();
        }
    }
}
