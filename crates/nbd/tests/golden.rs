//! Conversations of released versions, byte for byte.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use seiner_nbd::{End, Limits, Memory, Offer, Session};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Returns the lines of a conversation: whether the client sends, and the bytes.
fn lines(name: &str) -> Vec<(bool, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/nbd/v1");
    let text = fs::read_to_string(folder.join(name)).unwrap();
    let spoken = text.lines().filter_map(|line| line.split_once([' ']));
    let spoken = spoken.filter(|(who, _)| matches!(*who, ">" | "<"));
    let bytes = |hex: &str| {
        let digits: Vec<u8> = hex.bytes().filter(|byte| *byte != b' ').collect();
        let pairs = digits.as_chunks::<2>().0.iter();
        pairs
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    };
    spoken.map(|(who, hex)| (who == ">", bytes(hex))).collect()
}

fn session() -> Session {
    let offer = Offer::new("disk", "a disk", Arc::new(Memory::new(64 << 10, 4096)));
    Session::new([offer].into(), Limits::default()).unwrap()
}

/// Plays a conversation line by line; returns its end.
fn play(name: &str) -> Option<End> {
    let mut session = session();
    let mut said = session.take_output();
    let mut end = None;
    for (at, (client, bytes)) in lines(name).into_iter().enumerate() {
        if client {
            assert_eq!(said, [], "{name}, line {at}: the server sent more");
            match session.receive(&bytes) {
                Ok(used) => assert_eq!(used, bytes.len(), "{name}, line {at}"),
                Err(said) => end = Some(said),
            }
            said = session.take_output();
        } else {
            assert!(said.starts_with(&bytes), "{name}, line {at}: {said:02x?}");
            said.drain(..bytes.len());
        }
    }
    assert_eq!(said, []);
    end
}

#[test]
fn a_current_client_is_answered_as_recorded() {
    assert_eq!(play("go.hex"), Some(End::Disconnected));
}

#[test]
fn an_old_client_is_answered_as_recorded() {
    assert_eq!(play("export-name.hex"), Some(End::Disconnected));
}

#[test]
fn a_conversation_is_the_same_in_one_piece_and_byte_by_byte() {
    for name in ["go.hex", "export-name.hex"] {
        let spoken: Vec<u8> = lines(name)
            .into_iter()
            .filter(|(client, _)| *client)
            .flat_map(|(_, bytes)| bytes)
            .collect();
        let mut whole = session();
        assert_eq!(whole.receive(&spoken), Err(End::Disconnected));
        let mut pieces = session();
        let (mut begin, mut ended) = (0, None);
        for end in 1..=spoken.len() {
            match pieces.receive(&spoken[begin..end]) {
                Ok(used) => begin += used,
                Err(end) => ended = Some(end),
            }
        }
        assert_eq!(ended, Some(End::Disconnected));
        assert_eq!(pieces.take_output(), whole.take_output(), "{name}");
    }
}
