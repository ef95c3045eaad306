//! Tests of the ledger.

use super::*;
use seiner_platform::sim::SimDisk;

const NOTE: SegmentNote = SegmentNote {
    blocks: 3,
    rows: 1000,
    first: -5,
    last: 9_000_000_000,
};

fn loss(what: &str) -> Loss {
    Loss {
        file: "journal-00000003".to_string(),
        what: what.to_string(),
        rows: Some(17),
        at_most: false,
        times: Some((1, 2)),
        found_at: 5,
    }
}

fn open(disk: &SimDisk) -> (Ledger, LedgerState) {
    Ledger::open(Arc::new(disk.clone()), 7).unwrap()
}

#[test]
fn entries_outlast_a_power_cut() {
    let disk = SimDisk::new(1);
    let (mut ledger, found) = open(&disk);
    assert_eq!(found, LedgerState::Missing);
    ledger.note_segment(4, NOTE);
    ledger.note_segment(5, NOTE);
    ledger.note_gone(4);
    let (sequence, rows) = (9, 100);
    ledger.note_journal_file(3, JournalFile { sequence, rows });
    ledger.note_loss(&loss("a record"));
    ledger.write().unwrap();
    let kept = ledger.contents().clone();
    assert_eq!(kept.segments.keys().copied().collect::<Vec<_>>(), [5]);
    let (ledger, found) = open(&disk.crash());
    assert_eq!((ledger.contents(), found), (&kept, LedgerState::Whole));
}

#[test]
fn a_ledger_stays_small_however_many_segments_come_and_go() {
    let disk = SimDisk::new(1);
    let (mut ledger, _) = open(&disk);
    for number in 0..20_000 {
        ledger.note_segment(number, NOTE);
        if number >= 10 {
            ledger.note_gone(number - 10);
        }
        if number % 7 == 0 {
            ledger.write().unwrap();
            assert!(disk.used() <= ledger.disk_bytes(4096));
        }
    }
    ledger.write().unwrap();
    assert!(disk.files()[0].1 <= LEAST_LIMIT);
    assert_eq!(open(&disk).0.contents().segments.len(), 10);
}

#[test]
fn a_loss_is_kept_until_it_is_acknowledged_and_counted_for_ever() {
    let disk = SimDisk::new(1);
    let (mut ledger, _) = open(&disk);
    ledger.note_loss(&loss("one"));
    ledger.note_loss(&loss("one"));
    ledger.note_loss(&loss("two"));
    ledger.write().unwrap();
    let mut ledger = open(&disk).0;
    assert_eq!(ledger.contents().lost(), (2, 34));
    assert_eq!(ledger.acknowledge(), 2);
    ledger.write().unwrap();
    let mut ledger = open(&disk).0;
    assert!(ledger.contents().unacknowledged().is_empty());
    assert!(!ledger.note_loss(&loss("two")), "the loss is already noted");
    ledger.note_loss(&loss("three"));
    assert_eq!(ledger.contents().lost(), (3, 51));
}

#[test]
fn a_flipped_bit_damages_the_ledger_and_reports_no_missing_segment() {
    let disk = SimDisk::new(1);
    let (mut ledger, _) = open(&disk);
    for number in 0..3 {
        ledger.note_segment(number, NOTE);
        ledger.note_loss(&loss(&number.to_string()));
        ledger.write().unwrap();
    }
    disk.flip_bit(NAME, 8 * (ledger.len / 2));
    let (ledger, found) = open(&disk);
    assert!(matches!(found, LedgerState::Damaged(..)), "{found:?}");
    assert!(ledger.contents().segments.is_empty());
    assert_eq!(ledger.contents().unacknowledged().len(), 2);
    assert!(
        disk.files()
            .iter()
            .any(|(name, _)| name == "ledger.damaged")
    );
}

/// Seed 512 of the simulator: the file ended within the length of its last record.
#[test]
fn a_last_record_that_is_cut_off_anywhere_is_torn() {
    let disk = SimDisk::new(1);
    let (mut ledger, _) = open(&disk);
    ledger.note_segment(1, NOTE);
    ledger.write().unwrap();
    let (kept, start) = (ledger.contents().clone(), ledger.len);
    ledger.note_segment(2, NOTE);
    ledger.write().unwrap();
    let mut bytes = vec![0; ledger.len as usize];
    disk.open(NAME).unwrap().read_at(0, &mut bytes).unwrap();
    for len in start + 1..ledger.len {
        let cut = SimDisk::new(1);
        let file = cut.create(NAME).unwrap();
        file.write_at(0, &bytes[..len as usize]).unwrap();
        let (contents, found, _, _) = read(&cut, 7).unwrap();
        assert_eq!(
            (&contents, found),
            (&kept, LedgerState::Torn),
            "{len} bytes"
        );
    }
}
