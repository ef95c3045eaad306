//! Recall: finds dormant sources, whose names are in names files only, when they get rows again.
//!
//! Files are read while nothing is locked: a slow disk delays the writer that needs a name, not the others.

use crate::core::Core;
use crate::dictionary::filed::Filed;
use crate::dictionary::names::NameHash;
use crate::dictionary::put_canonical;
use crate::error::Error;
use crate::head::Head;
use crate::jobs::filing::mend;
use crate::locks::HeadGuard;
use crate::writers::Turn;
use seiner_model::SourceKey;
use seiner_names::NamesFile;
use std::sync::Arc;

/// Canonical name that is not in memory.
pub(crate) struct Wanted {
    /// Place of the name in the list of the caller.
    pub place: usize,
    /// Name, and its hash.
    pub name: Vec<u8>,
    pub hash: NameHash,
    /// Source with the name, as soon as it is known.
    pub source: Option<u32>,
    /// Numbers under which files have the name, although the sources were not filed: before they are, or afterwards.
    unfiled: Vec<u32>,
}

impl Wanted {
    /// Returns the canonical name of a key.
    pub fn new(place: usize, seed: u64, key: &SourceKey) -> Wanted {
        let mut name = Vec::with_capacity(64);
        let hash = put_canonical(seed, key, &mut name);
        Wanted {
            place,
            name,
            hash,
            source: None,
            unfiled: Vec::new(),
        }
    }
}

/// Searches the names files for names, while the head is unlocked. Returns false if names were removed from the store
/// meanwhile: sources that were found before may have no name now, and the search begins anew.
///
/// # Errors
/// If names can be read neither from a file nor from the catalog, or the store accepts no more rows.
pub(crate) fn search<'a>(
    core: &Core,
    turn: &mut Turn<'a>,
    mut head: HeadGuard<'a>,
    wanted: &mut [Wanted],
) -> Result<(HeadGuard<'a>, bool), Error> {
    let mut search = Search::new(&head, wanted);
    loop {
        let files = match search.next(&head) {
            Next::Read(files) => files,
            Next::Done => {
                search.end(&head);
                return Ok((head, true));
            }
            Next::Anew => return Ok((head, false)),
        };
        drop(head);
        turn.pause(|| search.read(core, files))?;
        head = turn.head()?;
    }
}

/// Search for names in the files of a store, which may change between its steps.
struct Search<'w> {
    wanted: &'w mut [Wanted],
    /// Number of times that names had been removed when the search began.
    rounds: u64,
    /// Files that were searched.
    read: Vec<Arc<NamesFile>>,
}

/// Next step of a search.
enum Next {
    /// Search these files.
    Read(Files),
    /// All files were searched.
    Done,
    /// Names were removed.
    Anew,
}

/// Files that were not searched, and the sources of all files.
struct Files {
    filed: Filed,
    unread: Vec<Arc<NamesFile>>,
}

