//! Modelled members: they have service times and no contents.

use crate::request::{Action, Nanos};
use seiner_platform::sim::Rng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Parameters of a modelled solid-state disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemberModel {
    /// Time from the start of a read to its first byte, ns.
    pub read: Nanos,
    /// Time from the start of a write to its acknowledgement, without the transfer, ns.
    pub write: Nanos,
    /// Random deviation of these times, in per cent to either side.
    pub spread: u64,
    /// Number of operations served concurrently. Others wait.
    pub slots: usize,
    /// Transfer rate of reads, bytes per second.
    pub read_rate: u64,
    /// Transfer rate of writes, bytes per second.
    pub write_rate: u64,
    /// Time of a flush, ns.
    pub flush: Nanos,
}

impl MemberModel {
    /// A data-centre NVMe disk of the paper's time.
    ///
    /// Six of them in RAID 6 do not reproduce the paper's figures (4 KiB writes, 1 to 32 threads, depths 1 to
    /// 32): without merging 0.57 to 2.8 times as many MB/s, with static merging 0.17 to 3.4 times.
    /// `docs/raid.md` describes the differences.
    pub const NVME: MemberModel = MemberModel {
        read: 80_000,
        write: 20_000,
        spread: 20,
        slots: 32,
        read_rate: 3_000_000_000,
        write_rate: 1_500_000_000,
        flush: 50_000,
    };
}

/// Modelled NVMe disk. An operation waits for a slot, is served, and transfers its bytes over a shared bus.
pub struct Nvme {
    model: MemberModel,
    rng: Rng,
    /// Times at which the busy slots become free.
    slots: BinaryHeap<Reverse<Nanos>>,
    bus_free: Nanos,
}

impl Nvme {
    /// Creates a disk whose service times are derived from the seed.
    pub fn new(model: MemberModel, seed: u64) -> Nvme {
        let slots = (0..model.slots).map(|_| Reverse(0)).collect();
        Nvme {
            model,
            rng: Rng::new(seed),
            slots,
            bus_free: 0,
        }
    }

    fn spread(&mut self, time: Nanos) -> Nanos {
        let percent = self
            .rng
            .between(100 - self.model.spread, 100 + self.model.spread);
        time * percent / 100
    }

    /// Returns the time at which an operation submitted now ends.
    pub fn submit(&mut self, now: Nanos, action: Action<()>) -> Nanos {
        let Reverse(free) = self.slots.pop().unwrap_or(Reverse(0));
        let start = now.max(free);
        let (service, blocks, rate) = match action {
            Action::Read { blocks, .. } | Action::Adopt { blocks, .. } => {
                (self.model.read, u64::from(blocks), self.model.read_rate)
            }
            Action::Write { data, .. } => {
                (self.model.write, data.len() as u64, self.model.write_rate)
            }
            Action::Flush | Action::Discard { .. } => (self.model.flush, 0, self.model.write_rate),
        };
        let served = start + self.spread(service);
        let bytes = blocks * crate::BLOCK_BYTES as u64;
        let sent = bytes * 1_000_000_000 / rate;
        self.bus_free = self.bus_free.max(served) + sent;
        self.slots.push(Reverse(self.bus_free));
        self.bus_free
    }
}
