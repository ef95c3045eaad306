//! Jars of Cassandra, fetched once by Maven.

use super::{LocalError, VERSION};
use seiner_platform::Clock;
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Project for Maven, whose only purpose is its one dependency.
const PROJECT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>seiner</groupId>
  <artifactId>cassandra-jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.cassandra</groupId>
      <artifactId>cassandra-all</artifactId>
      <version>@VERSION@</version>
    </dependency>
  </dependencies>
</project>
"#;
/// Goal of Maven that copies the jars of all dependencies to a folder.
const GOAL: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";
/// Lines of Maven's output that an error repeats.
const SHOWN_LINES: usize = 12;

/// Returns the usual folder of the jars: `$XDG_CACHE_HOME/seiner/cassandra-5.0.9`, or the same in `~/.cache`.
pub fn default_cache() -> PathBuf {
    let named = |name| env::var_os(name).filter(|value| !value.is_empty());
    let folder = named("XDG_CACHE_HOME").map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(named("HOME")?).join(".cache")));
    let folder = folder.unwrap_or_else(env::temp_dir);
    folder.join(format!("seiner/cassandra-{VERSION}"))
}

/// Returns true if a folder contains the jars. The folder gets its name when it is complete.
pub(crate) fn are_there(cache: &Path) -> bool {
    cache.join(format!("cassandra-all-{VERSION}.jar")).is_file()
}

/// Fetches the jars if they are missing, and returns their folder. Only one process fetches; the others wait.
pub(crate) fn fetch(cache: &Path, clock: &dyn Clock) -> Result<PathBuf, LocalError> {
    if are_there(cache) {
        return Ok(cache.to_path_buf());
    }
    let what = |what: &str| LocalError::io(format!("{what} {}", cache.display()));
    let beside = |end: &str| {
        let mut name = cache.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    if let Some(parent) = cache.parent() {
        fs::create_dir_all(parent).map_err(what("cannot create the folder of"))?;
    }
    let lock = File::create(beside(".lock")).map_err(what("cannot lock"))?;
    lock.lock().map_err(what("cannot lock"))?;
    if are_there(cache) {
        return Ok(cache.to_path_buf());
    }
    let began = clock.monotonic();
    tracing::info!(
        "fetching Cassandra {VERSION}, 70 MB, to {}",
        cache.display()
    );
    let part = beside(".part");
    if part.exists() {
        fs::remove_dir_all(&part).map_err(what("cannot remove an incomplete"))?;
    }
    fs::create_dir(&part).map_err(what("cannot create"))?;
    run_maven(&part)?;
    if !are_there(&part) {
        let text = "it succeeded, but the jar of Cassandra is missing; remove Maven's repository ~/.m2, and try again";
        return Err(LocalError::Fetch(text.to_string()));
    }
    if cache.exists() {
        fs::remove_dir_all(cache).map_err(what("cannot remove an incomplete"))?;
    }
    fs::rename(&part, cache).map_err(what("cannot name"))?;
    tracing::info!(
        "fetched in {} s",
        (clock.monotonic() - began) / 1_000_000_000
    );
    Ok(cache.to_path_buf())
}

fn run_maven(folder: &Path) -> Result<(), LocalError> {
    let project = folder.join("pom.xml");
    fs::write(&project, PROJECT.replace("@VERSION@", VERSION)).map_err(LocalError::io(format!(
        "cannot write {}",
        project.display()
    )))?;
    let output = Command::new("mvn")
        .args(["--batch-mode", "--quiet", "--file"])
        .arg(&project)
        .arg(GOAL)
        .arg("-DincludeScope=runtime")
        .arg(format!("-DoutputDirectory={}", folder.display()))
        .stdin(Stdio::null())
        .output()
        .map_err(LocalError::io("the program mvn does not run"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    let shown = &lines[..lines.len().min(SHOWN_LINES)];
    Err(LocalError::Fetch(shown.join("\n")))
}
