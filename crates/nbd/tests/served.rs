//! A running server with clients over sockets, and an export that answers late, in any order, on another thread.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod client;

use client::Client;
use proptest::prelude::*;
use seiner_nbd::{
    Address, Command, Completion, Errno, Export, ExportShape, Fault, Limits, ListenError, Memory,
    Offer, Server,
};
use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Delayed execution of a command.
type Late = Box<dyn FnOnce(&Memory) + Send>;

/// Memory whose commands are collected and then executed in another order by another thread. As with every export, a
/// command may take effect at any time before its answer.
struct Shuffled {
    shape: ExportShape,
    sender: Mutex<Sender<Late>>,
}

impl Shuffled {
    fn new(memory: Memory) -> Shuffled {
        let (sender, receiver) = mpsc::channel();
        let shape = memory.shape();
        thread::spawn(move || shuffle(&receiver, &memory));
        Shuffled {
            shape,
            sender: Mutex::new(sender),
        }
    }
}

fn shuffle(receiver: &Receiver<Late>, memory: &Memory) {
    let mut dice = 1u64;
    while let Ok(first) = receiver.recv() {
        let mut late = vec![first];
        while let Ok(next) = receiver.recv_timeout(Duration::from_micros(50)) {
            late.push(next);
            if late.len() == 5 {
                break;
            }
        }
        while !late.is_empty() {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            late.swap_remove((dice >> 33) as usize % late.len())(memory);
        }
    }
}

impl Export for Shuffled {
    fn shape(&self) -> ExportShape {
        self.shape
    }

    fn submit(&self, command: Command<'_>, completion: Completion) {
        let late: Late = match command {
            Command::Write {
                offset,
                data,
                durable,
            } => {
                let data = data.to_vec();
                Box::new(move |memory| {
                    let data = &data;
                    let command = Command::Write {
                        offset,
                        data,
                        durable,
                    };
                    memory.submit(command, completion);
                })
            }
            Command::Read { offset, length } => {
                Box::new(move |memory| memory.submit(Command::Read { offset, length }, completion))
            }
            Command::Flush => Box::new(move |memory| memory.submit(Command::Flush, completion)),
            Command::Trim {
                offset,
                length,
                durable,
            } => Box::new(move |memory| {
                let command = Command::Trim {
                    offset,
                    length,
                    durable,
                };
                memory.submit(command, completion);
            }),
            Command::Zero {
                offset,
                length,
                durable,
                may_trim,
            } => Box::new(move |memory| {
                let command = Command::Zero {
                    offset,
                    length,
                    durable,
                    may_trim,
                };
                memory.submit(command, completion);
            }),
        };
        self.sender.lock().unwrap().send(late).unwrap();
    }
}

fn serve(export: impl Export + 'static, folder: &Path, limits: Limits) -> Server {
    let offer = Offer::new("disk", "", Arc::new(export));
    let unix = Address::Unix(folder.join("socket"));
    let tcp = "127.0.0.1:0".parse().unwrap();
    Server::start(vec![offer], &[unix, tcp], limits).unwrap()
}

fn unix(folder: &Path) -> Client<UnixStream> {
    Client::new(UnixStream::connect(folder.join("socket")).unwrap())
}

#[test]
fn both_kinds_of_sockets_serve_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(Memory::new(1 << 20, 4096), folder.path(), Limits::default());
    let [_, Address::Tcp(tcp)] = server.addresses() else {
        panic!("two addresses were given");
    };
    let mut near = unix(folder.path());
    let mut far = Client::new(TcpStream::connect(tcp).unwrap());
    near.write(1000, b"through the one");
    assert_eq!(far.read(1000, 15), b"through the one");
    far.write(5000, b"and the other");
    assert_eq!(near.read(5000, 13), b"and the other");
    let large: Vec<u8> = (0..1 << 20).map(|at| (at % 251) as u8).collect();
    near.write(0, &large);
    assert_eq!(far.read(0, 1 << 20), large);
    server.stop();
    assert!(!folder.path().join("socket").exists());
    assert_eq!(near.socket.read(&mut [0]).unwrap(), 0);
}

