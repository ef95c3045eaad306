//! Decoder of the catalog's frames: a thread that is some frames ahead of their registration.

use super::frame::{ReadFrame, get_name};
use crate::ahead::compute_ahead;
use crate::bytes::Cursor;

/// Maximum number of names of a frame that are read ahead. They take twice the memory of the frame.
const NAMES: u32 = 1 << 16;

/// Decodes frames in a thread, and passes them to `register`. The names of the frames are hashed with `seed`.
pub fn decode_ahead<R>(
    frames: impl Iterator<Item = ReadFrame> + Send,
    seed: u64,
    register: impl FnOnce(&mut dyn Iterator<Item = ReadFrame>) -> R,
) -> R {
    let frames = frames.map(|mut read| {
        read_names(&mut read, seed);
        read
    });
    compute_ahead("seiner-catalog", frames, register)
}

fn read_names(read: &mut ReadFrame, seed: u64) {
    if let Ok(frame) = &mut read.frame {
        let count = frame.sources.min(NAMES);
        let pass = |name: &mut Cursor<'_>| get_name(name).map(drop);
        // The registration reads a malformed name again, and reports it.
        let _ = frame.ahead.read(seed, &frame.names, count, pass);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Frame;
    use crate::catalog::frame::put_free;
    use seiner_codec::varint;

    /// Returns a frame with these bytes as the names of `sources` sources.
    fn frame(offset: u64, names: Vec<u8>, sources: u32) -> ReadFrame {
        let frame = Frame {
            names,
            sources,
            ..Frame::default()
        };
        ReadFrame {
            offset,
            end_source: sources,
            end_layout: 0,
            frame: Ok(frame),
        }
    }

    #[test]
    fn frames_arrive_in_order_with_the_names_before_a_malformed_one() {
        let mut names = Vec::new();
        put_free(3, &mut names);
        for name in [&b"plain"[..], b"\\needs=its,key"] {
            varint::put_u64(name.len() as u64, &mut names);
            names.extend_from_slice(name);
            names.push(0);
        }
        let whole = names.len();
        names.push(99);
        let frames = (0..20).map(|offset| frame(offset, names.clone(), 4));
        let found: Vec<ReadFrame> = decode_ahead(frames, 7, |frames| frames.collect());
        assert_eq!(found.len(), 20);
        for (offset, read) in (0..).zip(found) {
            assert_eq!(read.offset, offset);
            let ahead = read.frame.unwrap().ahead;
            let canonical: Vec<_> = ahead.names().iter().map(|n| ahead.canonical(n)).collect();
            assert_eq!(canonical, [&b""[..], b"plain", b""]);
            assert_eq!(ahead.bytes(), whole);
        }
    }
}
