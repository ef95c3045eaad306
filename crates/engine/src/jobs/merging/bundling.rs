//! Bundling: small blocks that a merge rewrites are written into bundles again.

use super::coalescing::Live;
use super::victims::{HAS_SLOT, Victim};
use crate::block::{self, BlockHead};
use crate::bundle::encode::{Member, Packed, pack};
use crate::core::Core;
use crate::error::Error;
use crate::jobs::segments::write_all_pieces;
use crate::segment::Entry;
use seiner_codec::Effort;
use seiner_merge::LaneId;
use std::sync::Arc;

/// Block that waits to be written, with the blocks of victims that it replaces.
struct Waiting {
    member: Member,
    originals: Vec<Live>,
}

/// Small blocks that wait until enough of them are encoded together.
#[derive(Default)]
pub(super) struct Bundler {
    waiting: Vec<Waiting>,
    /// Approximate bytes of their rows.
    bytes: usize,
    /// True if blocks were not written because their rows expired meanwhile.
    is_incomplete: bool,
}

impl Bundler {
    /// Adds a block that replaces some blocks of victims.
    pub fn push(&mut self, member: Member, originals: Vec<Live>) {
        let cells = member.rows.times.len() * (1 + member.rows.fields.len());
        let texts = originals.iter().map(|live| live.entry.len as usize);
        self.bytes += 8 * cells + texts.sum::<usize>();
        self.waiting.push(Waiting { member, originals });
    }

    /// Writes the blocks if there are enough of them.
    ///
    /// # Errors
    /// As [`Bundler::flush`].
    pub fn flush_if_full(&mut self, core: &Core, victims: &mut [Victim]) -> Result<(), Error> {
        let limits = core.together();
        let is_full = self.waiting.len() >= limits.buffers || self.bytes >= 4 * limits.bytes;
        if is_full {
            self.flush(core, victims)?;
        }
        Ok(())
    }

    /// Writes all blocks. Returns false if rows of any block so far expired meanwhile: its originals
    /// are still to be rewritten.
    ///
    /// # Errors
    /// If no segment can be begun, or the disk fails.
    pub fn flush(&mut self, core: &Core, victims: &mut [Victim]) -> Result<bool, Error> {
        self.bytes = 0;
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_by_key(|one| (one.member.entry.source, one.member.entry.number));
        // A bundle has one block of each source.
        while !waiting.is_empty() {
            let (mut round, mut later): (Vec<Waiting>, Vec<Waiting>) = Default::default();
            for one in waiting {
                let source = one.member.entry.source;
                let is_new = round
                    .last()
                    .is_none_or(|last| last.member.entry.source != source);
                if is_new { &mut round } else { &mut later }.push(one);
            }
            self.put_round(core, victims, round)?;
            waiting = later;
        }
        write_all_pieces(core)?;
        Ok(!self.is_incomplete)
    }

    /// Writes blocks of different sources, lane by lane.
    fn put_round(
        &mut self,
        core: &Core,
        victims: &mut [Victim],
        round: Vec<Waiting>,
    ) -> Result<(), Error> {
        let lanes = core
            .log()
            .places_of(round.iter().map(|one| &one.member.entry));
        let mut round: Vec<(LaneId, Waiting)> = lanes.into_iter().zip(round).collect();
        round.sort_by_key(|(lane, _)| *lane);
        let mut left = round.into_iter().peekable();
        while let Some((lane, first)) = left.next() {
            let mut some = vec![first];
            some.extend(std::iter::from_fn(|| {
                left.next_if(|(other, _)| *other == lane)
                    .map(|(_, one)| one)
            }));
            let (members, originals): (Vec<Member>, Vec<Vec<Live>>) = some
                .into_iter()
                .map(|one| (one.member, one.originals))
                .unzip();
            self.put(core, victims, lane, &members, &originals)?;
        }
        Ok(())
    }

    fn put(
        &mut self,
        core: &Core,
        victims: &mut [Victim],
        lane: LaneId,
        members: &[Member],
        originals: &[Vec<Live>],
    ) -> Result<(), Error> {
        let Packed { alone, bundle } = pack(members, core.together().bundling, |member| {
            encode_alone(core, member)
        });
        for (at, bytes) in alone {
            let entry = members[at].entry;
            self.add(core, victims, &[&originals[at]], bytes.len(), |log| {
                log.add_copy(entry, &bytes).expect(HAS_SLOT)
            })?;
        }
        let Some(bundle) = bundle else { return Ok(()) };
        let replaced: Vec<&Vec<Live>> = bundle.positions.iter().map(|&at| &originals[at]).collect();
        let (bytes, len) = (Arc::new(bundle.bytes), bundle.entries[0].bundle as usize);
        self.add(core, victims, &replaced, len, |log| {
            let added = log.add_bundle_copy(lane, &bundle.entries, bytes);
            added.expect(HAS_SLOT)
        })
    }

    /// Adds blocks to the log and notes their originals as rewritten. If rows of coalesced blocks
    /// expired meanwhile, nothing is added: a coalesced block would show them again.
    fn add(
        &mut self,
        core: &Core,
        victims: &mut [Victim],
        originals: &[&Vec<Live>],
        bytes: usize,
        add: impl FnOnce(&mut crate::log::Log) -> u64,
    ) -> Result<(), Error> {
        let (head, mut log) = core.both_with_slot()?;
        let is_past = |live: &Live| {
            let source = live.entry.source;
            let visibility = log.retention.visibility(source, head.rows_of(source));
            visibility.hides(&live.entry)
        };
        let mut coalesced = originals.iter().filter(|some| some.len() > 1);
        if coalesced.any(|some| some.iter().any(is_past)) {
            self.is_incomplete = true;
            return Ok(());
        }
        drop(head);
        let into = add(&mut log);
        log.counters.merge_written += bytes as u64;
        let coalesced = originals
            .iter()
            .map(|some| some.len())
            .filter(|len| *len > 1);
        log.counters.coalesced_blocks += coalesced.sum::<usize>() as u64;
        drop(log);
        for live in originals.iter().flat_map(|some| some.iter()) {
            let partial = &mut victims[live.victim].partial;
            partial.into.insert(into);
            partial.done.insert(live.entry.number);
        }
        Ok(())
    }
}

/// Returns a small block as a block of its own, unless the store does not know its layout.
fn encode_alone(core: &Core, member: &Member) -> Option<Vec<u8>> {
    let Entry { source, number, .. } = member.entry;
    let layout = core.head().layouts().find(member.layout.fields())?;
    let head = BlockHead {
        source,
        number,
        layout,
    };
    let mut bytes = Vec::new();
    block::encode(head, &member.rows, Effort::Best, &mut bytes);
    Some(bytes)
}
