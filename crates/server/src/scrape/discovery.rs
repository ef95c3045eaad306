//! Targets of jobs: those of the settings, and those of files in the JSON of Prometheus' `file_sd_configs`.

use super::target::Target;
use crate::settings::{ScrapeJob, TargetAddress};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum length of a file.
const MAX_FILE: u64 = 4 << 20;
/// Maximum number of targets of all jobs.
const MAX_TARGETS: usize = 2_000;

/// Group of targets with the same labels.
#[derive(Debug, Deserialize)]
struct Group {
    targets: Vec<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// Targets of a job, and the reason why some are missing.
#[derive(Debug, Default)]
pub struct Found {
    /// Targets, without those that have the labels of an earlier one.
    pub targets: Vec<Target>,
    /// Reason why some targets are missing; `None` if none is.
    pub error: Option<String>,
}

/// Files of a job as they were read last.
#[derive(Debug, Default)]
pub struct Files(BTreeMap<PathBuf, Vec<Target>>);

impl Files {
    /// Returns the targets of a job, at most `room` of [`MAX_TARGETS`]. A file that cannot be read keeps the targets that
    /// it had. A file that is gone has none.
    pub fn targets(&mut self, job: &Arc<ScrapeJob>, room: usize) -> Found {
        let mut found = Found::default();
        let none = BTreeMap::new();
        for address in &job.targets {
            match Target::new(job, address.clone(), &none) {
                Ok(target) => found.add(target, room),
                Err(error) => found.note(error),
            }
        }
        let mut present = BTreeMap::new();
        for pattern in &job.files {
            match matches(pattern) {
                Ok(paths) => present.extend(paths.into_iter().map(|path| (path, ()))),
                Err(error) => found.note(error),
            }
        }
        self.0.retain(|path, _| present.contains_key(path));
        for path in present.into_keys() {
            match read(job, &path) {
                Ok(targets) => {
                    self.0.insert(path, targets);
                }
                Err(error) => found.note(format!("{}: {error}", path.display())),
            }
        }
        for target in self.0.values().flatten() {
            found.add(target.clone(), room);
        }
        found
    }
}

impl Found {
    /// Adds a target, unless another one has its labels: their series would be the same.
    fn add(&mut self, target: Target, room: usize) {
        let other = self
            .targets
            .iter()
            .find(|other| other.labels == target.labels);
        if let Some(other) = other {
            if *other != target {
                let (url, other) = (target.url(), other.url());
                self.note(format!(
                    "{url} has the same labels as {other} and is not scraped; give it another label instance"
                ));
            }
            return;
        }
        if self.targets.len() >= room {
            self.note(format!(
                "there are more than {MAX_TARGETS} targets; scrape the others by another server"
            ));
            return;
        }
        self.targets.push(target);
    }

    fn note(&mut self, error: String) {
        self.error.get_or_insert(error);
    }
}

/// Returns the targets of all jobs.
pub fn all(jobs: &mut [(Arc<ScrapeJob>, Files)]) -> Vec<Found> {
    let mut room = MAX_TARGETS;
    let found = jobs.iter_mut().map(|(job, files)| {
        let found = files.targets(job, room);
        room -= found.targets.len();
        found
    });
    found.collect()
}

/// Returns the files whose names match a pattern.
fn matches(pattern: &Path) -> Result<Vec<PathBuf>, String> {
    let name = pattern.file_name().and_then(|name| name.to_str());
    let Some((before, after)) = name.and_then(|name| name.split_once('*')) else {
        return Ok(vec![pattern.to_path_buf()]);
    };
    let folder = match pattern.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let failed = |error| format!("{}: {error}", folder.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_match = name.len() >= before.len() + after.len()
            && name.starts_with(before)
            && name.ends_with(after);
        if is_match {
            paths.push(entry.path());
        }
    }
    Ok(paths)
}

/// Returns the targets of a file.
fn read(job: &Arc<ScrapeJob>, path: &Path) -> Result<Vec<Target>, String> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        file => file.map_err(|error| error.to_string())?,
    };
    let mut text = Vec::new();
    let read = file.take(MAX_FILE + 1).read_to_end(&mut text);
    read.map_err(|error| error.to_string())?;
    if text.len() as u64 > MAX_FILE {
        return Err(format!(
            "the file is longer than {MAX_FILE} bytes; divide it"
        ));
    }
    let groups: Vec<Group> = serde_json::from_slice(&text).map_err(|error| {
        format!(
            "the file is not a list such as [{{\"targets\": [\"nas:9100\"], \"labels\": {{}}}}]: {error}"
        )
    })?;
    let mut targets = Vec::new();
    for Group {
        targets: found,
        labels,
    } in &groups
    {
        for address in found {
            targets.push(Target::new(job, TargetAddress::parse(address)?, labels)?);
        }
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(found: &Found) -> Vec<String> {
        found.targets.iter().map(Target::url).collect()
    }

    #[test]
    fn files_are_read_again_and_keep_their_targets_while_they_are_invalid() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        let job = Arc::new(ScrapeJob {
            name: "node".into(),
            targets: vec![TargetAddress::parse("a").unwrap()],
            files: vec![
                folder.path().join("*.json"),
                folder.path().join("none.json"),
            ],
            ..ScrapeJob::default()
        });
        let mut files = Files::default();
        assert_eq!(urls(&files.targets(&job, 9)), ["http://a:80/metrics"]);
        std::fs::write(
            &path,
            r#"[{"targets":["b:1","b:1","a"],"labels":{"x":"y"}}]"#,
        )
        .unwrap();
        let found = files.targets(&job, 9);
        let all = [
            "http://a:80/metrics",
            "http://b:1/metrics",
            "http://a:80/metrics",
        ];
        assert_eq!(
            (urls(&found), found.error),
            (all.map(String::from).into(), None)
        );
        std::fs::write(&path, "[{").unwrap();
        let found = files.targets(&job, 9);
        assert_eq!(urls(&found), all);
        assert!(
            found
                .error
                .unwrap()
                .contains("a.json: the file is not a list")
        );
        let found = files.targets(&job, 2);
        assert_eq!(found.targets.len(), 2);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(urls(&files.targets(&job, 9)), all[..1]);
    }

    #[test]
    fn targets_with_equal_labels_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        let text = r#"[{"targets":["a:1","a:2"],"labels":{"instance":"a"}}]"#;
        std::fs::write(&path, text).unwrap();
        let job = Arc::new(ScrapeJob {
            name: "node".into(),
            files: vec![path],
            ..ScrapeJob::default()
        });
        let found = Files::default().targets(&job, 9);
        assert_eq!(urls(&found), ["http://a:1/metrics"]);
        assert!(found.error.unwrap().contains("label instance"));
    }
}
