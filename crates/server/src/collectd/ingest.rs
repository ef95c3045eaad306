//! Packets into the store.

use crate::ingest::{MAX_LISTED, Outcome, RejectedLine, now};
use crate::intake::Lists;
use crate::text::{TextIngest, TextProtocol};
use crate::traffic::ProtocolCounters;
use seiner_store::{Error, Receipt, Store};
use seiner_wire::collectd::Packets;
use seiner_wire::line::{Arena, LineNotation};
use std::sync::atomic::Ordering::Relaxed;

/// The protocol.
pub static PACKETS: TextProtocol = TextProtocol {
    name: "a packet of collectd",
    metric: "collectd",
    ingest: |app, counters| {
        Box::new(PacketIngest {
            store: &*app.store,
            counters,
            packets: app.collectd.get_or_init(Packets::default),
            lists: Lists::default(),
            arena: Arena::new(),
            number: 0,
            outcome: Outcome::default(),
        })
    },
};

/// Ingest of packets.
struct PacketIngest<'s> {
    store: &'s dyn Store,
    counters: &'s ProtocolCounters,
    packets: &'s Packets,
    lists: Lists,
    arena: Arena,
    /// Number of packets so far.
    number: u64,
    outcome: Outcome,
}

impl TextIngest for PacketIngest<'_> {
    /// Stores a packet: there are no streams of them.
    fn take(&mut self, piece: &[u8]) -> Result<(), Error> {
        self.whole(piece)
    }

    fn end(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn whole(&mut self, packet: &[u8]) -> Result<(), Error> {
        let counters = self.counters;
        counters.bytes.fetch_add(packet.len() as u64, Relaxed);
        self.number += 1;
        let mut batch = self.lists.batch();
        let packets = self.packets;
        let mut problems = packets.decode(packet, now(), &self.arena, &mut batch);
        let appended = match batch.rows.is_empty() {
            true => Ok(Receipt::default()),
            false => self.store.append(&LineNotation, &batch),
        };
        self.lists.take_back(batch);
        self.arena.clear();
        counters.ignored.fetch_add(problems.ignored, Relaxed);
        let receipt = appended.as_ref().ok();
        if let Some(receipt) = receipt {
            counters.rows.fetch_add(receipt.rows as u64, Relaxed);
            counters.samples.fetch_add(receipt.samples as u64, Relaxed);
            self.outcome.accepted += receipt.rows as u64;
            self.outcome.samples += receipt.samples as u64;
            self.outcome.position = self.outcome.position.max(receipt.position);
            problems.rejected += receipt.rejected_total as u64;
            if let (None, Some((_, reason))) = (&problems.reason, receipt.rejected.first()) {
                problems.reason = Some(reason.to_string());
            }
        }
        counters.rejected.fetch_add(problems.rejected, Relaxed);
        self.outcome.rejected += problems.rejected;
        if let Some(reason) = problems.reason
            && self.outcome.listed.len() < MAX_LISTED
        {
            let line = self.number;
            self.outcome.listed.push(RejectedLine { line, reason });
        }
        appended.map(|_| ())
    }

    fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    fn take_listed(&mut self) -> Vec<RejectedLine> {
        std::mem::take(&mut self.outcome.listed)
    }
}
