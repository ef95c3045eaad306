//! An array as an export of a network block device (feature `nbd`).

use crate::{Array, BLOCK_BYTES, Command as Asked, Failure, Page};
use seiner_nbd::{Command, Completion, Export, ExportShape, Fault};

/// Largest size in bytes that the export prefers.
const MOST_PREFERRED: u64 = 32 << 20;

impl Export for Array {
    fn shape(&self) -> ExportShape {
        let stripe = self.stripe_bytes();
        // Preferred sizes are powers of two. If a stripe is not one, the largest power of two that divides it is
        // taken.
        let preferred = (1u64 << stripe.trailing_zeros()).min(MOST_PREFERRED);
        ExportShape {
            bytes: self.bytes(),
            block: self.block_bytes(),
            preferred: preferred as u32,
            read_only: false,
            trims: true,
            // The array writes zeroes like any other data.
            zeroes: false,
        }
    }

    fn submit(&self, command: Command<'_>, completion: Completion) {
        let of_block = BLOCK_BYTES as u64;
        let asked = match command {
            Command::Read { offset, length } => Asked::Read {
                start: offset / of_block,
                blocks: length / of_block,
            },
            Command::Write {
                offset,
                data,
                durable,
            } => Asked::Write {
                start: offset / of_block,
                data: data.chunks_exact(BLOCK_BYTES).map(Page::copy_of).collect(),
                durable,
            },
            Command::Flush => Asked::Flush,
            Command::Trim { offset, length, .. } => Asked::Trim {
                start: offset / of_block,
                blocks: length / of_block,
            },
            Command::Zero {
                offset,
                length,
                durable,
                ..
            } => Asked::WriteZeroes {
                start: offset / of_block,
                blocks: length / of_block,
                durable,
            },
        };
        let answer = move |result: Result<Vec<Page>, Failure>| match result {
            Ok(pages) => completion.pieces(pages.iter().map(|page| page.bytes().as_slice())),
            Err(failure) => completion.fail(Fault::io(failure.to_string())),
        };
        Array::submit(self, asked, Box::new(answer));
    }
}
