//! Decoder of a stream of Arrow whose bytes come in pieces.

use anyhow::{Context, Result, anyhow, bail};
use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_schema::SchemaRef;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Function that receives record batches.
pub type TakeBatch<'a> = dyn FnMut(RecordBatch) -> Result<()> + 'a;

/// Decoder of one stream. At most one record batch is in memory.
#[derive(Default)]
pub struct BatchDecoder {
    stream: StreamDecoder,
}

impl BatchDecoder {
    /// Returns the schema, after its bytes were decoded.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.stream.schema()
    }

    /// Decodes the next bytes, and passes each record batch to a function.
    ///
    /// # Errors
    /// If the bytes are not a stream of Arrow, and the errors of the function. The decoder cannot be used afterwards.
    pub fn take(&mut self, bytes: Vec<u8>, batch: &mut TakeBatch<'_>) -> Result<()> {
        let mut buffer = Buffer::from(bytes);
        while !buffer.is_empty() {
            let decoded = shielded(|| {
                let decoded = self.stream.decode(&mut buffer);
                decoded.context("this is not a valid stream of Arrow")
            })?;
            if let Some(decoded) = decoded {
                batch(decoded)?;
            }
        }
        Ok(())
    }

    /// Checks that the stream ended at the end of a message.
    ///
    /// # Errors
    /// If the stream is empty or incomplete.
    pub fn finish(mut self) -> Result<()> {
        if self.stream.schema().is_none() {
            bail!("the stream of Arrow has no schema; it is empty or incomplete");
        }
        self.stream
            .finish()
            .context("the stream of Arrow is incomplete")
    }
}

/// Writer of a stream whose record batches go to a function.
pub struct BatchWriter<'a> {
    decoder: BatchDecoder,
    batch: &'a mut TakeBatch<'a>,
}

impl<'a> BatchWriter<'a> {
    /// Creates a writer at the beginning of a stream.
    pub fn new(batch: &'a mut TakeBatch<'a>) -> BatchWriter<'a> {
        BatchWriter {
            decoder: BatchDecoder::default(),
            batch,
        }
    }

    /// Checks that the stream is complete.
    ///
    /// # Errors
    /// As [`BatchDecoder::finish`].
    pub fn finish(self) -> Result<()> {
        self.decoder.finish()
    }
}

impl Write for BatchWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.decoder
            .take(bytes.to_vec(), self.batch)
            .map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Calls a decoder of a library that panics on some damaged inputs, and turns the panic into an error.
pub fn shielded<T>(decode: impl FnOnce() -> Result<T>) -> Result<T> {
    // Tests run in parallel, and share the hook.
    let hook = (!cfg!(test)).then(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| ()));
        hook
    });
    let decoded = catch_unwind(AssertUnwindSafe(decode));
    if let Some(hook) = hook {
        std::panic::set_hook(hook);
    }
    decoded.unwrap_or_else(|_| Err(anyhow!("the data are damaged")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Int64Array};
    use arrow_ipc::writer::StreamWriter;
    use std::sync::Arc;

    fn stream() -> Vec<u8> {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
        let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        stream.write(&batch).unwrap();
        stream.write(&batch).unwrap();
        stream.into_inner().unwrap()
    }

    fn rows(bytes: &[u8], piece: usize) -> Result<usize> {
        let mut rows = 0;
        let mut count = |batch: RecordBatch| {
            rows += batch.num_rows();
            Ok(())
        };
        let mut writer = BatchWriter::new(&mut count);
        bytes
            .chunks(piece)
            .try_for_each(|piece| writer.write_all(piece))?;
        writer.finish()?;
        Ok(rows)
    }

    #[test]
    fn batches_arrive_for_pieces_of_any_size() {
        for piece in [1, 7, 100_000] {
            assert_eq!(rows(&stream(), piece).unwrap(), 6);
        }
    }

    #[test]
    fn incomplete_and_damaged_streams_are_errors() {
        let whole = stream();
        assert!(rows(&[], 1).is_err());
        assert!(rows(&whole[..whole.len() - 20], 64).is_err());
        assert!(rows(b"PAR1 is not a stream of Arrow", 64).is_err());
        // Every byte may have any value without a panic.
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x91;
            let _ = rows(&damaged, 64);
        }
    }
}
