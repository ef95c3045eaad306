//! The names in the directory: what is seen, and what a power cut would leave.

use super::SimRng;
use super::image::{Fate, Mood};
use std::collections::BTreeMap;

/// A file's number, given at its creation and never again.
pub(super) type FileId = u64;

/// Something done to the names and not synced yet. Each is atomic.
#[derive(Clone)]
enum Change {
    Create { name: String, id: FileId },
    Remove { id: FileId },
    Rename { to: String, id: FileId },
}

/// The two images of the directory.
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

    /// The names and files that a program sees.
    pub(super) fn live(&self) -> &BTreeMap<String, FileId> {
        &self.live
    }

    /// Whether a power cut may leave this file under some name.
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

    /// Decides by chance which pending changes are durable; the rest never will be.
    pub(super) fn scatter(&mut self, mood: Mood, rng: &mut SimRng) {
        for change in std::mem::take(&mut self.pending) {
            // A change of a name has no halves: torn counts as lost.
            if mood.fate(rng) == Fate::Kept {
                change.apply(&mut self.durable);
            }
        }
    }

    /// A power cut: what is durable is all there is.
    pub(super) fn crash(&mut self, mood: Mood, rng: &mut SimRng) {
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

    /// Applies it, also where an earlier change is missing: a file has one name or none.
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
