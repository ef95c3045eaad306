//! Workloads as files: generated once, kept for the next run, with a limit of disk space.

use crate::workload::{Lines, Workload};
use anyhow::{Context, Result};
use std::fs::{self, File, FileTimes};
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Version of the generator. It increases when the generator writes other bytes, so that files of
/// an older version are not used.
const GENERATION: u32 = 1;
/// Maximum total bytes of the files of all workloads.
pub const LIMIT: u64 = 4_000_000_000;

/// Range of a file that is sent as one body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body {
    /// Offset of the first byte.
    pub start: u64,
    /// Number of bytes.
    pub length: u64,
    /// Number of lines.
    pub lines: u64,
}

/// File with the lines that one agent sends.
#[derive(Clone, Debug)]
pub struct AgentFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Bodies of the file, in order.
    pub bodies: Vec<Body>,
}

/// Workload in files, one per agent.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// Contents of the files.
    pub workload: Workload,
    /// Files, one per agent.
    pub agents: Vec<AgentFile>,
}

impl Dataset {
    /// Opens the files of a workload, writes missing ones, and divides them into bodies of
    /// `lines_per_body` lines. The division reads the files into the page cache.
    pub fn prepare(
        directory: &Path,
        workload: &Workload,
        agents: u32,
        lines_per_body: u64,
    ) -> Result<Dataset> {
        fs::create_dir_all(directory)
            .with_context(|| format!("creating {}", directory.display()))?;
        let mut files = Vec::new();
        for agent in 0..agents {
            let path = directory.join(file_name(workload, agent, agents));
            if !path.exists() {
                make_room(
                    directory,
                    LIMIT.saturating_sub(estimate(workload) / u64::from(agents)),
                )?;
                generate(&path, workload, agent, agents)?;
            }
            let file = File::open(&path)?;
            // Sets the access time explicitly, because many file systems are mounted without access
            // times.
            file.set_times(FileTimes::new().set_accessed(SystemTime::now()))?;
            let bodies =
                cut(file, lines_per_body).with_context(|| format!("reading {}", path.display()))?;
            files.push(AgentFile { path, bodies });
        }
        Ok(Dataset {
            workload: workload.clone(),
            agents: files,
        })
    }
}

fn file_name(workload: &Workload, agent: u32, agents: u32) -> String {
    let Workload {
        sources,
        fields,
        ticks,
        first_tick,
        ..
    } = workload;
    format!("g{GENERATION}-{sources}x{fields}x{ticks}+{first_tick}-{agent}of{agents}.lines")
}

/// Estimates the bytes of the lines of a workload.
fn estimate(workload: &Workload) -> u64 {
    workload.lines() * (72 + 10 * u64::from(workload.fields))
}

fn generate(path: &Path, workload: &Workload, agent: u32, agents: u32) -> Result<()> {
    eprintln!("generating {} for {}", path.display(), workload.describe());
    let unfinished = path.with_extension("unfinished");
    let mut file =
        File::create(&unfinished).with_context(|| format!("creating {}", unfinished.display()))?;
    let mut lines = Lines::new(workload, agent, agents);
    let mut text = Vec::new();
    while lines.write(10_000, &mut text)? > 0 {
        file.write_all(&text)
            .with_context(|| format!("writing {}", unfinished.display()))?;
        text.clear();
    }
    Ok(fs::rename(&unfinished, path)?)
}

/// Removes the least recently used files until the rest fits.
fn make_room(directory: &Path, limit: u64) -> Result<()> {
    let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(directory)? {
        let (path, facts) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
        files.push((facts.accessed().or(facts.modified())?, facts.len(), path));
    }
    files.sort();
    let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
    for (_, bytes, path) in files {
        if total <= limit {
            break;
        }
        fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
        total -= bytes;
    }
    Ok(())
}

fn cut(file: File, lines_per_body: u64) -> Result<Vec<Body>> {
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut buffer = vec![0; 1 << 20];
    let mut bodies = Vec::new();
    let mut body = Body {
        start: 0,
        length: 0,
        lines: 0,
    };
    loop {
        let count = reader.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        let mut done = 0;
        for end in newlines(&buffer[..count]) {
            body.lines += 1;
            if body.lines == lines_per_body {
                body.length += (end + 1 - done) as u64;
                done = end + 1;
                bodies.push(body);
                body = Body {
                    start: body.start + body.length,
                    length: 0,
                    lines: 0,
                };
            }
        }
        body.length += (count - done) as u64;
    }
    bodies.extend((body.lines > 0).then_some(body));
    Ok(bodies)
}

fn newlines(bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
    bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bodies_cover_the_file_without_gaps() {
        let directory = tempfile::tempdir().unwrap();
        let workload = Workload::named('b').unwrap().scaled(0.0005);
        let dataset = Dataset::prepare(directory.path(), &workload, 2, 999).unwrap();
        let bodies = || dataset.agents.iter().flat_map(|agent| &agent.bodies);
        assert_eq!(
            bodies().map(|body| body.lines).sum::<u64>(),
            workload.lines()
        );
        for agent in &dataset.agents {
            let text = fs::read(&agent.path).unwrap();
            let mut at = 0;
            for body in &agent.bodies {
                assert_eq!(body.start, at);
                at += body.length;
                let stretch = &text[body.start as usize..at as usize];
                assert_eq!(stretch.last(), Some(&b'\n'));
                assert_eq!(newlines(stretch).count() as u64, body.lines);
            }
            assert_eq!(at as usize, text.len());
        }
    }

    #[test]
    fn the_least_recently_used_file_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        for (name, age) in [("old", 3), ("older", 9), ("new", 1)] {
            let file = File::create(directory.path().join(name)).unwrap();
            file.set_len(100).unwrap();
            let time = SystemTime::now() - std::time::Duration::from_secs(age * 1000);
            file.set_times(FileTimes::new().set_accessed(time).set_modified(time))
                .unwrap();
        }
        make_room(directory.path(), 250).unwrap();
        let left: Vec<_> = fs::read_dir(directory.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(left.len(), 2);
        assert!(!left.contains(&"older".into()));
    }
}
