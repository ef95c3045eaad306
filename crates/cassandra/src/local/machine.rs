//! Requirements of a local cluster: Java, Maven, memory.

use super::{Options, VERSION, jars};
use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Oldest version of Java that runs the nodes.
const OLDEST_JAVA: u32 = 17;
/// First version of Java that does not run the nodes: it has no security manager any more.
const TOO_NEW_JAVA: u32 = 24;
/// Memory of a node beside its heap, in MiB.
const BESIDE_HEAP_MIB: u64 = 400;

/// Checks the machine. Returns the program `java`, or the obstacle and its remedy.
pub(crate) fn obstacle(options: &Options) -> Result<PathBuf, String> {
    let java = java()?;
    if !jars::are_there(&options.cache) && find("mvn").is_none() {
        return Err(format!(
            "Maven is missing (program mvn), which fetches Cassandra {VERSION}. On Debian, as root: apt-get install \
             maven"
        ));
    }
    let needed = options.nodes as u64 * (u64::from(options.heap_mib) + BESIDE_HEAP_MIB);
    match free_mib() {
        Some(free) if free < needed => Err(format!(
            "{} nodes of Cassandra need {needed} MiB of memory, and {free} MiB are free. End other programs, or start \
             fewer nodes",
            options.nodes
        )),
        _ => Ok(java),
    }
}

fn java() -> Result<PathBuf, String> {
    let remedy = "On Debian, as root: apt-get install openjdk-17-jre-headless. Or set JAVA_HOME";
    let home = env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin/java"));
    let home = home.filter(|java| java.is_file());
    let java = home.or_else(|| find("java"));
    let java = java.ok_or_else(|| format!("Java is missing (program java). {remedy}"))?;
    let output = Command::new(&java)
        .arg("-version")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{} does not run: {error}. {remedy}", java.display()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    match java_version(&text) {
        Some(version) if (OLDEST_JAVA..TOO_NEW_JAVA).contains(&version) => Ok(java),
        Some(version) => Err(format!(
            "{} is Java {version}; Cassandra {VERSION} needs Java {OLDEST_JAVA}. {remedy}",
            java.display()
        )),
        None => Err(format!("{} has no version. {remedy}", java.display())),
    }
}

/// Finds the major version in the output of `java -version`, such as `openjdk version "17.0.15" 2025-04-15`.
fn java_version(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once("version \"")?;
    let mut parts = rest.split(|sign: char| !sign.is_ascii_digit());
    match parts.next()?.parse().ok()? {
        // Java 8 is version 1.8.
        1 => parts.next()?.parse().ok(),
        version => Some(version),
    }
}

/// Finds a program in the search path.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    let paths = env::split_paths(&folders).map(|folder| folder.join(program));
    paths.into_iter().find(|path| path.is_file())
}

fn free_mib() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    Some(kib(&text, "MemAvailable:")? / 1024)
}

/// Returns the memory of a process, in bytes.
pub(crate) fn memory_of(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    Some(kib(&text, "VmRSS:")? * 1024)
}

fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_java_are_found() {
        let cases = [
            ("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK", Some(17)),
            ("Picked up X\njava version \"1.8.0_392\"", Some(8)),
            ("openjdk version \"21\" 2023-09-19", Some(21)),
            ("java: not found", None),
        ];
        for (text, version) in cases {
            assert_eq!(java_version(text), version, "{text}");
        }
    }

    #[test]
    fn this_process_uses_memory() {
        assert!(memory_of(std::process::id()).unwrap() > 1 << 18);
        assert!(free_mib().is_some());
        assert!(find("sh").is_some());
        assert_eq!(find("no-such-program"), None);
    }
}
