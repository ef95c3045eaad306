//! A cgroup that limits the memory of this process, page cache included.

use crate::error::{Error, Result, refuse};
use crate::location::{self, Mount};
use crate::registry::{Registry, ResourceGuard};
use crate::resource::{PREFIX, Resource};
use anyhow::Context;
use seiner_chart::bytes;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Minimum limit in bytes. With less memory, the program itself could not run.
pub const LEAST: u64 = 64 << 20;

/// Directory for a new group, and the files of its limits.
struct Home {
    /// Group of this process.
    directory: PathBuf,
    /// Parent of the new group.
    parent: PathBuf,
    /// Files that accept the limit. Missing files are skipped.
    limits: &'static [&'static str],
}

/// A memory limit of this process for the lifetime of the value.
pub struct Limit {
    _guard: ResourceGuard,
}

/// Checks that a limit can be set, by setting one.
///
/// # Errors
/// [`Error::Rejected`] with the reason if it cannot.
pub fn probe(limit: u64, registry: &Arc<Registry>) -> Result<()> {
    Limit::set(limit, registry)
        .map(drop)
        .map_err(|error| match error {
            Error::Interrupted => Error::Interrupted,
            other => Error::Rejected(format!("memory cannot be limited here: {other}")),
        })
}

impl Limit {
    /// Limits the memory of this process from now on.
    ///
    /// # Errors
    /// If the process lacks the privileges, or no memory controller is available.
    pub fn set(limit: u64, registry: &Arc<Registry>) -> Result<Limit> {
        if limit < LEAST {
            return refuse(format!(
                "the memory limit must be at least {}",
                bytes(LEAST as f64)
            ));
        }
        let home = home(
            &fs::read_to_string("/proc/self/cgroup")?,
            &location::mounts()?,
        )?;
        let path = home.parent.join(format!("{PREFIX}{}", std::process::id()));
        let resource = Resource::Group {
            path: path.clone(),
            home: home.directory.clone(),
        };
        let (guard, ()) = registry.create(resource, || {
            fs::create_dir(&path).with_context(|| format!("{} was not made", path.display()))?;
            let mut is_limited = false;
            for name in home.limits {
                let file = path.join(name);
                if file.exists() {
                    fs::write(&file, limit.to_string())
                        .with_context(|| format!("{} did not accept the limit", file.display()))?;
                    is_limited = true;
                }
            }
            if !is_limited {
                return refuse(format!(
                    "{} has no memory controller",
                    home.parent.display()
                ));
            }
            fs::write(path.join("cgroup.procs"), std::process::id().to_string())
                .with_context(|| format!("{} did not accept the process", path.display()))?;
            Ok(())
        })?;
        Ok(Limit { _guard: guard })
    }
}

/// Finds the place for a group: the memory controller of cgroup version 1 or 2.
fn home(own: &str, mounts: &[Mount]) -> Result<Home> {
    let inside = |root: &Path, path: &str| {
        let directory = root.join(path.trim_start_matches('/'));
        // In a container the path may refer to the host.
        if directory.is_dir() {
            directory
        } else {
            root.to_owned()
        }
    };
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        if controllers.split(',').any(|name| name == "memory") {
            let has_memory = |mount: &&Mount| {
                mount.kind == "cgroup" && mount.options.iter().any(|option| option == "memory")
            };
            if let Some(mount) = mounts.iter().find(has_memory) {
                let directory = inside(&mount.point, path);
                let limits = &["memory.limit_in_bytes"];
                return Ok(Home {
                    parent: directory.clone(),
                    directory,
                    limits,
                });
            }
        }
        if controllers.is_empty()
            && let Some(mount) = mounts.iter().find(|mount| mount.kind == "cgroup2")
            && fs::read_to_string(mount.point.join("cgroup.controllers"))
                .is_ok_and(|list| list.contains("memory"))
        {
            let directory = inside(&mount.point, path);
            // A group with processes cannot contain limited groups, so the new group becomes a sibling.
            let parent = if directory == mount.point {
                directory.clone()
            } else {
                directory.parent().unwrap_or(&mount.point).to_owned()
            };
            return Ok(Home {
                directory,
                parent,
                limits: &["memory.max"],
            });
        }
    }
    refuse("no memory controller is mounted")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(kind: &str, option: &str) -> Mount {
        Mount {
            point: "/nowhere/cgroup".into(),
            kind: kind.into(),
            source: "cgroup".into(),
            options: vec!["rw".into(), option.into()],
            number: "0:30".into(),
        }
    }

    #[test]
    fn the_first_version_is_found_by_its_controller() {
        let home = home(
            "5:devices:/\n4:memory:/a/b\n0::/\n",
            &[mount("cgroup", "memory")],
        )
        .unwrap();
        assert_eq!(home.limits, ["memory.limit_in_bytes"]);
        assert_eq!(home.directory, Path::new("/nowhere/cgroup"));
    }

    #[test]
    fn a_group_without_a_controller_is_rejected() {
        assert!(matches!(
            home("0::/\n", &[mount("cgroup2", "")]),
            Err(Error::Rejected(_))
        ));
    }
}
