//! Tests of members that do not respond: they are taken out of use after a timeout, and the array continues
//! without them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{Plain, eventually, page};
use seiner_raid::{
    Array, ArraySettings, Command, Completeness, Condition, Creation, Geometry, Level, Loss,
    Member, Page, Ram, create,
};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const BYTES: u64 = 4 << 20;
const PATIENCE: Duration = Duration::from_millis(400);

/// A member in memory that hangs on request.
struct Hanging {
    ram: Ram,
    hangs: Mutex<bool>,
    released: Condvar,
    /// Number of operations started.
    begun: AtomicU64,
}

impl Hanging {
    fn new() -> Arc<Hanging> {
        Arc::new(Hanging {
            ram: Ram::new(BYTES),
            hangs: Mutex::new(false),
            released: Condvar::new(),
            begun: AtomicU64::new(0),
        })
    }

    fn hang(&self, hangs: bool) {
        *self.hangs.lock().unwrap() = hangs;
        self.released.notify_all();
    }

    fn pass(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let mut hangs = self.hangs.lock().unwrap();
        while *hangs {
            hangs = self.released.wait(hangs).unwrap();
        }
    }
}

impl Member for Hanging {
    fn name(&self) -> String {
        "hanging".to_string()
    }

    fn bytes(&self) -> u64 {
        self.ram.bytes()
    }

    fn read(&self, offset: u64, pages: &mut [Page]) -> io::Result<()> {
        self.pass();
        self.ram.read(offset, pages)
    }

    fn write(&self, offset: u64, pages: &[Page], durable: bool) -> io::Result<()> {
        self.pass();
        self.ram.write(offset, pages, durable)
    }

    fn flush(&self) -> io::Result<()> {
        self.pass();
        Ok(())
    }
}

fn array(level: Level, count: usize) -> (Array, Vec<Arc<Hanging>>) {
    let members: Vec<Arc<Hanging>> = (0..count).map(|_| Hanging::new()).collect();
    let geometry = Geometry::new(level, count, 16 << 10, BYTES).unwrap();
    let settings = ArraySettings {
        shards: 2,
        patience: PATIENCE,
        ..ArraySettings::default()
    };
    let of_array = members
        .iter()
        .map(|member| member.clone() as Arc<dyn Member>);
    let array = Array::bare(geometry, of_array.collect(), settings).unwrap();
    (array, members)
}

#[test]
fn only_a_hanging_member_is_lost() {
    for (level, count) in [(Level::Raid1, 2), (Level::Raid5, 4), (Level::Raid6, 6)] {
        let (array, members) = array(level, count);
        let mut plain = Plain::new(&array);
        plain.load(&array, 1, 200);
        members[1].hang(true);
        let begin = Instant::now();
        plain.load(&array, 2, 200);
        assert!(begin.elapsed() > PATIENCE && begin.elapsed() < 20 * PATIENCE);
        plain.compare(&array);
        array.flush().unwrap();
        let status = array.status().unwrap();
        assert_eq!(status.condition, Condition::Degraded(1));
        assert_eq!(status.members[1].loss, Some(Loss::Silent));
        let others = status.members.iter().enumerate().filter(|(at, _)| *at != 1);
        assert!(
            others
                .into_iter()
                .all(|(_, member)| member.completeness == Completeness::Full)
        );
        // The member responds again. Its late answers change nothing.
        members[1].hang(false);
        std::thread::sleep(Duration::from_millis(50));
        let begun = members[1].begun.load(Ordering::SeqCst);
        plain.load(&array, 3, 200);
        plain.compare(&array);
        assert_eq!(
            members[1].begun.load(Ordering::SeqCst),
            begun,
            "the dropped member is not used again"
        );
        array.replace(1, Arc::new(Ram::new(BYTES))).unwrap();
        let whole = || array.status().unwrap().condition == Condition::Whole;
        eventually("the new member is filled", whole);
        plain.compare(&array);
        array.stop().unwrap();
    }
}

#[test]
fn an_array_stops_while_members_hang() {
    let (array, members) = array(Level::Raid6, 5);
    array.write(0, vec![page(1, 1); 100], false).unwrap();
    members[2].hang(true);
    members[4].hang(true);
    let (sender, results) = channel();
    let write = Command::Write {
        start: 7,
        data: vec![page(2, 2)],
        durable: false,
    };
    array.submit(
        write,
        Box::new(move |result| sender.send(result.map(drop)).unwrap()),
    );
    array.stop().unwrap();
    results.recv().unwrap().unwrap();
    members.iter().for_each(|member| member.hang(false));
}

#[test]
fn more_hanging_members_than_the_level_tolerates_are_reported() {
    let (array, members) = array(Level::Raid5, 3);
    array.write(0, vec![page(1, 1); 100], false).unwrap();
    members[0].hang(true);
    members[1].hang(true);
    assert!(array.write(0, vec![page(2, 2)], false).is_err());
    assert!(array.flush().is_err());
    assert_eq!(array.status().unwrap().condition, Condition::Broken);
    members.iter().for_each(|member| member.hang(false));
    assert!(array.stop().is_err());
}

#[test]
fn a_status_request_does_not_wait_for_a_record() {
    let members: Vec<Arc<Hanging>> = (0..4).map(|_| Hanging::new()).collect();
    let of_array = || {
        let members = members.iter();
        let members = members.map(|member| member.clone() as Arc<dyn Member>);
        members.collect::<Vec<_>>()
    };
    let creation = Creation {
        level: Level::Raid5,
        strip_bytes: 16 << 10,
        smallest: false,
        overwrite: false,
        zeroed: true,
        checksums: true,
    };
    create(&of_array(), &creation).unwrap();
    let array = Arc::new(Array::assemble(of_array(), false, ArraySettings::default()).unwrap());
    members[1].hang(true);
    let before = members[1].begun.load(Ordering::SeqCst);
    // The first write to a region is recorded before anything else is written.
    let write = Command::Write {
        start: 0,
        data: vec![page(1, 1)],
        durable: false,
    };
    let (sender, results) = channel();
    array.submit(
        write,
        Box::new(move |result| sender.send(result.map(drop)).unwrap()),
    );
    eventually("the record is being written", || {
        members[1].begun.load(Ordering::SeqCst) > before
    });
    let (say, said) = channel();
    let asked = array.clone();
    std::thread::spawn(move || say.send(asked.status()).unwrap());
    let status = said.recv_timeout(Duration::from_secs(10));
    let status = status
        .expect("the status is returned while the member hangs")
        .unwrap();
    assert_eq!(status.condition, Condition::Whole);
    assert!(results.try_recv().is_err(), "the member hangs still");
    members[1].hang(false);
    results.recv().unwrap().unwrap();
    array.stop().unwrap();
    assert!(array.status().is_none(), "a stopped array has no status");
}
