//! Names in the simulated directory: the live image, and the image after a power cut.

use super::image::{Fate, Mood};
use seiner_random::Rng;
use std::collections::BTreeMap;

/// Number of a file, assigned at its creation and never reused.
pub(super) type FileId = u64;

/// A change of names that is not synced yet. Each change is atomic.
#[derive(Clone)]
enum Change {
    Create { name: String, id: FileId },
    Remove { id: FileId },
    Rename { to: String, id: FileId },
}

/// Live image and durable image of the directory.
#[derive(Clone, Default)]
pub(super) struct Names {
    live: BTreeMap<String, FileId>,
    durable: BTreeMap<String, FileId>,
    pending: Vec<Change>,
}

impl Names {
    pub(super) fn get(&self, name: &str) -> Option<FileId> {
        self.live.get(name).copied()
    }

    /// Returns the names and files that a program sees.
    pub(super) fn live(&self) -> &BTreeMap<String, FileId> {
        &self.live
    }

    /// Returns whether a power cut may leave this file under a name.
    pub(super) fn may_need(&self, id: FileId) -> bool {
        self.live
            .values()
            .chain(self.durable.values())
            .any(|&named| named == id)
            || self.pending.iter().any(|change| change.id() == id)
    }

    pub(super) fn create(&mut self, name: &str, id: FileId) {
        self.record(Change::Create {
            name: name.to_string(),
            id,
        });
    }

    pub(super) fn remove(&mut self, id: FileId) {
        self.record(Change::Remove { id });
    }

    pub(super) fn rename(&mut self, to: &str, id: FileId) {
        self.record(Change::Rename {
            to: to.to_string(),
            id,
        });
    }

    fn record(&mut self, change: Change) {
        change.apply(&mut self.live);
        self.pending.push(change);
    }

    pub(super) fn sync(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            change.apply(&mut self.durable);
        }
    }

    /// Chooses at random which pending changes become durable. The others are lost.
    pub(super) fn scatter(&mut self, mood: Mood, rng: &mut Rng) {
        for change in std::mem::take(&mut self.pending) {
            // A change of a name is atomic: torn counts as lost.
            if mood.fate(rng) == Fate::Kept {
                change.apply(&mut self.durable);
            }
        }
    }

    /// Cuts the power: keeps a random choice of the pending changes, then resets the live image to the durable
    /// one.
    pub(super) fn crash(&mut self, mood: Mood, rng: &mut Rng) {
        self.scatter(mood, rng);
        self.live.clone_from(&self.durable);
    }
}

impl Change {
    fn id(&self) -> FileId {
        match self {
            Change::Create { id, .. } | Change::Remove { id } | Change::Rename { id, .. } => *id,
        }
    }

    /// Applies this change, even if an earlier change was lost. A file has at most one name.
    fn apply(&self, names: &mut BTreeMap<String, FileId>) {
        match self {
            Change::Create { name, id } => {
                names.insert(name.clone(), *id);
            }
            Change::Remove { id } => names.retain(|_, named| named != id),
            Change::Rename { to, id } => {
                names.retain(|_, named| named != id);
                names.insert(to.clone(), *id);
            }
        }
    }
}
