//! Lines and pickles of Graphite.

use super::*;
use crate::Skipped;
use crate::line::{Arena, LineNotation};
use proptest::prelude::*;
use seiner_model::{Batch, Notation, Value};

const NOW: i64 = 77;

/// Returns rows as texts.
fn rows(batch: &Batch<'_>) -> Vec<String> {
    let text = |row: &seiner_model::Row<'_>| {
        let key = LineNotation.source_key(row.name).unwrap();
        let mut name = Vec::new();
        key.put_name(&mut name);
        let Value::F64(value) = batch.cells_of(row)[0].value else {
            panic!("a value is not a float");
        };
        format!("{} {value} {}", String::from_utf8(name).unwrap(), row.time)
    };
    batch.rows.iter().map(text).collect()
}

fn line(text: &str) -> Result<Vec<String>, Skipped> {
    let (arena, mut batch) = (Arena::new(), Batch::new());
    decode_line(text.as_bytes(), NOW, &arena, &mut batch)?;
    Ok(rows(&batch))
}

fn pickle(bytes: &[u8]) -> Result<Vec<Result<String, Skipped>>, PickleError> {
    let mut pickle = Pickle::parse(bytes)?;
    let mut found = Vec::new();
    let arena = Arena::new();
    loop {
        let mut batch = Batch::new();
        match pickle.next_row(NOW, &arena, &mut batch) {
            None => return Ok(found),
            Some(row) => found.push(row.map(|()| rows(&batch).remove(0))),
        }
    }
}

#[test]
fn lines_become_rows() {
    for (text, row) in [
        ("a.b.c 1.5 100", "a.b.c 1.5 100000000000"),
        ("a.b.c\t-2 \t100.25\r", "a.b.c -2 100250000000"),
        ("a 1e3 -1", "a 1000 77"),
        ("a 1 -2", "a 1 -2000000000"),
        ("a 1 N", "a 1 77"),
        ("a 1", "a 1 77"),
        (
            "disk.used;mount=/;host=a 1 5",
            "disk.used,host=a,mount=/ 1 5000000000",
        ),
        ("a;t=x,y=z 1 5", "a,t=x\\,y\\=z 1 5000000000"),
        ("a,b=c 1 5", "a\\,b=c 1 5000000000"),
    ] {
        assert_eq!(line(text), Ok(vec![row.to_string()]), "{text}");
    }
    assert_eq!(line(" \r"), Ok(vec![]));
}

