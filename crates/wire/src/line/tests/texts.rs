//! Units that follow from numbers, and texts one after the other.

use super::*;

#[test]
fn a_guessed_unit_follows_from_the_number() {
    for (time, ns) in [
        ("0", 0),
        ("4999999999", 4_999_999_999_000_000_000),
        ("-1", -1_000_000_000),
        ("5000000000", 5_000_000_000_000_000),
        ("1700000000123", 1_700_000_000_123_000_000),
        ("1700000000123456", 1_700_000_000_123_456_000),
        ("5000000000000000", 5_000_000_000_000_000),
        ("1700000000123456789", 1_700_000_000_123_456_789),
    ] {
        let text = format!("m v=1 {time}\n");
        let (arena, mut batch, mut errors) = (Arena::new(), Batch::new(), Vec::new());
        let mut parser = LineParser::new(Precision::Ms)
            .refuse_1970(true)
            .guess_unit(true);
        parser.parse(
            text.as_bytes(),
            true,
            NOW,
            9,
            &arena,
            &mut batch,
            &mut errors,
        );
        assert_eq!(errors, [], "{time}");
        assert_eq!(batch.rows[0].time, ns, "{time}");
    }
}

#[test]
fn a_text_that_ended_does_not_swallow_the_next_one() {
    let mut parser = LineParser::new(Precision::Ns);
    let mut rows = 0;
    for text in ["m t=\"a", "m v=1 1"] {
        let (arena, mut batch, mut errors) = (Arena::new(), Batch::new(), Vec::new());
        parser.parse(
            text.as_bytes(),
            true,
            NOW,
            9,
            &arena,
            &mut batch,
            &mut errors,
        );
        parser.end_text();
        rows += batch.rows.len();
    }
    assert_eq!(rows, 1);
}
