//! Proxy between ports and nodes, which delays, drops and reorders frames of the query language.
//!
//! A frame has a header of nine bytes: version, flags, stream (two bytes), opcode, and the length of its body (four
//! bytes). The streams of a connection are independent, so frames of different streams may arrive in any order.

use anyhow::Result;
use seiner_random::SplitMixRng;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Length of the header of a frame.
const HEADER: usize = 9;
/// Maximum length of a frame's body. A longer one ends the connection.
const MAX_BODY: usize = 256 << 20;
/// Interval at which delayed frames are looked at.
const POLL: Duration = Duration::from_millis(1);

/// Delayed frame with the time when it is due.
type Late = (Instant, Vec<u8>);

/// Disturbances of the frames of one direction.
#[derive(Clone, Copy, Debug)]
pub struct Disturbance {
    /// Frames out of a thousand that are dropped.
    pub drops: u64,
    /// Frames out of a thousand that are delayed, so that later ones overtake them.
    pub delays: u64,
    /// Longest delay.
    pub longest: Duration,
}

/// Counts of all frames.
#[derive(Debug, Default)]
pub struct Counts {
    pub frames: AtomicU64,
    pub dropped: AtomicU64,
    pub delayed: AtomicU64,
}

/// Proxy in front of a node.
pub struct Proxy {
    shared: Arc<Shared>,
}

struct Shared {
    node: SocketAddr,
    disturbance: Disturbance,
    is_active: AtomicBool,
    ends: AtomicBool,
    counts: Arc<Counts>,
    seeds: Mutex<SplitMixRng>,
}

impl Proxy {
    /// Starts a proxy that listens at an address. It forwards all frames until it is made active.
    pub fn start(
        address: SocketAddr,
        node: SocketAddr,
        disturbance: Disturbance,
        counts: Arc<Counts>,
        seed: u64,
    ) -> Result<Proxy> {
        let listener = TcpListener::bind(address)?;
        let shared = Arc::new(Shared {
            node,
            disturbance,
            is_active: AtomicBool::new(false),
            ends: AtomicBool::new(false),
            counts,
            seeds: Mutex::new(SplitMixRng::new(seed)),
        });
        let accepting = shared.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if accepting.ends.load(SeqCst) {
                    return;
                }
                // A node that is down closes the connection of its client.
                let _ = accepting.join(client);
            }
        });
        Ok(Proxy { shared })
    }

    /// Begins or ends the disturbance.
    pub fn disturb(&self, is_active: bool) {
        self.shared.is_active.store(is_active, SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ends.store(true, SeqCst);
    }
}

impl Shared {
    /// Connects a client with the node.
    fn join(self: &Arc<Shared>, client: TcpStream) -> Result<()> {
        let node = TcpStream::connect(self.node)?;
        for stream in [&client, &node] {
            stream.set_nodelay(true)?;
        }
        let pairs = [(client.try_clone()?, node.try_clone()?), (node, client)];
        for (from, to) in pairs {
            let shared = self.clone();
            let random = shared.seeds.lock().expect("no thread panics").fork();
            thread::spawn(move || {
                let (source, destination) = (from.try_clone(), to.try_clone());
                // The connection ends with an error or with the end of either side.
                let _ = shared.forward(from, to, random);
                for stream in [source, destination].into_iter().flatten() {
                    let _ = stream.shutdown(Shutdown::Both);
                }
            });
        }
        Ok(())
    }

    /// Forwards the frames of one direction.
    fn forward(
        &self,
        mut from: TcpStream,
        to: TcpStream,
        mut random: SplitMixRng,
    ) -> io::Result<()> {
        let waiting: Arc<Mutex<Vec<Late>>> = Arc::default();
        let to = Arc::new(Mutex::new(to));
        let is_over = Arc::new(AtomicBool::new(false));
        let (late, output, over) = (waiting.clone(), to.clone(), is_over.clone());
        thread::spawn(move || send_late(&late, &output, &over));
        let outcome = (|| {
            while !self.ends.load(SeqCst) {
                let frame = read_frame(&mut from)?;
                self.counts.frames.fetch_add(1, SeqCst);
                if !self.is_active.load(SeqCst) {
                    to.lock().expect("no thread panics").write_all(&frame)?;
                } else if random.chance(self.disturbance.drops, 1000) {
                    self.counts.dropped.fetch_add(1, SeqCst);
                } else if random.chance(self.disturbance.delays, 1000) {
                    self.counts.delayed.fetch_add(1, SeqCst);
                    let longest = self.disturbance.longest.as_millis() as u64;
                    let due = Instant::now() + Duration::from_millis(random.between(1, longest));
                    waiting.lock().expect("no thread panics").push((due, frame));
                } else {
                    to.lock().expect("no thread panics").write_all(&frame)?;
                }
            }
            Ok(())
        })();
        is_over.store(true, SeqCst);
        outcome
    }
}

/// Sends delayed frames when they are due.
fn send_late(waiting: &Mutex<Vec<Late>>, to: &Mutex<TcpStream>, is_over: &AtomicBool) {
    while !is_over.load(SeqCst) {
        let now = Instant::now();
        let due: Vec<Late> = {
            let mut waiting = waiting.lock().expect("no thread panics");
            let (due, later) = waiting.drain(..).partition(|(time, _)| *time <= now);
            *waiting = later;
            due
        };
        for (_, frame) in due {
            if to
                .lock()
                .expect("no thread panics")
                .write_all(&frame)
                .is_err()
            {
                return;
            }
        }
        thread::sleep(POLL);
    }
}

/// Reads one frame with its header.
fn read_frame(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; HEADER];
    from.read_exact(&mut frame)?;
    let length: [u8; 4] = frame[5..].try_into().expect("four bytes");
    let length = u32::from_be_bytes(length) as usize;
    if length > MAX_BODY {
        return Err(io::Error::other("a frame is too long"));
    }
    frame.resize(HEADER + length, 0);
    from.read_exact(&mut frame[HEADER..])?;
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delayed_frames_are_overtaken_and_dropped_ones_do_not_arrive() {
        let node = TcpListener::bind("127.0.0.1:0").unwrap();
        let free = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let disturbance = Disturbance {
            drops: 200,
            delays: 300,
            longest: Duration::from_millis(30),
        };
        let counts = Arc::new(Counts::default());
        let proxy = Proxy::start(
            free,
            node.local_addr().unwrap(),
            disturbance,
            counts.clone(),
            1,
        )
        .unwrap();
        let mut client = TcpStream::connect(free).unwrap();
        let (mut received, _) = node.accept().unwrap();
        let frame = |number: u16| {
            let mut frame = vec![4, 0, 0, 0, 7, 0, 0, 0, 2];
            frame.extend(number.to_be_bytes());
            frame
        };
        client.write_all(&frame(1)).unwrap();
        assert_eq!(read_frame(&mut received).unwrap(), frame(1));
        proxy.disturb(true);
        (0..200).for_each(|number| client.write_all(&frame(number)).unwrap());
        received
            .set_read_timeout(Some(Duration::from_millis(300)))
            .unwrap();
        let mut found = Vec::new();
        while let Ok(frame) = read_frame(&mut received) {
            found.push(u16::from_be_bytes([frame[9], frame[10]]));
        }
        let dropped = counts.dropped.load(SeqCst) as usize;
        assert!(dropped > 10 && found.len() + dropped == 200, "{found:?}");
        assert!(!found.is_sorted(), "{found:?}");
    }
}
