//! Files and names according to the table on the volume.

use crate::format::{Change, Extent, LONGEST_NAME, Layout};
use crate::space::Space;
use std::collections::BTreeMap;

/// Number of a file, given when it is created and never reused.
pub type FileId = u64;

/// Contents of a file in the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileContents {
    /// Length in bytes.
    pub len: u64,
    /// Units of the file, in order.
    pub extents: Vec<Extent>,
}

/// A file in the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFile {
    /// Name of the file; `None` if the file was synced before its name was.
    pub name: Option<String>,
    /// Contents of the file.
    pub body: FileContents,
}

/// Result of a snapshot and the log behind it.
#[derive(Debug, Default)]
pub struct Table {
    /// File numbers by name.
    pub names: BTreeMap<String, FileId>,
    /// Files by number.
    pub files: BTreeMap<FileId, TableFile>,
    /// Number of the next file.
    pub next: FileId,
}

impl Table {
    /// Applies a change.
    pub fn apply(&mut self, change: Change) {
        let (Change::Name { file, .. } | Change::Gone { file } | Change::Body { file, .. }) =
            &change;
        let file = *file;
        self.next = self.next.max(file.saturating_add(1));
        match change {
            Change::Name { name, .. } => {
                let before = self
                    .names
                    .insert(name.clone(), file)
                    .filter(|&before| before != file);
                if let Some(before) = before {
                    self.files.remove(&before);
                }
                let listed = self.files.entry(file).or_default();
                if let Some(old) = listed
                    .name
                    .replace(name)
                    .filter(|old| Some(old) != listed.name.as_ref())
                {
                    self.names.remove(&old);
                }
            }
            Change::Gone { .. } => {
                let listed = self.files.remove(&file).unwrap_or_default();
                if let Some(name) = listed.name {
                    self.names.remove(&name);
                }
            }
            Change::Body { len, extents, .. } => {
                self.files.entry(file).or_default().body = FileContents { len, extents };
            }
        }
    }

    /// Removes files without names, and returns the free space.
    ///
    /// # Errors
    /// A contradiction in the table: a bad name, units that do not exist or are used twice, or too few units.
    pub fn claim_units(&mut self, layout: &Layout) -> Result<Space, String> {
        self.files.retain(|_, listed| listed.name.is_some());
        let mut space = Space::new(layout.units);
        for listed in self.files.values() {
            let (name, body) = (listed.name.as_deref().unwrap_or_default(), &listed.body);
            if !(1..=LONGEST_NAME).contains(&name.len()) {
                return Err(format!("a file has a name of {} bytes", name.len()));
            }
            for &extent in &body.extents {
                if extent.units == 0 || !space.claim(extent) {
                    return Err(format!(
                        "{name} has {} units from {} on, which do not exist or belong to another file",
                        extent.units, extent.start
                    ));
                }
            }
            let units: u64 = body.extents.iter().map(|extent| extent.units).sum();
            if body.len.div_ceil(layout.unit_bytes()) > units {
                return Err(format!("{name} has {} bytes in {units} units", body.len));
            }
        }
        Ok(space)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::VolumeShape;
    use seiner_platform::sim::Rng;

    const NAMES: [&str; 3] = ["a", "b", ""];

    fn layout() -> Layout {
        let shape = VolumeShape {
            blocks: 6144,
            stripe_blocks: 16,
        };
        Layout::new([0; 16], shape).unwrap()
    }

    fn body(file: FileId, len: u64, extents: &[(u64, u64)]) -> Change {
        let extents = extents
            .iter()
            .map(|&(start, units)| Extent { start, units });
        Change::Body {
            file,
            len,
            extents: extents.collect(),
        }
    }

    fn name(file: FileId, name: &str) -> Change {
        Change::Name {
            file,
            name: name.to_string(),
        }
    }

    fn table(changes: Vec<Change>) -> Table {
        let mut table = Table::default();
        changes.into_iter().for_each(|change| table.apply(change));
        table
    }

    #[test]
    fn a_name_belongs_to_one_file_and_a_file_has_one_name() {
        let mut table = table(vec![
            name(1, "a"),
            body(1, 10, &[(0, 1)]),
            name(2, "b"),
            body(2, 20, &[(1, 1)]),
            name(2, "a"),
            body(3, 30, &[(0, 1)]),
        ]);
        let space = table.claim_units(&layout()).unwrap();
        assert_eq!(table.names, BTreeMap::from([("a".to_string(), 2)]));
        assert_eq!(
            table.files.len(),
            1,
            "one file was replaced, and one never had a name"
        );
        assert_eq!((space.free(), table.next), (layout().units - 1, 4));
    }

    #[test]
    fn contradictions_are_damage() {
        let unit = layout().unit_bytes();
        for wrong in [
            vec![name(1, "a"), body(1, 1, &[])],
            vec![name(1, "a"), body(1, unit + 1, &[(0, 1)])],
            vec![name(1, "a"), body(1, 0, &[(0, 0)])],
            vec![name(1, "a"), body(1, 0, &[(layout().units, 1)])],
            vec![name(1, "a"), body(1, 0, &[(u64::MAX, u64::MAX)])],
            vec![name(1, "a"), body(1, 0, &[(0, 2), (1, 1)])],
            vec![
                name(1, "a"),
                body(1, 1, &[(0, 1)]),
                name(2, "b"),
                body(2, 1, &[(0, 1)]),
            ],
            vec![name(1, "")],
        ] {
            assert!(
                table(wrong.clone()).claim_units(&layout()).is_err(),
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn arbitrary_changes_cause_no_panic() {
        let mut rng = Rng::new(1);
        for _ in 0..2000 {
            let mut changes = Vec::new();
            for _ in 0..rng.between(1, 12) {
                let file = *rng.pick(&[0, 1, 2, u64::MAX]);
                let number = |rng: &mut Rng| *rng.pick(&[0, 1, 5, 300, 1 << 40, u64::MAX]);
                changes.push(match rng.below(3) {
                    0 => {
                        let text: &&str = rng.pick(&NAMES);
                        name(file, text)
                    }
                    1 => Change::Gone { file },
                    _ => body(
                        file,
                        number(&mut rng),
                        &[(number(&mut rng), number(&mut rng))],
                    ),
                });
            }
            let _ = table(changes).claim_units(&layout());
        }
    }
}
