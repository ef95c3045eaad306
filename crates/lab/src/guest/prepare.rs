//! Preparation of a guest. Packages of a distribution are downloaded and unpacked, but not installed.
//! The files that a guest needs are kept.

use super::description::Guest;
use super::modules;
use crate::error::{Result, refuse};
use crate::native::KINDS;
use crate::tool;
use anyhow::{Context, anyhow};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian packages of a kernel and of the `mkfs` programs.
const PACKAGES: [&str; 8] = [
    "linux-image-amd64",
    "e2fsprogs",
    "xfsprogs",
    "btrfs-progs",
    "f2fs-tools",
    "jfsutils",
    "reiserfsprogs",
    "nilfs-tools",
];
/// Programs that every guest needs.
const PROGRAMS: [&str; 3] = ["mount", "umount", "losetup"];

/// Prepares a guest in a directory, from given packages and, with `download`, from the
/// distribution's archive. An existing guest in the directory is replaced at the end.
///
/// # Errors
/// [`Error::Rejected`](crate::Error::Rejected) if a machine cannot be emulated or packages are not
/// available; otherwise the error of the step that failed.
pub fn prepare(
    directory: &Path,
    packages: &[PathBuf],
    download: bool,
    say: &dyn Fn(&str),
) -> Result<Guest> {
    if let Some(why) = super::machine::obstacle() {
        return refuse(why);
    }
    if tool::find("dpkg-deb").is_none() {
        return refuse(
            "the program dpkg-deb, which unpacks the kernel's package, is not installed",
        );
    }
    if packages.is_empty() && !download {
        return refuse("name a kernel's package by --package FILE.deb, or use --download");
    }
    let mut name = directory.as_os_str().to_owned();
    name.push(".new");
    let fresh = PathBuf::from(name);
    if fresh.exists() {
        fs::remove_dir_all(&fresh)?;
    }
    let unpacked = fresh.join("unpacked");
    fs::create_dir_all(&unpacked).with_context(|| format!("{} was not made", fresh.display()))?;
    let mut packages = packages.to_vec();
    if download {
        packages.extend(fetch(&fresh.join("packages"), say)?);
    }
    for package in &packages {
        say(&format!("unpacking {}", package.display()));
        tool::run("dpkg-deb", [Path::new("-x"), package], [unpacked.as_path()])?;
    }
    let made = assemble(&fresh, &unpacked)?;
    for rest in [unpacked, fresh.join("packages")] {
        if rest.exists() {
            fs::remove_dir_all(rest)?;
        }
    }
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    fs::rename(&fresh, directory)?;
    let guest = Guest {
        directory: directory.to_owned(),
        ..made
    };
    guest.write()?;
    Ok(guest)
}

/// Downloads a kernel, and the programs and libraries that are not installed here.
fn fetch(into: &Path, say: &dyn Fn(&str)) -> Result<Vec<PathBuf>> {
    let Some(apt) = tool::find("apt-get") else {
        return refuse(
            "apt-get, which downloads packages, is not installed: name them by --package",
        );
    };
    fs::create_dir_all(into)?;
    let listed = Command::new(&apt)
        .args([
            "install",
            "--print-uris",
            "-y",
            "-qq",
            "--no-install-recommends",
        ])
        .args(PACKAGES)
        .env("LC_ALL", "C")
        .output()
        .context("apt-get did not start")?;
    if !listed.status.success() {
        return refuse(format!(
            "apt-get lists no kernel to download: {}",
            String::from_utf8_lossy(&listed.stderr).trim()
        ));
    }
    let names = needed(&String::from_utf8_lossy(&listed.stdout));
    say(&format!("downloading {}", names.join(", ")));
    let fetched = Command::new(apt)
        .args(["download", "-qq"])
        .args(&names)
        .current_dir(into)
        .output()
        .context("apt-get did not start")?;
    if !fetched.status.success() {
        return Err(anyhow!(
            "apt-get download failed: {}",
            String::from_utf8_lossy(&fetched.stderr).trim()
        )
        .into());
    }
    let files = fs::read_dir(into)?.map(|entry| Ok(entry?.path()));
    Ok(files.collect::<std::io::Result<_>>()?)
}

/// Selects the packages that a guest needs (kernel, tools, libraries) from the packages that apt-get
/// would install. Input lines have the form `'http://…' NAME_VERSION_ARCHITECTURE.deb SIZE SUM`.
fn needed(listed: &str) -> Vec<String> {
    let names = listed.lines().filter_map(|line| {
        let file = line.split_whitespace().nth(1)?;
        Some(file.split_once('_')?.0.to_string())
    });
    names
        .filter(|name| {
            let is_kernel = name
                .strip_prefix("linux-image-")
                .is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()));
            is_kernel || name.starts_with("lib") || PACKAGES[1..].contains(&name.as_str())
        })
        .collect()
}

