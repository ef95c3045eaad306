//! Bundling: small blocks that a merge rewrites are written into bundles again.

use super::coalescing::Live;
use super::victims::{
    HAS_SLOT, Stored, Victim, has_hidden, member_of, note_damage, note_rewritten, present_effort,
    read_stored,
};
use crate::block::{self, BlockHead};
use crate::bundle::encode::{Member, Packed, pack};
use crate::core::Core;
use crate::error::Error;
use crate::head::Head;
use crate::jobs::segments::write_all_pieces;
use crate::log::Log;
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
    /// True if blocks were not written, because their rows expired at this moment.
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
        while !self.waiting.is_empty() {
            let waiting = std::mem::take(&mut self.waiting);
            let mut waiting = self.divide_hidden(core, victims, waiting)?;
            waiting.sort_by_key(|one| (one.member.entry.source, one.member.entry.number));
            // A bundle has one block of each source.
            while !waiting.is_empty() {
                let (mut round, mut later): (Vec<Waiting>, Vec<Waiting>) = Default::default();
                for one in waiting {
                    let source = one.member.entry.source;
                    let last = round.last().map(|last: &Waiting| last.member.entry.source);
                    if last == Some(source) {
                        &mut later
                    } else {
                        &mut round
                    }
                    .push(one);
                }
                self.put_round(core, victims, round)?;
                waiting = later;
            }
        }
        write_all_pieces(core)?;
        Ok(!self.is_incomplete)
    }

    /// Replaces each coalesced block by its originals if rows of it have been hidden since it was
    /// coalesced. Otherwise these rows would return.
    fn divide_hidden(
        &mut self,
        core: &Core,
        victims: &mut [Victim],
        waiting: Vec<Waiting>,
    ) -> Result<Vec<Waiting>, Error> {
        let (whole, hidden): (Vec<Waiting>, Vec<Waiting>) = {
            let (head, log) = core.both();
            let is_shown = |one: &Waiting| !is_outdated(&head, &log, &one.originals);
            waiting.into_iter().partition(is_shown)
        };
        for live in hidden.into_iter().flat_map(|one| one.originals) {
            let segment = victims[live.victim].segment.clone();
            match read_stored(core, &segment, &live.entry) {
                Ok(Stored::Bundled(found)) => self.push(member_of(live.entry, found), vec![live]),
                Ok(Stored::Alone(bytes)) => {
                    self.add(core, victims, &[&vec![live]], bytes.len(), |log| {
                        log.add_copy(live.entry, &bytes).expect(HAS_SLOT)
                    })?;
                }
                Err(error @ Error::Damage { .. }) => {
                    note_damage(core, &mut victims[live.victim], &live.entry, &error);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(whole)
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
        let effort = present_effort(core);
        let Packed { alone, bundle } = pack(members, core.together().bundling, |member| {
            encode_alone(core, member, effort)
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
    /// expired since they were divided, nothing is added, and the merge continues later.
    fn add(
        &mut self,
        core: &Core,
        victims: &mut [Victim],
        originals: &[&Vec<Live>],
        bytes: usize,
        add: impl FnOnce(&mut Log) -> u64,
    ) -> Result<(), Error> {
        let (head, mut log) = core.both_with_slot()?;
        if originals.iter().any(|some| is_outdated(&head, &log, some)) {
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
        note_rewritten(victims, originals.iter().flat_map(|some| some.iter()), into);
        Ok(())
    }
}

/// Returns whether blocks are coalesced of which rows are hidden.
fn is_outdated(head: &Head, log: &Log, originals: &[Live]) -> bool {
    originals.len() > 1 && has_hidden(head, log, originals)
}

/// Returns a small block as a block of its own, unless the store does not know its layout.
fn encode_alone(core: &Core, member: &Member, effort: Effort) -> Option<Vec<u8>> {
    let Entry { source, number, .. } = member.entry;
    let layout = core.head().layouts().find(member.layout.fields())?;
    let head = BlockHead {
        source,
        number,
        layout,
    };
    let mut bytes = Vec::new();
    block::encode(head, &member.rows, effort, &mut bytes);
    Some(bytes)
}
