//! Pruning: frames without the names that a later frame forgets.
//!
//! Between two compactions, a catalog contains the names of many sources that came and went. A start that registers and
//! removes each of them takes far longer than one that registers the others only. A compaction leaves them out, too.

use super::frame::{Frame, ReadFrame, pass_key, pass_name, put_free};
use crate::bytes::{Cursor, Short};

/// Last frame that forgets each source.
#[derive(Default)]
pub struct Forgotten {
    /// Index of the frame plus one, by the number of the source. 0 if no frame forgets the source.
    last: Vec<u32>,
    /// Number of frames so far, and of the sources in them.
    frames: u32,
    sources: u32,
}

impl Forgotten {
    /// Reads which of the frames forget which sources.
    pub fn of(frames: impl Iterator<Item = ReadFrame>) -> Forgotten {
        let mut forgotten = Forgotten::default();
        for read in frames {
            forgotten.add(read.frame.as_ref().ok(), read.end_source);
        }
        forgotten
    }

    /// Adds the next frame, after which the catalog has sources up to a number. A damaged frame forgets no sources, nor
    /// does a frame that forgets unknown ones: the registration rejects it.
    pub fn add(&mut self, frame: Option<&Frame>, end_source: u32) {
        self.frames += 1;
        if let Some(frame) = frame
            && let Some(highest) = frame.forgotten.max()
            && highest < self.sources
        {
            let needed = self.last.len().max(highest as usize + 1);
            self.last.resize(needed, 0);
            for source in &frame.forgotten {
                self.last[source as usize] = self.frames;
            }
        }
        self.sources = self.sources.max(end_source);
    }

    /// Returns whether a frame behind the one with an index forgets a source.
    pub fn is_later(&self, index: u32, source: u32) -> bool {
        let last = self.last.get(source as usize);
        last.is_some_and(|&last| last > index + 1)
    }

    /// Replaces names in the frame with an index by free numbers, and leaves out reused numbers, if a later frame forgets
    /// them.
    ///
    /// # Errors
    /// [`Short`] if names are malformed. They stay as they are, and so do those behind them.
    pub fn prune(&self, index: u32, frame: &mut Frame) -> Result<(), Short> {
        let mut sources = frame.first_source..frame.first_source.saturating_add(frame.sources);
        let names = rewrite(&mut frame.names, |names, out| {
            let source = sources.next().ok_or(Short)?;
            let tags = pass_name(names)?;
            let is_dead = self.is_later(index, source);
            if is_dead {
                put_free(tags, out);
            }
            Ok(is_dead)
        });
        let reused = rewrite(&mut frame.reused, |reused, _| {
            let source = reused.count(u32::MAX as usize - 1)? as u32;
            reused.varint()?;
            pass_key(reused)?;
            Ok(self.is_later(index, source))
        });
        names.and(reused)
    }
}