/// Copies the kernel, programs, libraries and modules to the directory from which the archive is made.
fn assemble(fresh: &Path, unpacked: &Path) -> Result<Guest> {
    let root = fresh.join("root");
    let (kernel, image) = newest_kernel(unpacked)?;
    fs::copy(&image, fresh.join("vmlinuz"))?;
    let tree = ["lib/modules", "usr/lib/modules"]
        .map(|path| unpacked.join(path).join(&kernel))
        .into_iter()
        .find(|path| path.is_dir())
        .ok_or_else(|| anyhow!("the package of {kernel} has no modules"))?;
    let found = modules::found(&tree)?;
    let builtin = fs::read_to_string(tree.join("modules.builtin")).unwrap_or_default();
    let search = library_directories(unpacked)?;
    for program in PROGRAMS {
        add_program(program, unpacked, &search, &root)?;
    }
    let mut systems = BTreeMap::new();
    for kind in KINDS.iter().filter(|kind| **kind != "ufs") {
        let ready = modules::ordered(&modules::wanted(kind), &found, &builtin)
            .and_then(|order| {
                add_program(&format!("mkfs.{kind}"), unpacked, &search, &root)?;
                add_modules(&order, &found, &root)?;
                Ok(order)
            })
            .map_err(|error| format!("{error:#}"));
        systems.insert((*kind).to_string(), ready);
    }
    let settings = "etc/mke2fs.conf";
    let places = [unpacked.join(settings), Path::new("/").join(settings)];
    if let Some(file) = places.iter().find(|file| file.exists()) {
        put(file, &root.join(settings))?;
    }
    Ok(Guest {
        directory: fresh.to_owned(),
        kernel,
        systems,
    })
}

/// Returns the release and the file of the kernel in the unpacked packages. If there are several
/// kernels, the last by name is chosen.
fn newest_kernel(unpacked: &Path) -> Result<(String, PathBuf)> {
    let mut kernels: Vec<(String, PathBuf)> = fs::read_dir(unpacked.join("boot"))
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let release = path.file_name()?.to_str()?.strip_prefix("vmlinuz-")?;
            Some((release.to_string(), path))
        })
        .collect();
    kernels.sort();
    match kernels.pop() {
        Some(kernel) => Ok(kernel),
        None => refuse("no package contains a kernel (boot/vmlinuz-*); name one by --package"),
    }
}

/// Directories of the unpacked packages that contain shared libraries.
fn library_directories(unpacked: &Path) -> Result<Vec<PathBuf>> {
    let mut directories = Vec::new();
    for above in [
        "lib",
        "usr/lib",
        "lib/x86_64-linux-gnu",
        "usr/lib/x86_64-linux-gnu",
    ] {
        let directory = unpacked.join(above);
        if directory.is_dir() {
            directories.push(directory);
        }
    }
    Ok(directories)
}

/// Copies a program and its libraries, from the unpacked packages or otherwise from this system.
fn add_program(name: &str, unpacked: &Path, search: &[PathBuf], root: &Path) -> anyhow::Result<()> {
    let own = ["sbin", "usr/sbin", "bin", "usr/bin"]
        .map(|directory| unpacked.join(directory).join(name))
        .into_iter()
        .find(|path| path.is_file());
    let program = own
        .or_else(|| tool::find(name))
        .ok_or_else(|| anyhow!("the program {name} is neither installed nor in a package"))?;
    for library in modules::libraries(&program, search)? {
        // Unpacked libraries go to the directories in which the loader looks for installed ones.
        let inside = library.strip_prefix(unpacked).unwrap_or(&library);
        put(
            &library,
            &root.join(inside.strip_prefix("/").unwrap_or(inside)),
        )?;
    }
    put(&program, &root.join("sbin").join(name))
}

fn add_modules(
    order: &[String],
    found: &BTreeMap<String, PathBuf>,
    root: &Path,
) -> anyhow::Result<()> {
    let directory = root.join(super::inside::MODULES.trim_start_matches('/'));
    fs::create_dir_all(&directory)?;
    for name in order {
        fs::write(
            directory.join(format!("{name}.ko")),
            modules::read(&found[name])?,
        )?;
    }
    Ok(())
}

fn put(from: &Path, to: &Path) -> anyhow::Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::copy(from, to).with_context(|| format!("{} was not copied", from.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kernel_tools_and_libraries_are_downloaded() {
        let listed = "'http://x/a.deb' linux-image-6.1.0-56-amd64_6.1_amd64.deb 7 MD5:0\n\
                      'http://x/b.deb' linux-image-amd64_6.1_amd64.deb 7 MD5:0\n\
                      'http://x/c.deb' libinih1_55-1_amd64.deb 7 MD5:0\n\
                      'http://x/d.deb' systemd_252_amd64.deb 7 MD5:0\n\
                      'http://x/e.deb' jfsutils_1.1.15-5_amd64.deb 7 MD5:0\n";
        assert_eq!(
            needed(listed),
            ["linux-image-6.1.0-56-amd64", "libinih1", "jfsutils"]
        );
    }

    #[test]
    fn no_guest_is_created_without_packages() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("guest");
        let done = prepare(&directory, &[], false, &|_| {});
        assert!(matches!(done, Err(crate::Error::Rejected(_))));
        assert!(fs::read_dir(home.path()).unwrap().next().is_none());
    }
}