/// Several clients write neighbouring bytes, whole blocks and zeroes concurrently; no write may be lost.
#[test]
fn concurrent_writes_of_parts_of_blocks_are_all_kept() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = 6;
    let memory = Memory::new(blocks * 4096, 4096).with(|shape| shape.zeroes = false);
    let server = serve(Shuffled::new(memory), folder.path(), Limits::default());
    let slots = 8u64;
    let slot_bytes = blocks * 4096 / slots;
    let clients = (0..slots).map(|slot| {
        let folder = folder.path().to_owned();
        thread::spawn(move || {
            let mut client = unix(&folder);
            let mut model = vec![0u8; slot_bytes as usize];
            let mut dice = slot + 1;
            let mut throw = move |sides: u64| {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(9);
                (dice >> 33) % sides
            };
            for round in 0..300u64 {
                // Some concurrent writes that do not overlap.
                let width = slot_bytes / 4;
                let mut open = HashMap::new();
                for part in 0..4 {
                    let begin = part * width + throw(width / 2);
                    let length = 1 + throw((part + 1) * width - begin);
                    let value = (1 + slot + round * 8 + part) as u8;
                    let offset = slot * slot_bytes + begin;
                    let zero = throw(5) == 0;
                    let data = vec![value; length as usize];
                    let cookie = match zero {
                        true => client.send(0, 6, offset, length as u32, &[]),
                        false => client.send(0, 1, offset, length as u32, &data),
                    };
                    let range = begin as usize..(begin + length) as usize;
                    model[range].fill(if zero { 0 } else { value });
                    open.insert(cookie, ());
                }
                while !open.is_empty() {
                    let (cookie, errno) = client.answer();
                    assert_eq!((open.remove(&cookie), errno), (Some(()), 0));
                }
                let found = client.read(slot * slot_bytes, slot_bytes as u32);
                assert!(found == model, "slot {slot}, round {round}");
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    clients
        .into_iter()
        .for_each(|client| client.join().unwrap());
    server.stop();
}

#[test]
fn zeroes_are_written_if_the_export_has_no_command_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = 8 << 20;
    let memory = Memory::new(bytes, 4096).with(|shape| shape.zeroes = false);
    let server = serve(Shuffled::new(memory), folder.path(), Limits::default());
    let mut client = unix(folder.path());
    client.write(0, &vec![7; bytes as usize]);
    let cookie = client.send(0x10, 6, 100, 5 << 20, &[]);
    assert_eq!(client.answer(), (cookie, 95), "zeroing is not fast");
    let cookie = client.send(0, 6, 100, 5 << 20, &[]);
    assert_eq!(client.answer(), (cookie, 0));
    let mut expected = vec![7; bytes as usize];
    expected[100..100 + (5 << 20)].fill(0);
    assert!(client.read(0, bytes as u32) == expected);
    server.stop();
}

/// An export that fails commands in its second half and drops the completion of those in its last block.
struct Broken(Memory);

impl Export for Broken {
    fn shape(&self) -> ExportShape {
        self.0.shape()
    }

    fn submit(&self, command: Command<'_>, completion: Completion) {
        match command {
            Command::Read { offset, .. } | Command::Write { offset, .. } if offset >= 61440 => {}
            Command::Read { offset, .. } | Command::Write { offset, .. } if offset >= 32768 => {
                completion.fail(Fault::new(Errno::Io, "the second half is broken"));
            }
            Command::Read { .. } => completion.data(b"short"),
            command => self.0.submit(command, completion),
        }
    }
}

#[test]
fn failures_and_dropped_completions_are_reported_to_the_client() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(
        Broken(Memory::new(65536, 4096)),
        folder.path(),
        Limits::default(),
    );
    let mut client = unix(folder.path());
    for (kind, offset, length) in [
        (0, 32768, 4096),
        (0, 32769, 5),
        (0, 61440, 1),
        (0, 0, 4096),
        (0, 1, 1),
        (1, 32768, 4096),
        (1, 32769, 1),
        (1, 65535, 1),
        (1, 1, 1),
        (6, 28672, 4097),
    ] {
        let data = vec![1; if kind == 1 { length as usize } else { 0 }];
        let cookie = client.send(0, kind, offset, length, &data);
        assert_eq!(client.answer(), (cookie, 5), "{kind} {offset} {length}");
    }
    client.write(4096, &[1; 4096]);
    server.stop();
}

#[test]
fn the_socket_of_a_killed_server_is_replaced_by_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let start = |address: &str| {
        let offer = Offer::new("disk", "", Arc::new(Memory::new(4096, 1)));
        Server::start(vec![offer], &[address.parse().unwrap()], Limits::default())
    };
    let socket = path.to_str().unwrap();
    let running = start(socket).unwrap();
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(matches!(start(socket), Err(ListenError::InUse(_))));
    drop(running);
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    start(socket).unwrap().stop();
    fs::write(&path, "a file").unwrap();
    assert!(matches!(start(socket), Err(ListenError::NoSocket(_))));
    assert_eq!(fs::read(&path).unwrap(), b"a file");
    assert!(matches!(start("0.0.0.0:0"), Err(ListenError::Open(_))));
    let long = format!("/{}", "x".repeat(200));
    assert!(
        start(&long)
            .err()
            .unwrap()
            .to_string()
            .contains("107 bytes")
    );
    assert!("localhost".parse::<Address>().is_err());
}

#[test]
fn slow_or_excess_clients_are_disconnected() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits {
        connections: 2,
        handshake: Duration::from_millis(200),
        ..Limits::default()
    };
    let server = serve(Memory::new(4096, 1), folder.path(), limits);
    let mut first = unix(folder.path());
    let mut second = UnixStream::connect(folder.path().join("socket")).unwrap();
    second.read_exact(&mut [0; 18]).unwrap();
    let mut third = UnixStream::connect(folder.path().join("socket")).unwrap();
    assert_eq!(third.read(&mut [0]).unwrap(), 0);
    let waited = Instant::now();
    assert_eq!(second.read(&mut [0]).unwrap(), 0);
    assert!(waited.elapsed() > Duration::from_millis(100));
    first.write(0, b"here still");
    server.stop();
}

