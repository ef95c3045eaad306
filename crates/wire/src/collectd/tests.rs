//! Tests of packets. The end-to-end tests receive those of collectd itself.

use super::*;
use crate::line::{Arena, LineNotation};
use aes::Aes256;
use hmac::{Hmac, KeyInit, Mac};
use ofb::Ofb;
use ofb::cipher::{KeyIvInit, StreamCipher};
use proptest::prelude::*;
use seiner_model::{Batch, Notation, SourceKey, Value};
use sha1::Sha1;
use sha2::{Digest, Sha256};

const USERS: &str = "# users\nann: secret\nbob:other\n";

fn part(kind: u16, content: &[u8]) -> Vec<u8> {
    let mut part = kind.to_be_bytes().to_vec();
    part.extend((content.len() as u16 + 4).to_be_bytes());
    part.extend(content);
    part
}

/// Returns a packet with a time and these values, each with its type.
fn packet(kind: &str, values: &[(u8, [u8; 8])]) -> Vec<u8> {
    let text = |number, text: &str| part(number, format!("{text}\0").as_bytes());
    let mut list = (values.len() as u16).to_be_bytes().to_vec();
    list.extend(values.iter().map(|(kind, _)| kind));
    list.extend(values.iter().flat_map(|(_, bytes)| bytes));
    [
        text(0, "nas"),
        part(8, &(1_700_000_000_u64 << 30 | 1 << 29).to_be_bytes()),
        part(9, &(10_u64 << 30).to_be_bytes()),
        text(2, "interface"),
        text(3, "eth0"),
        text(4, kind),
        text(5, ""),
        part(6, &list),
    ]
    .concat()
}

fn signed(user: &str, password: &str, packet: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(password.as_bytes()).unwrap();
    mac.update(user.as_bytes());
    mac.update(packet);
    let content = [&mac.finalize().into_bytes()[..], user.as_bytes()].concat();
    [part(0x0200, &content), packet.to_vec()].concat()
}

fn encrypted(user: &str, password: &str, packet: &[u8]) -> Vec<u8> {
    let vector = [7; 16];
    let key = Sha256::digest(password.as_bytes());
    let mut secret = [&Sha1::digest(packet)[..], packet].concat();
    let mut cipher = Ofb::<Aes256>::new_from_slices(&key, &vector).unwrap();
    cipher.apply_keystream(&mut secret);
    let len = (user.len() as u16).to_be_bytes();
    part(0x0210, &[&len, user.as_bytes(), &vector, &secret].concat())
}

fn packets(level: Level) -> Packets {
    let mut types = Types::default();
    types
        .add("# types\nif_octets\trx:DERIVE:0:U, tx:DERIVE:0:U\ngauge value:GAUGE:U:U\n")
        .unwrap();
    let security = Security::new(level, USERS).unwrap();
    Packets { types, security }
}

/// Returns the sources with their times and fields, and the problems of a packet.
fn decode(level: Level, packet: &[u8]) -> (Vec<String>, Problems) {
    let (arena, mut batch) = (Arena::new(), Batch::new());
    let problems = packets(level).decode(packet, 5, &arena, &mut batch);
    let rows = batch.rows.iter().map(|row| {
        let mut text = format!("{} {}", String::from_utf8_lossy(row.name), row.time);
        for cell in batch.cells_of(row) {
            let Value::F64(value) = cell.value else {
                panic!("{cell:?}");
            };
            text += &format!(" {}={value}", String::from_utf8_lossy(cell.field));
        }
        text
    });
    (rows.collect(), problems)
}

fn octets() -> Vec<u8> {
    packet(
        "if_octets",
        &[(2, 7_i64.to_be_bytes()), (2, (-1_i64).to_be_bytes())],
    )
}

const ROW: &str = "interface,host=nas,instance=eth0,type=if_octets 1700000000500000000 rx=7 tx=-1";

#[test]
fn values_have_the_names_of_their_types() {
    assert_eq!(
        decode(Level::None, &octets()),
        (vec![ROW.into()], Problems::default())
    );
    let four = [
        (0, 1_u64.to_be_bytes()),
        (1, 2.5_f64.to_le_bytes()),
        (3, 3_u64.to_be_bytes()),
        (1, f64::NAN.to_le_bytes()),
    ];
    let (rows, problems) = decode(Level::None, &packet("unknown", &four));
    assert!(
        rows[0].ends_with(" value_0=1 value_1=2.5 value_2=3"),
        "{rows:?}"
    );
    assert_eq!((problems.ignored, problems.rejected), (1, 0));
    let (rows, _) = decode(Level::None, &packet("other", &four[..1]));
    assert!(rows[0].ends_with(" value=1"), "{rows:?}");
    let key = LineNotation.source_key(ROW.split(' ').next().unwrap().as_bytes());
    let tags = [("host", "nas"), ("instance", "eth0"), ("type", "if_octets")];
    assert_eq!(key.unwrap(), SourceKey::new("interface", tags).unwrap());
}