impl<'w> Search<'w> {
    fn new(head: &Head, wanted: &'w mut [Wanted]) -> Search<'w> {
        Search {
            wanted,
            rounds: head.rounds(),
            read: Vec::new(),
        }
    }

    fn next(&self, head: &Head) -> Next {
        if head.rounds() != self.rounds {
            return Next::Anew;
        }
        // A name that was in no file may have become that of a source meanwhile, and have been filed.
        let filed = head.filed();
        let is_read = |file: &Arc<NamesFile>| self.read.iter().any(|read| Arc::ptr_eq(file, read));
        let files = filed.files().iter();
        let unread: Vec<Arc<NamesFile>> = files.filter(|file| !is_read(file)).cloned().collect();
        let is_missing = self.wanted.iter().any(|wanted| wanted.source.is_none());
        match unread.is_empty() || !is_missing {
            true => Next::Done,
            false => Next::Read(Files { filed, unread }),
        }
    }

    /// Searches files for the names that were not found in others. The names of a damaged file are in memory afterwards.
    fn read(&mut self, core: &Core, files: Files) -> Result<(), Error> {
        let Files { filed, unread } = files;
        for file in unread {
            let missing = self.wanted.iter_mut();
            for wanted in missing.filter(|wanted| wanted.source.is_none()) {
                match filed.find(&file, &wanted.name) {
                    Err(Error::Damage { .. }) => return mend(core, &core.writing()).map(drop),
                    Ok(None) => {}
                    Ok(Some(source)) if filed.sources().contains(source) => {
                        wanted.source = Some(source);
                    }
                    Ok(Some(source)) => wanted.unfiled.push(source),
                    Err(error) => return Err(error),
                }
            }
            self.read.push(file);
        }
        Ok(())
    }

    /// Takes sources that were filed after their file was read.
    fn end(&mut self, head: &Head) {
        let filed = head.filed();
        let missing = self.wanted.iter_mut();
        for wanted in missing.filter(|wanted| wanted.source.is_none()) {
            let mut found = wanted.unfiled.iter().copied();
            wanted.source = found.find(|source| filed.sources().contains(*source));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::testing::{World, options};
    use crate::options::{Filing, Options};
    use std::ops::Range;

    fn names(numbers: Range<u32>) -> Vec<String> {
        numbers.map(|number| format!("m,pod=p{number}")).collect()
    }

    /// Writes rows, and files all names.
    fn file(world: &World, numbers: Range<u32>) {
        world.append_named(&names(numbers), 0);
        world.run_all();
    }

    fn wanted(world: &World, number: u32) -> [Wanted; 1] {
        let key = SourceKey::new("m", [("pod", format!("p{number}"))]).unwrap();
        [Wanted::new(0, world.core.names_seed, &key)]
    }

    /// Returns the files that a search has not read.
    fn unread(search: &Search<'_>, world: &World) -> Files {
        match search.next(&world.core.head()) {
            Next::Read(files) => files,
            _ => panic!("there is a file"),
        }
    }

    fn world() -> World {
        World::new(Options {
            filing: Filing::Always,
            ..options()
        })
    }

    /// Another writer may register the name while files are searched, and it may become dormant before the search ends.
    #[test]
    fn a_file_that_comes_during_a_search_is_searched() {
        let world = world();
        file(&world, 0..100);
        let mut wanted = wanted(&world, 150);
        let mut search = Search::new(&world.core.head(), &mut wanted);
        let files = unread(&search, &world);
        file(&world, 100..200);
        search.read(&world.core, files).unwrap();
        assert_eq!(search.wanted[0].source, None);
        let files = unread(&search, &world);
        search.read(&world.core, files).unwrap();
        assert!(matches!(search.next(&world.core.head()), Next::Done));
        assert_eq!(wanted[0].source, Some(150));
    }

    /// Regression: a file is there before its sources are filed. A name that was read in between was absent, and was
    /// registered twice.
    #[test]
    fn a_source_that_is_filed_after_its_file_was_read_is_found() {
        let world = world();
        file(&world, 0..100);
        let mut wanted = wanted(&world, 150);
        let mut search = Search::new(&world.core.head(), &mut wanted);
        let mut files = unread(&search, &world);
        file(&world, 100..200);
        files.unread = world.core.head().filed().files().to_vec();
        search.read(&world.core, files).unwrap();
        assert_eq!(search.wanted[0].source, None);
        assert!(matches!(search.next(&world.core.head()), Next::Done));
        search.end(&world.core.head());
        assert_eq!(wanted[0].source, Some(150));
    }

    /// The number that a search found may be that of another source when names were removed.
    #[test]
    fn a_search_begins_anew_when_names_are_removed() {
        let world = world();
        file(&world, 0..100);
        let mut wanted = wanted(&world, 50);
        let mut search = Search::new(&world.core.head(), &mut wanted);
        let files = unread(&search, &world);
        search.read(&world.core, files).unwrap();
        assert!(matches!(search.next(&world.core.head()), Next::Done));
        world.core.head().remove_names(&[]);
        assert!(matches!(search.next(&world.core.head()), Next::Anew));
    }
}