/// A client that sends and never reads must not block the shutdown or other clients.
#[test]
fn a_client_that_reads_no_answers_does_not_affect_others() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(Memory::new(32 << 20, 1), folder.path(), Limits::default());
    let mut deaf = unix(folder.path());
    for _ in 0..200 {
        deaf.send(0, 0, 0, 32 << 20, &[]);
    }
    let mut other = unix(folder.path());
    other.write(0, b"abc");
    assert_eq!(other.read(0, 3), b"abc");
    drop(deaf);
    server.stop();
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, u32, u8, bool),
    Zero(u64, u32),
    Trim(u64, u32),
    Read(u64, u32),
    Flush,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = || (0u64..40_000, 1u32..12_000);
    let step = prop_oneof![
        4 => (range(), any::<u8>(), any::<bool>())
            .prop_map(|((at, length), value, durable)| Step::Write(at, length, value, durable)),
        2 => range().prop_map(|(at, length)| Step::Zero(at, length)),
        1 => range().prop_map(|(at, length)| Step::Trim(at, length)),
        3 => range().prop_map(|(at, length)| Step::Read(at, length)),
        1 => Just(Step::Flush),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_server_behaves_like_an_array_of_bytes(steps in steps(), block in 0u32..14, zeroes: bool, late: bool) {
        let folder = tempfile::tempdir().unwrap();
        let size = 53_248u64.next_multiple_of(1 << block);
        let memory = Memory::new(size, 1 << block).with(|shape| shape.zeroes = zeroes);
        let server = match late {
            true => serve(Shuffled::new(memory), folder.path(), Limits::default()),
            false => serve(memory, folder.path(), Limits::default()),
        };
        let mut client = unix(folder.path());
        let mut model = vec![Some(0u8); size as usize];
        let range = |at: u64, length: u32| at as usize..at as usize + length as usize;
        for step in steps {
            match step {
                Step::Write(at, length, value, durable) => {
                    let cookie = client.send(durable.into(), 1, at, length, &vec![value; length as usize]);
                    prop_assert_eq!(client.answer(), (cookie, 0));
                    model[range(at, length)].fill(Some(value));
                }
                Step::Zero(at, length) => {
                    let cookie = client.send(0, 6, at, length, &[]);
                    prop_assert_eq!(client.answer(), (cookie, 0));
                    model[range(at, length)].fill(Some(0));
                }
                // Trimmed bytes may have any value; in this export they keep theirs or become zeroes.
                Step::Trim(at, length) => {
                    let cookie = client.send(0, 4, at, length, &[]);
                    prop_assert_eq!(client.answer(), (cookie, 0));
                    model[range(at, length)].fill(None);
                }
                Step::Read(at, length) => {
                    let found = client.read(at, length);
                    let expected = &model[range(at, length)];
                    let fits = |(found, expected): (&u8, &Option<u8>)| expected.is_none_or(|byte| byte == *found);
                    prop_assert!(found.iter().zip(expected).all(fits));
                }
                Step::Flush => {
                    let cookie = client.send(0, 3, 0, 0, &[]);
                    prop_assert_eq!(client.answer(), (cookie, 0));
                }
            }
        }
        server.stop();
    }
}
