//! Arrays behind the server, of every level and strategy, whole and with members lost, compared with a plain byte
//! vector.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod client;

use client::Client;
use seiner_nbd::{Address, Export, Limits, Offer, Server};
use seiner_raid::{Array, ArraySettings, Geometry, Level, Member, Merging, Ram, ShardSettings};
use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;

const MEMBER: u64 = 1 << 20;

fn array(level: Level, members: usize, merging: Merging) -> Arc<Array> {
    let geometry = Geometry::new(level, members, 16 << 10, MEMBER).unwrap();
    let devices = (0..members).map(|_| Arc::new(Ram::new(MEMBER)) as Arc<dyn Member>);
    let shard = ShardSettings {
        merging,
        region_stripes: 4,
        ..ShardSettings::default()
    };
    let settings = ArraySettings {
        shard,
        shards: 2,
        ..ArraySettings::default()
    };
    Arc::new(Array::bare(geometry, devices.collect(), settings).unwrap())
}

/// Runs writes and reads of all kinds from several clients at once. Each client has its own part of the volume, with
/// borders within blocks.
fn load(folder: &Path, bytes: u64, seed: u64) {
    let clients = (0..4).map(|client| {
        let path = folder.join("socket");
        thread::spawn(move || {
            let mut link = Client::new(UnixStream::connect(path).unwrap());
            let part = bytes / 4;
            let first = client * part + if client > 0 { 100 } else { 0 };
            let length =
                part - if client == 0 { 0 } else { 100 } + if client < 3 { 100 } else { 0 };
            let cookie = link.send(0, 6, first, length as u32, &[]);
            assert_eq!(link.answer(), (cookie, 0));
            let mut model = vec![0u8; length as usize];
            let mut dice = seed * 7 + client;
            let mut throw = move |sides: u64| {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(9);
                (dice >> 33) % sides
            };
            for round in 0..20u64 {
                let mut open = BTreeSet::new();
                let span = length / 8;
                for part in 0..8 {
                    let at = part * span + throw(span / 2);
                    let longest = [1, 5000, 40_000][throw(3) as usize].min((part + 1) * span - at);
                    let bytes = 1 + throw(longest);
                    let value = (round * 8 + part + client) as u8;
                    let data = vec![value; bytes as usize];
                    open.insert(link.send(
                        throw(10) as u16 / 9,
                        1,
                        first + at,
                        bytes as u32,
                        &data,
                    ));
                    model[at as usize..(at + bytes) as usize].fill(value);
                }
                while !open.is_empty() {
                    let (cookie, errno) = link.answer();
                    assert!(open.remove(&cookie) && errno == 0, "{cookie} {errno}");
                }
                let found = link.read(first, length as u32);
                assert!(found == model, "client {client}, round {round}");
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    clients
        .into_iter()
        .for_each(|client| client.join().unwrap());
}

#[test]
fn whole_and_degraded_arrays_answer_like_memory() {
    let mut seed = 0;
    for (level, members, lost) in [
        (Level::Raid0, 3, 0),
        (Level::Raid1, 2, 1),
        (Level::Raid5, 4, 1),
        (Level::Raid6, 6, 2),
    ] {
        for merging in [
            Merging::Adaptive,
            Merging::Never,
            Merging::Batch,
            Merging::Always,
            Merging::Paper,
        ] {
            seed += 1;
            let folder = tempfile::tempdir().unwrap();
            let array = array(level, members, merging);
            let offer = Offer::new("array", "", Arc::clone(&array) as Arc<dyn Export>);
            let unix = Address::Unix(folder.path().join("socket"));
            let server = Server::start(vec![offer], &[unix], Limits::default()).unwrap();
            for lost in 0..=lost {
                if lost > 0 {
                    array.fail(lost).unwrap();
                }
                load(
                    folder.path(),
                    array.bytes().min(1 << 20),
                    seed * 10 + lost as u64,
                );
            }
            server.stop();
            array.stop().unwrap();
        }
    }
}

#[test]
fn failures_of_the_array_are_reported_to_the_client() {
    let folder = tempfile::tempdir().unwrap();
    let array = array(Level::Raid5, 3, Merging::Adaptive);
    let offer = Offer::new("array", "", Arc::clone(&array) as Arc<dyn Export>);
    let unix = Address::Unix(folder.path().join("socket"));
    let server = Server::start(vec![offer], &[unix], Limits::default()).unwrap();
    let mut client = Client::new(UnixStream::connect(folder.path().join("socket")).unwrap());
    client.write(0, b"while it runs");
    array.stop().unwrap();
    for kind in [0, 1, 3] {
        let data = if kind == 1 { [1].as_slice() } else { &[] };
        let cookie = client.send(0, kind, 0, u32::from(kind != 3), data);
        assert_eq!(client.answer(), (cookie, 5));
    }
    server.stop();
}
