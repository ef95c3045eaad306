//! Decoder of the catalog's frames: a thread that is some frames ahead of their registration.
//!
//! The thread only computes. It uses no disk and no clock, and the frames arrive in their order. A start therefore has
//! the same effects with and without it.

use super::frame::{ReadFrame, get_name};
use crate::bytes::Cursor;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, Builder};

/// Number of decoded frames that wait for their registration.
const WAITING: usize = 1;
/// Maximum number of names of a frame that are read ahead. They take twice the memory of the frame.
const NAMES: u32 = 1 << 16;

/// Decodes frames in a thread, and passes them to `register`. The names of the frames are hashed with `seed`. If the
/// system starts no thread, `register` gets the frames without their names.
pub fn decode_ahead<R>(
    mut frames: impl Iterator<Item = ReadFrame> + Send,
    seed: u64,
    register: impl FnOnce(&mut dyn Iterator<Item = ReadFrame>) -> R,
) -> R {
    let done = thread::scope(|scope| {
        let (sender, receiver) = sync_channel(WAITING);
        let decoder = Builder::new().name("seiner-catalog".to_string());
        let begun = decoder.spawn_scoped(scope, || send(&mut frames, seed, sender));
        match begun {
            Ok(_) => Ok(register(&mut receiver.into_iter())),
            Err(_) => Err(register),
        }
    });
    done.unwrap_or_else(|register| register(&mut frames))
}

fn send(frames: &mut impl Iterator<Item = ReadFrame>, seed: u64, to: SyncSender<ReadFrame>) {
    for mut read in frames {
        read_names(&mut read, seed);
        // Without a receiver, the registration panicked.
        if to.send(read).is_err() {
            return;
        }
    }
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

    #[test]
    fn a_registration_that_ends_early_ends_the_thread() {
        let frames = (0..).map(|offset| frame(offset, Vec::new(), 0));
        let first = decode_ahead(frames, 7, |frames| frames.next().map(|read| read.offset));
        assert_eq!(first, Some(0));
    }
}