#[test]
fn invalid_lines_are_rejected_with_a_reason() {
    for (text, reason) in [
        ("a", "`path value time`"),
        ("a 1 2 3", "`path value time`"),
        ("a x 1", "value \"x\" is not a number"),
        ("a 1 x", "time \"x\" is not a number"),
        ("a inf 1", "not finite"),
        ("a 1 nan", "1677"),
        ("a 1 1700000000000", "seconds"),
        (";a=b 1 1", "no name"),
        ("a;b 1 1", "not a tag"),
        ("a;b= 1 1", "not a tag"),
        ("a\\;b=c 1 1", "backslash"),
    ] {
        match line(text) {
            Err(Skipped::Rejected(found)) => assert!(found.contains(reason), "{text}: {found}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    assert_eq!(line("a nan 1"), Err(Skipped::NotANumber));
    let long = format!("{} 1 1", "x".repeat(20_000));
    assert!(matches!(line(&long), Err(Skipped::Rejected(_))));
}

/// `pickle.dumps([("a.b", (100, 1.5)), ("c;t=u", (200, 2))], protocol)` of Python 3.
const PICKLES: [&[u8]; 6] = [
    b"(lp0\n(Va.b\np1\n(I100\nF1.5\ntp2\ntp3\na(Vc;t=u\np4\n(I200\nI2\ntp5\ntp6\na.",
    b"]q\x00((X\x03\x00\x00\x00a.bq\x01(KdG?\xf8\x00\x00\x00\x00\x00\x00tq\x02tq\x03(X\x05\x00\x00\x00c;t=uq\x04(K\xc8K\x02tq\x05tq\x06e.",
    b"\x80\x02]q\x00(X\x03\x00\x00\x00a.bq\x01KdG?\xf8\x00\x00\x00\x00\x00\x00\x86q\x02\x86q\x03X\x05\x00\x00\x00c;t=uq\x04K\xc8K\x02\x86q\x05\x86q\x06e.",
    b"\x80\x03]q\x00(X\x03\x00\x00\x00a.bq\x01KdG?\xf8\x00\x00\x00\x00\x00\x00\x86q\x02\x86q\x03X\x05\x00\x00\x00c;t=uq\x04K\xc8K\x02\x86q\x05\x86q\x06e.",
    b"\x80\x04\x95\x29\x00\x00\x00\x00\x00\x00\x00]\x94(\x8c\x03a.b\x94KdG?\xf8\x00\x00\x00\x00\x00\x00\x86\x94\x86\x94\x8c\x05c;t=u\x94K\xc8K\x02\x86\x94\x86\x94e.",
    b"\x80\x05\x95\x29\x00\x00\x00\x00\x00\x00\x00]\x94(\x8c\x03a.b\x94KdG?\xf8\x00\x00\x00\x00\x00\x00\x86\x94\x86\x94\x8c\x05c;t=u\x94K\xc8K\x02\x86\x94\x86\x94e.",
];

#[test]
fn pickles_of_all_protocols_become_rows() {
    for (protocol, bytes) in PICKLES.iter().enumerate() {
        let expected = ["a.b 1.5 100000000000", "c,t=u 2 200000000000"];
        let expected = expected.map(|row| Ok(row.to_string())).to_vec();
        assert_eq!(pickle(bytes), Ok(expected), "protocol {protocol}");
    }
}

#[test]
fn pickles_that_call_functions_are_rejected() {
    // os.system("true"), in protocols 0 and 4.
    for bytes in [
        &b"cos\nsystem\n(S'true'\ntR."[..],
        b"\x80\x04\x95\x1f\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x04true\x94\x85\x94R\x94.",
    ] {
        let error = pickle(bytes).unwrap_err();
        assert!(error.fault.contains("operation"), "{error}");
    }
}

#[test]
fn faults_of_pickles_are_errors() {
    for bytes in [
        &b""[..],
        b".",
        b"a.",
        b"e.",
        b"]",
        b"K\x01.",
        b"h\x05.",
        b"\x86.",
        b"X\xff\xff\xff\xff.",
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff.",
        b"(((t.",
    ] {
        match pickle(bytes) {
            Err(error) => assert!(!error.fault.is_empty()),
            Ok(samples) => assert!(samples.is_empty(), "{bytes:?}"),
        }
    }
    // One element is wrong, the others are samples.
    let found = pickle(b"](K\x01X\x01\x00\x00\x00aK\x02K\x03\x86\x86e.").unwrap();
    assert!(found[0].is_err() && found[1].is_ok());
    assert!(Pickle::parse(&vec![b'N'; MAX_PICKLE + 1]).is_err());
}

#[test]
fn a_list_that_contains_itself_ends() {
    assert!(pickle(b"]q\x00h\x00a.").unwrap()[0].is_err());
}

proptest! {
    #[test]
    fn no_line_and_no_pickle_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let (arena, mut batch) = (Arena::new(), Batch::new());
        let _ = decode_line(&bytes, NOW, &arena, &mut batch);
        let _ = pickle(&bytes);
    }

    #[test]
    fn a_changed_pickle_does_not_panic(protocol in 0..6usize, at in 0..60usize, byte in any::<u8>()) {
        let mut bytes = PICKLES[protocol].to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(mut pickle) = Pickle::parse(&bytes) {
            let (arena, mut batch) = (Arena::new(), Batch::new());
            while pickle.next_row(NOW, &arena, &mut batch).is_some() {}
        }
    }
}
