//! Bytes that no honest client sends.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use proptest::prelude::*;
use seiner_nbd::{End, Limits, Memory, Offer, Session};
use std::sync::Arc;

fn session() -> Session {
    let disk = Arc::new(Memory::new(64 << 10, 4096));
    let rom = Arc::new(Memory::new(4096, 512).with(|shape| shape.read_only = true));
    let offers = [Offer::new("disk", "", disk), Offer::new("rom", "", rom)];
    Session::new(offers.into(), Limits::default()).unwrap()
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"IHAVEOPT".to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

fn go(name: &str) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend(0u16.to_be_bytes());
    option(7, &data)
}

fn request(flags: u16, kind: u16, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(b"cookie!!");
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// Feeds bytes to a session whose client has sent its flags; returns the result, the output and the session.
fn answer(bytes: &[u8]) -> (Result<usize, End>, Vec<u8>, Session) {
    let mut session = session();
    session.receive(&3u32.to_be_bytes()).unwrap();
    session.take_output();
    let received = session.receive(bytes);
    let output = session.take_output();
    (received, output, session)
}

/// Returns the type and the text of the last answer to an option.
fn rejection(bytes: &[u8]) -> (u32, String) {
    let (received, output, session) = answer(bytes);
    assert_eq!(received, Ok(bytes.len()));
    assert!(!session.chosen());
    let kind = u32::from_be_bytes(output[12..16].try_into().unwrap());
    (kind, String::from_utf8(output[20..].to_vec()).unwrap())
}

const ERROR: u32 = 1 << 31;

#[test]
fn unsupported_options_are_rejected_with_a_reason() {
    for (bytes, kind, text) in [
        (option(5, b""), ERROR + 1, "not spoken"),
        (option(0xffff_ffff, b"x"), ERROR + 1, "not spoken"),
        (option(3, b"x"), ERROR + 3, "no data"),
        (option(8, b"x"), ERROR + 3, "no data"),
        (option(7, b""), ERROR + 3, "lengths"),
        (option(7, &[0xff; 4]), ERROR + 3, "lengths"),
        (option(6, &[0, 0, 0, 0, 0, 1]), ERROR + 3, "lengths"),
        (option(7, &[0, 0, 0, 0, 0, 0, 1]), ERROR + 3, "lengths"),
        (
            go("tape\u{7}"),
            ERROR + 6,
            "there is no export \"tape\\u{7}\"",
        ),
        (option(7, &vec![0; 17 << 10]), ERROR + 9, "at most"),
    ] {
        let (found, reason) = rejection(&bytes);
        assert_eq!(found, kind, "{reason}");
        assert!(reason.contains(text), "{reason}");
    }
}

#[test]
fn invalid_input_ends_the_connection() {
    let wrong = [b"IHAVEOPS".as_slice(), &[0; 8]].concat();
    assert_eq!(answer(&wrong).0, Err(End::Magic));
    let mut long = option(7, b"");
    long[12..].copy_from_slice(&u32::MAX.to_be_bytes());
    assert_eq!(answer(&long).0, Err(End::LongOption(u32::MAX)));
    assert_eq!(
        answer(&option(1, b"tape")).0,
        Err(End::Unknown("tape".into()))
    );
    assert_eq!(answer(&option(2, b"")).0, Err(End::Aborted));
    assert_eq!(
        answer(&option(3, b"").repeat(2000)).0,
        Err(End::ManyOptions)
    );
    let mut strange = session();
    assert_eq!(strange.receive(&[0xff; 4]), Err(End::Flags(u32::MAX)));
    let (_, _, mut session) = answer(&go("disk"));
    assert_eq!(session.receive(&[0; 28]), Err(End::Magic));
}

#[test]
fn invalid_requests_are_answered_with_errors() {
    for (export, flags, kind, offset, length, errno) in [
        ("disk", 0, 0, 0, 0, 22),
        ("disk", 0, 0, u64::MAX, 1, 22),
        ("disk", 0, 0, 65536, 1, 22),
        ("disk", 0, 0, 0, u32::MAX, 22),
        ("disk", 4, 0, 0, 1, 22),
        ("disk", 0, 4, 65535, 2, 22),
        ("disk", 0, 6, 65535, 2, 28),
        ("disk", 0x8000, 3, 0, 0, 22),
        ("disk", 0, 7, 0, 1, 22),
        ("rom", 0, 4, 0, 1, 1),
        ("rom", 0, 6, 0, 1, 1),
    ] {
        let (_, _, mut session) = answer(&go(export));
        let bytes = request(flags, kind, offset, length);
        assert_eq!(session.receive(&bytes), Ok(28));
        let output = session.take_output();
        assert_eq!(output.len(), 16, "{kind} {offset} {length}");
        assert_eq!(
            output[4..8],
            u32::to_be_bytes(errno),
            "{kind} {offset} {length}"
        );
        assert_eq!(&output[8..], b"cookie!!");
    }
}

#[test]
fn data_of_a_rejected_write_are_skipped() {
    for (export, length) in [("rom", 512), ("disk", 40 << 20)] {
        let (_, _, mut session) = answer(&go(export));
        session.receive(&request(0, 1, 0, length)).unwrap();
        let mut left = length as usize;
        let piece = request(0, 2, 0, 0).repeat(100);
        while left > 0 {
            let here = left.min(piece.len());
            // Data that look like requests are not parsed. A small write is consumed only when all its data have
            // arrived.
            let mut input = piece[..here].to_vec();
            if export == "rom" {
                input = [request(0, 1, 0, length), input].concat();
            }
            let used = session.receive(&input);
            assert!(used.is_ok(), "{used:?}");
            left -= here;
        }
        assert_eq!(session.receive(&request(0, 3, 0, 0)), Ok(28));
        let output = session.take_output();
        assert_eq!(output[output.len() - 12..output.len() - 8], [0; 4]);
    }
}

#[test]
fn requests_wait_while_answers_are_not_read() {
    let limits = Limits {
        bytes: 100_000,
        ..Limits::default()
    };
    let disk = Offer::new("disk", "", Arc::new(Memory::new(64 << 10, 4096)));
    let mut session = Session::new([disk].into(), limits).unwrap();
    session.receive(&3u32.to_be_bytes()).unwrap();
    session.receive(&go("disk")).unwrap();
    let input = request(0, 0, 0, 65536).repeat(100);
    let used = session.receive(&input).unwrap();
    assert_eq!(used, 2 * 28);
    assert_eq!(session.receive(&input[used..]), Ok(0));
    assert!(session.take_output().len() > 2 * 65536);
    assert_eq!(session.receive(&input[used..]), Ok(2 * 28));
}

/// Messages of a client, valid and invalid.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let offset = prop_oneof![0u64..70_000, any::<u64>()];
    let length = prop_oneof![0u32..9000, any::<u32>()];
    prop_oneof![
        4 => (0u16..32, 0u16..8, offset, length, 0usize..9000).prop_map(|(flags, kind, offset, length, data)| {
            let mut bytes = request(flags, kind, offset, length);
            bytes.resize(28 + if kind == 1 { data } else { 0 }, 7);
            bytes
        }),
        2 => (0u32..12, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(number, data)| option(number, &data)),
        1 => Just(go("disk")),
        1 => Just(go("rom")),
        1 => prop::collection::vec(any::<u8>(), 0..100),
    ]
}

proptest! {
    #[test]
    fn arbitrary_bytes_cause_no_panic_and_no_unbounded_output(
        messages in prop::collection::vec(message(), 0..30), cut in 1usize..5000, flags in 0u32..4,
    ) {
        let bytes = [flags.to_be_bytes().to_vec(), messages.concat()].concat();
        let mut session = session();
        let mut waiting = Vec::new();
        for piece in bytes.chunks(cut) {
            waiting.extend_from_slice(piece);
            match session.receive(&waiting) {
                Ok(used) => drop(waiting.drain(..used)),
                Err(_) => break,
            }
            prop_assert!(session.take_output().len() < 200 << 20);
        }
    }
}
