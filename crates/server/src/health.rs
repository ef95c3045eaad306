//! Health: the one list of troubles, each with its severity and its remedy. `/health`, `/status`,
//! `/api/v1/log` and `/metrics` use this list.

use crate::system::{FileSystem, ProcessStats};
use seiner_model::duration_text;
use seiner_store::{ClassStatus, Loss, Status};
use serde::{Deserialize, Serialize};

/// Share of the permitted open files from which a notice is given.
const MANY_FILES: f64 = 0.9;

/// Severity of a trouble, the worst first. In JSON, the status of `/health` to which the trouble leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Severity {
    /// Writes are rejected, or accepted data are not made durable. `/health` fails.
    #[serde(rename = "fail")]
    Rejecting,
    /// Data were lost, or the clock of the retention is in doubt. `/health` warns.
    #[serde(rename = "warn")]
    Warning,
    /// A notice. `/health` passes, and mentions it.
    #[serde(rename = "pass")]
    Notice,
}

/// Trouble that an operator should look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// Severity of the trouble.
    #[serde(rename = "health")]
    pub severity: Severity,
    /// Severity in the words of the previous version, under their old key.
    #[serde(rename = "severity", skip_deserializing)]
    old_severity: &'static str,
    /// Description and remedy.
    pub text: String,
}

impl Trouble {
    fn new(severity: Severity, text: String) -> Trouble {
        Trouble {
            severity,
            old_severity: old_severity(severity),
            text,
        }
    }
}

/// Returns the value of the old key `severity`, which is sent for one version.
fn old_severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Rejecting => "refusal",
        Severity::Warning => "warning",
        Severity::Notice => "notice",
    }
}

/// Returns the troubles of the store and those around it, the worst first.
pub fn with_surroundings(mut store: Vec<Trouble>, around: Vec<String>) -> Vec<Trouble> {
    let notice = |text| Trouble::new(Severity::Notice, text);
    store.extend(around.into_iter().map(notice));
    store
}

/// Returns the troubles of the store itself, the worst first.
pub fn of_store(status: &Status, classes: &[ClassStatus], losses: &[Loss]) -> Vec<Trouble> {
    let mut found = of_writing(status);
    let mut add = |severity, text| found.push(Trouble::new(severity, text));
    let warnings = loss_warning(losses).into_iter();
    for warning in warnings.chain(clock_warning(status)) {
        add(Severity::Warning, warning);
    }
    if status.damaged_segments > 0 {
        let text = format!(
            "{} segments or blocks are damaged and not served; the log names them, and `seiner check` finds all",
            status.damaged_segments
        );
        add(Severity::Notice, text);
    }
    if let Some(why) = &status.rollup_blocked {
        let text =
            format!("samples are kept beyond their age, because they cannot be rolled up: {why}");
        add(Severity::Notice, text);
    }
    for class in idle_classes(classes) {
        add(Severity::Notice, class);
    }
    found.sort_by_key(|trouble| trouble.severity);
    found
}

/// Returns the troubles of writing.
fn of_writing(status: &Status) -> Vec<Trouble> {
    let mut found = Vec::new();
    let mut add = |severity, text| found.push(Trouble::new(severity, text));
    let trouble = &status.trouble;
    if let Some(why) = &status.poisoned {
        add(
            Severity::Rejecting,
            format!(
                "writes are rejected, because a write to the disk failed: {why}; check that the disk works, is writable and \
                 has free space, then start the server again"
            ),
        );
    }
    if let Some(why) = &trouble.full {
        add(Severity::Rejecting, format!("writes are rejected: {why}"));
    }
    let remedy = "free space on the file system (see `df`, and `df -i` for the number of files), or raise the limit of open \
                  files; the server then continues by itself";
    if let Some(why) = &trouble.journal {
        add(
            Severity::Rejecting,
            format!(
                "accepted rows cannot be made durable, because the journal cannot be written: {why}; {remedy}"
            ),
        );
    }
    if let Some(why) = &trouble.segments {
        add(
            Severity::Notice,
            format!(
                "segments cannot be written, and writes will be rejected when memory or journal are full: {why}; {remedy}"
            ),
        );
    }
    if trouble.throttled && trouble.full.is_none() {
        add(
            Severity::Notice,
            format!(
                "the disk is nearly full ({} of {} bytes are used or reserved), and writers are slowed; raise `disk`, free \
                 space on the file system, delete data, or let a class keep less",
                status.disk_used, status.disk_budget
            ),
        );
    }
    if trouble.shedding {
        add(
            Severity::Notice,
            format!(
                "the disk budget is used up, and the oldest data of classes that may be shed expire early (about {} bytes \
                 since the start); raise `disk`, or let a class keep less",
                status.shed_bytes
            ),
        );
    }
    if trouble.no_new_sources {
        add(
            Severity::Notice,
            format!(
                "new sources are rejected, because the names of {} sources leave too little memory for rows; raise `memory` \
                 ({} bytes), and check that no tag gets a new value all the time",
                status.sources, status.memory_budget
            ),
        );
    }
    found
}