#[test]
fn protection_is_required_as_the_level_states() {
    let plain = octets();
    let good = signed("ann", "secret", &plain);
    let secret = encrypted("bob", "other", &plain);
    for (level, packet, reason) in [
        (Level::None, &plain, None),
        (Level::None, &good, None),
        (Level::None, &signed("eve", "x", &plain), None),
        (
            Level::None,
            &signed("ann", "x", &plain),
            Some("signature is wrong"),
        ),
        (Level::None, &secret, None),
        (Level::Sign, &plain, Some("not signed")),
        (Level::Sign, &good, None),
        (
            Level::Sign,
            &signed("eve", "x", &plain),
            Some("\"eve\" is unknown"),
        ),
        (Level::Sign, &secret, None),
        (
            Level::Sign,
            &encrypted("bob", "secret", &plain),
            Some("checksum"),
        ),
        (Level::Encrypt, &plain, Some("not encrypted")),
        (Level::Encrypt, &good, Some("not encrypted")),
        (Level::Encrypt, &secret, None),
        // Parts after an encrypted one are not protected.
        (
            Level::Encrypt,
            &[&secret[..], &plain].concat(),
            Some("not encrypted"),
        ),
    ] {
        let (rows, problems) = decode(level, packet);
        match reason {
            None => assert_eq!((rows, problems.rejected), (vec![ROW.into()], 0)),
            Some(reason) => {
                let found = problems.reason.unwrap();
                assert!(found.contains(reason), "{reason}: {found}");
                assert_eq!(problems.rejected, 1);
            }
        }
    }
    // A signature covers the whole packet.
    let mut changed = good.clone();
    *changed.last_mut().unwrap() ^= 1;
    assert!(decode(Level::Sign, &changed).0.is_empty());
    assert!(Security::new(Level::Sign, "").is_err());
    assert!(Security::new(Level::None, "ann").is_err());
}

#[test]
fn a_malformed_packet_keeps_the_rows_before() {
    let plain = octets();
    for (rest, reason) in [
        (&[0][..], "cut off"),
        (&[0, 6, 0, 9, 0, 1], "cut off"),
        (&[0, 6, 0, 3], "states the length 3"),
        (&part(0, b"nas"), "does not end with a zero"),
        (&part(0, b""), "is empty"),
        (&part(2, &[b'x'; 300]), "longer than 256"),
        (&part(1, &[1]), "has 1 bytes"),
        (&part(1, &[255; 8]), "2262"),
        (&part(6, &[0, 1, 2]), "a list of 1 values"),
        (
            &part(6, &[0, 1, 9, 0, 0, 0, 0, 0, 0, 0, 0]),
            "unknown type 9",
        ),
    ] {
        let (rows, problems) = decode(Level::None, &[&plain[..], rest].concat());
        assert_eq!((rows.len(), problems.rejected), (1, 1), "{reason}");
        let found = problems.reason.unwrap();
        assert!(found.contains(reason), "{reason}: {found}");
    }
    // The rows after a list of values that is rejected are kept, too.
    let bad = part(6, &[0, 0]);
    let (rows, problems) = decode(Level::None, &[&bad[..], &plain].concat());
    assert_eq!((rows.len(), problems.rejected), (1, 1));
}

#[test]
fn lines_of_types_have_sources() {
    let mut types = Types::default();
    types
        .add("a b:GAUGE:0:U\n\n# c\na b:GAUGE:0:U,c:COUNTER:U:U")
        .unwrap();
    assert_eq!((types.len(), types.is_empty()), (1, false));
    assert_eq!(types.field("a", 1, 2), "c");
    for bad in ["a", "a b", "a b:GAUGE:0", "a ,"] {
        assert_eq!(types.add(&format!("\n{bad}")).unwrap_err().line, 2, "{bad}");
    }
}

proptest! {
    #[test]
    fn no_bytes_cause_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), at in 0..120_usize) {
        decode(Level::None, &bytes);
        let mut packet = encrypted("ann", "secret", &octets());
        let end = at.min(packet.len());
        packet.splice(end.., bytes);
        decode(Level::Sign, &packet);
    }
}