/// Rewrites a stream item by item. `replace` passes an item, and returns whether it is left out. It may write something
/// in its place.
fn rewrite(
    stream: &mut Vec<u8>,
    mut replace: impl FnMut(&mut Cursor<'_>, &mut Vec<u8>) -> Result<bool, Short>,
) -> Result<(), Short> {
    let (mut rest, mut out) = (Cursor(stream), Vec::with_capacity(stream.len()));
    let mut result = Ok(());
    while !rest.is_empty() && result.is_ok() {
        let item = rest.0;
        let left_out = replace(&mut rest, &mut out);
        match left_out {
            Ok(true) => {}
            Ok(false) => out.extend_from_slice(&item[..item.len() - rest.0.len()]),
            Err(Short) => out.extend_from_slice(item),
        }
        result = left_out.map(drop);
    }
    *stream = out;
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Name, get_name, put_key, put_reused};
    use crate::inspect::registry::Registry;
    use proptest::prelude::*;
    use roaring::RoaringBitmap;
    use seiner_model::SourceKey;

    fn key(number: u32) -> SourceKey {
        SourceKey::new("m", [("number", number.to_string())]).unwrap()
    }

    fn texts(key: &SourceKey) -> (&[u8], impl ExactSizeIterator<Item = (&[u8], &[u8])>) {
        let tags: Vec<_> = key
            .tags()
            .map(|(tag, value)| (tag.as_bytes(), value.as_bytes()))
            .collect();
        (key.measurement().as_bytes(), tags.into_iter())
    }

    /// Returns a frame that forgets sources, adds the names of others, and reuses numbers.
    fn frame(forgotten: &[u32], names: std::ops::Range<u32>, reused: &[u32]) -> ReadFrame {
        let mut frame = Frame {
            first_source: names.start,
            sources: names.len() as u32,
            forgotten: RoaringBitmap::from_iter(forgotten),
            ..Frame::default()
        };
        names
            .clone()
            .for_each(|number| put_key(texts(&key(number)), &mut frame.names));
        for &number in reused {
            put_reused(number, 7, texts(&key(1000 + number)), &mut frame.reused);
        }
        ReadFrame {
            offset: 0,
            end_source: names.end,
            end_layout: 0,
            frame: Ok(frame),
        }
    }

    fn pruned(frames: &dyn Fn() -> Vec<ReadFrame>) -> Vec<Frame> {
        let forgotten = Forgotten::of(frames().into_iter());
        let frames = frames().into_iter().map(|read| read.frame.unwrap());
        let pruned = frames.zip(0..).map(|(mut frame, index)| {
            let _ = forgotten.prune(index, &mut frame);
            frame
        });
        pruned.collect()
    }

    fn names(frame: &Frame) -> Vec<Option<SourceKey>> {
        let mut cursor = Cursor(&frame.names);
        let names = (0..frame.sources).map(|_| match get_name(&mut cursor).unwrap() {
            Name::Key(key) => Some(key),
            Name::Free(tags) => {
                assert_eq!(tags, 1);
                None
            }
        });
        names.collect()
    }

    #[test]
    fn only_names_that_a_later_frame_forgets_are_left_out() {
        let all = pruned(&|| {
            vec![
                frame(&[], 0..4, &[]),
                frame(&[1, 2], 4..6, &[]),
                frame(&[], 6..6, &[1, 2]),
                frame(&[2, 5], 6..7, &[5]),
            ]
        });
        assert_eq!(names(&all[0]), [Some(key(0)), None, None, Some(key(3))]);
        assert_eq!(names(&all[1]), [Some(key(4)), None]);
        assert_eq!(names(&all[3]), [Some(key(6))]);
        let reused = |number: u32| {
            let mut bytes = Vec::new();
            put_reused(number, 7, texts(&key(1000 + number)), &mut bytes);
            bytes
        };
        assert_eq!(all[2].reused, reused(1));
        assert_eq!(
            all[3].reused,
            reused(5),
            "the frame itself forgets an earlier name"
        );
        assert_eq!(all[3].forgotten.len(), 2);
    }

    #[test]
    fn a_frame_that_forgets_unknown_sources_forgets_none() {
        let all = pruned(&|| vec![frame(&[], 0..2, &[]), frame(&[0, 2], 2..3, &[])]);
        assert_eq!(names(&all[0]), [Some(key(0)), Some(key(1))]);
    }

    #[test]
    fn names_from_a_malformed_one_on_stay() {
        let all = || {
            let mut first = frame(&[], 0..3, &[]);
            let names = &mut first.frame.as_mut().unwrap().names;
            names.truncate(names.len() - 1);
            vec![first, frame(&[0, 2], 3..3, &[])]
        };
        let (before, after) = (all(), pruned(&all));
        let before = &before[0].frame.as_ref().unwrap().names;
        assert_eq!(after[0].names[..2], [0, 1], "a free number with a tag");
        assert!(before.ends_with(&after[0].names[2..]) && after[0].names.len() > 2);
    }

    /// Sources that come and go between two frames, by the bits of masks, and bytes cut from the names.
    type Step = (u32, u32, u32, usize);

    fn frames_of(steps: &[Step]) -> Vec<ReadFrame> {
        let (mut used, mut free, mut sources, mut frames) = (0_u32, 0_u32, 0, Vec::new());
        for (number, &(forgets, adds, reuses, cut)) in (0..).zip(steps) {
            let of = |mask: u32| (0..32).filter(move |bit| mask >> bit & 1 == 1);
            let forgotten = forgets & used;
            (used, free) = (used & !forgotten, free | forgotten);
            let end = (sources + adds).min(32);
            let reused = reuses & free;
            let new = (sources..end).fold(0, |mask, bit| mask | 1 << bit);
            (used, free) = (used | reused | new, free & !reused);
            let mut read = frame(&of(forgotten).collect::<Vec<u32>>(), sources..end, &[]);
            sources = end;
            let frame = read.frame.as_mut().unwrap();
            for source in of(reused) {
                put_reused(
                    source,
                    7,
                    texts(&key(1000 * number + source)),
                    &mut frame.reused,
                );
            }
            frame
                .names
                .truncate(frame.names.len() - cut.min(frame.names.len()));
            frames.push(read);
        }
        frames
    }

    proptest! {
        #[test]
        fn pruned_frames_register_the_same_sources(
            steps in prop::collection::vec(
                (any::<u32>(), 0..8_u32, any::<u32>(), prop_oneof![9 => Just(0), 1 => 1..40_usize]),
                1..12,
            ),
        ) {
            let registered = |frames: Vec<ReadFrame>| {
                let mut damages = 0;
                let registry = Registry::read(frames.into_iter(), &mut |_, _| damages += 1);
                let keys = (0..registry.sources()).map(|source| registry.dictionary.key(source));
                (keys.collect::<Vec<_>>(), damages)
            };
            let forgotten = Forgotten::of(frames_of(&steps).into_iter());
            let mut pruned = frames_of(&steps);
            for (read, index) in pruned.iter_mut().zip(0..) {
                let _ = forgotten.prune(index, read.frame.as_mut().unwrap());
            }
            prop_assert_eq!(registered(pruned), registered(frames_of(&steps)));
        }
    }
}