/// Returns the obstacles outside the store: those of the file system and of the process limits.
pub fn surroundings(file_system: &FileSystem, process: &ProcessStats) -> Vec<String> {
    let mut found = Vec::new();
    if file_system.read_only {
        found.push(
            "the file system of the data directory is read-only; mount it for writing, then start the server again"
                .to_string(),
        );
    }
    if file_system.files > 0 && file_system.free_files == 0 {
        found.push(
            "the file system of the data directory cannot hold another file (`df -i`); remove some files"
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

/// Returns the warning about unacknowledged losses, if there are any.
fn loss_warning(losses: &[Loss]) -> Option<String> {
    let first = losses.first()?;
    let count = match losses.len() {
        1 => "data was lost".to_string(),
        count => format!("data was lost in {count} places, at first"),
    };
    Some(format!(
        "{count}: {first}; `/status` lists the losses, and `seiner acknowledge` clears the list"
    ))
}

/// Minimum difference between the host's clock and the stored time that is reported, ns.
const CLOCK_BEHIND: u64 = 300_000_000_000;

/// Returns the warning if the store does not use the host's clock, with the remedy.
pub fn clock_warning(status: &Status) -> Option<String> {
    let whole = |ns: u64| duration_text(ns / 1_000_000_000 * 1_000_000_000);
    if status.clock_held_ns > 0 {
        return Some(format!(
            "the host's clock jumped ahead by {}, and no data expire by it: if the clock is right, confirm it with \
             `seiner clock --accept`; if the clock is wrong, set it; otherwise the store accepts the clock after it has run \
             for the longest age that the jump exceeds",
            whole(status.clock_held_ns)
        ));
    }
    (status.clock_behind_ns > CLOCK_BEHIND).then(|| {
        format!(
            "the time of the store is {} ahead of the host's clock: samples that are too old by the store's time are hidden \
             and rejected; if the clock is wrong, set it; if the clock was wrong before, stop the server and \
             set the store's time back with `seiner clock --data DIR --accept`",
            whole(status.clock_behind_ns)
        )
    })
}

/// Returns notices about classes without sources, if the store has sources.
pub fn idle_classes(classes: &[ClassStatus]) -> Vec<String> {
    let sources: u64 = classes.iter().map(|class| class.sources).sum();
    // The last class has all other sources, which may be none.
    let rules = classes.iter().filter(|class| class.step_ns.is_none());
    let rules: Vec<&ClassStatus> = rules.collect();
    let idle = rules
        .split_last()
        .map_or(&[] as &[_], |(_, rules)| rules)
        .iter()
        .filter(|class| sources > 0 && class.sources == 0);
    idle.map(|ClassStatus { class, .. }| {
        format!(
            "no source is in the retention class {:?} ({}); check whether its selector is right, and whether an \
             earlier class matches all its sources",
            class.name, class.sources
        )
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejecting(status: &Status) -> Vec<String> {
        let troubles = of_store(status, &[], &[]).into_iter();
        let rejecting = troubles.filter(|trouble| trouble.severity == Severity::Rejecting);
        rejecting.map(|trouble| trouble.text).collect()
    }

    #[test]
    fn a_default_status_has_no_trouble() {
        assert_eq!(of_store(&Status::default(), &[], &[]), []);
    }

    #[test]
    fn every_trouble_has_a_remedy_and_states_whether_writes_are_rejected() {
        let mut status = Status {
            poisoned: Some("writing x".to_string()),
            ..Status::default()
        };
        status.trouble.full = Some("the disk budget is used up; raise `disk`".to_string());
        status.trouble.journal = Some("no space".to_string());
        assert_eq!(rejecting(&status).len(), 3);
        assert!(rejecting(&status)[0].contains("start the server again"));
        assert!(rejecting(&status)[2].contains("by itself"));
        let mut status = Status::default();
        status.trouble.segments = Some("no space".to_string());
        status.trouble.throttled = true;
        status.trouble.shedding = true;
        status.trouble.no_new_sources = true;
        assert_eq!(rejecting(&status), [""; 0]);
        let texts: Vec<String> = of_store(&status, &[], &[])
            .into_iter()
            .map(|one| one.text)
            .collect();
        assert_eq!(texts.len(), 4);
        for remedy in ["df -i", "raise `disk`", "raise `memory`"] {
            assert!(
                texts.iter().any(|text| text.contains(remedy)),
                "{remedy}: {texts:?}"
            );
        }
    }

    #[test]
    fn one_list_has_everything_with_the_worst_first() {
        let mut status = Status {
            damaged_segments: 1,
            clock_held_ns: 400 * 86_400_000_000_000,
            rollup_blocked: Some("there is no space".to_string()),
            ..Status::default()
        };
        status.trouble.throttled = true;
        status.trouble.journal = Some("no space".to_string());
        let loss = Loss {
            file: "segment-00000001.log".to_string(),
            what: "the file is missing".to_string(),
            rows: None,
            at_most: false,
            times: None,
            found_at: 0,
        };
        let found = of_store(&status, &[], &[loss]);
        let severities: Vec<Severity> = found.iter().map(|trouble| trouble.severity).collect();
        use Severity::{Notice, Rejecting, Warning};
        assert_eq!(
            severities,
            [Rejecting, Warning, Warning, Notice, Notice, Notice]
        );
        for (trouble, part) in found.iter().zip([
            "journal",
            "data was lost",
            "clock --accept",
            "nearly full",
            "damaged",
            "beyond their age",
        ]) {
            assert!(trouble.text.contains(part), "{part}: {}", trouble.text);
        }
    }

    #[test]
    fn troubles_of_file_system_and_process_are_reported() {
        let file_system = FileSystem {
            read_only: true,
            files: 100,
            ..FileSystem::default()
        };
        let process = ProcessStats {
            open_files: 95,
            open_files_limit: 100,
            ..ProcessStats::default()
        };
        assert_eq!(surroundings(&file_system, &process).len(), 3);
        // Unknown figures are not a trouble.
        let nothing = surroundings(&FileSystem::default(), &ProcessStats::default());
        assert_eq!(nothing, [""; 0]);
    }
}
