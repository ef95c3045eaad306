//! Health: what is in the way of writing, with the remedy, for `/health`, `/status` and `/metrics`.

use crate::figures::{ProcessFigures, Volume};
use seiner_engine::Status;

/// The share of the files that a process may have open from which it is worth a word.
const MANY_FILES: f64 = 0.9;

/// Something that somebody should look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Whether writes are refused for it, or what was accepted is not made durable.
    pub refuses: bool,
    /// What it is, and the remedy.
    pub text: String,
}

/// What is in the way, worst first.
pub fn troubles(status: &Status) -> Vec<Trouble> {
    let mut found = Vec::new();
    let mut add = |refuses, text| found.push(Trouble { refuses, text });
    let trouble = &status.trouble;
    if let Some(why) = &status.poisoned {
        add(
            true,
            format!(
                "writes are refused until the server is started again, as one to the disk failed: {why}; see that the \
                 disk works, can be written and has room, then start the server again"
            ),
        );
    }
    if let Some(why) = &trouble.full {
        add(true, format!("writes are refused: {why}"));
    }
    let remedy = "make room on the file system (see `df` and, for the number of files, `df -i`), or let the process have \
                  more files open; the server goes on by itself then";
    if let Some(why) = &trouble.journal {
        add(
            true,
            format!(
                "what was accepted cannot be made durable, the journal is not written: {why}; {remedy}"
            ),
        );
    }
    if let Some(why) = &trouble.segments {
        add(
            false,
            format!(
                "segments cannot be written, and writes are refused when memory or journal are full: {why}; {remedy}"
            ),
        );
    }
    if trouble.throttled && trouble.full.is_none() {
        add(
            false,
            format!(
                "the disk is nearly full ({} of {} bytes are used or reserved), and writers are slowed; raise `disk` or make \
                 room on the file system, delete something, or let a class keep less",
                status.disk_used, status.disk_budget
            ),
        );
    }
    if trouble.shedding {
        add(
            false,
            format!(
                "the disk budget is used up, and the oldest data of classes that may be shed go before their time (about {} \
                 bytes since the start); raise `disk`, or let a class keep less",
                status.shed_bytes
            ),
        );
    }
    if trouble.no_new_sources {
        add(
            false,
            format!(
                "new sources are refused, for the names of {} would take the memory of rows; raise `memory` ({} bytes), and \
                 see that no tag has ever new values",
                status.sources, status.memory_budget
            ),
        );
    }
    found
}

/// What is in the way outside the store: the file system, and what the process may have.
pub fn surroundings(volume: &Volume, process: &ProcessFigures) -> Vec<String> {
    let mut found = Vec::new();
    if volume.read_only {
        found.push(
            "the file system of the data directory can only be read; mount it for writing, then start the server again"
                .to_string(),
        );
    }
    if volume.files > 0 && volume.free_files == 0 {
        found.push(
            "the file system of the data directory has no room for another file (`df -i`); remove some"
                .to_string(),
        );
    }
    let (open, limit) = (process.open_files, process.open_files_limit);
    if limit > 0 && open as f64 >= MANY_FILES * limit as f64 {
        found.push(format!(
            "{open} of {limit} files and connections that the process may have are open; raise the limit (`ulimit -n`), or \
             lower `max_connections`"
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusing(status: &Status) -> Vec<String> {
        let troubles = troubles(status).into_iter();
        let refusing = troubles.filter(|trouble| trouble.refuses);
        refusing.map(|trouble| trouble.text).collect()
    }

    #[test]
    fn a_store_that_writes_has_no_trouble() {
        assert_eq!(troubles(&Status::default()), []);
    }

    #[test]
    fn every_trouble_has_a_remedy_and_says_whether_writes_are_refused() {
        let mut status = Status {
            poisoned: Some("writing x".to_string()),
            ..Status::default()
        };
        status.trouble.full = Some("the disk budget is used up; raise `disk`".to_string());
        status.trouble.journal = Some("no space".to_string());
        assert_eq!(refusing(&status).len(), 3);
        assert!(refusing(&status)[0].contains("start the server again"));
        assert!(refusing(&status)[2].contains("by itself"));
        let mut status = Status::default();
        status.trouble.segments = Some("no space".to_string());
        status.trouble.throttled = true;
        status.trouble.shedding = true;
        status.trouble.no_new_sources = true;
        assert_eq!(refusing(&status), [""; 0]);
        let texts: Vec<String> = troubles(&status).into_iter().map(|one| one.text).collect();
        assert_eq!(texts.len(), 4);
        for remedy in ["df -i", "raise `disk`", "raise `memory`"] {
            assert!(
                texts.iter().any(|text| text.contains(remedy)),
                "{remedy}: {texts:?}"
            );
        }
    }

    #[test]
    fn what_surrounds_the_store_is_watched() {
        let volume = Volume {
            read_only: true,
            files: 100,
            ..Volume::default()
        };
        let process = ProcessFigures {
            open_files: 95,
            open_files_limit: 100,
            ..ProcessFigures::default()
        };
        assert_eq!(surroundings(&volume, &process).len(), 3);
        // What cannot be asked is no trouble.
        let nothing = surroundings(&Volume::default(), &ProcessFigures::default());
        assert_eq!(nothing, [""; 0]);
    }
}
