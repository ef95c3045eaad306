//! Dependencies of programs and of kernel modules.

use crate::tool;
use anyhow::{Context, anyhow};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the modules that a file system needs. The list includes the checksums and hashes that the
/// file system requests by name at run time, because a guest has no `modprobe` to load them then.
pub fn wanted(kind: &str) -> Vec<&'static str> {
    let mut wanted = vec!["loop", "crc32c_generic"];
    wanted.extend(match kind {
        "ext2" | "ext3" | "ext4" => vec!["ext4"],
        "xfs" => vec!["xfs"],
        "btrfs" => vec![
            "xxhash_generic",
            "blake2b_generic",
            "sha256_generic",
            "btrfs",
        ],
        "f2fs" => vec!["crc32_generic", "f2fs"],
        "jfs" => vec!["jfs"],
        "reiserfs" => vec!["reiserfs"],
        "nilfs2" => vec!["nilfs2"],
        _ => Vec::new(),
    });
    wanted
}

/// Returns all modules below a directory, by name. `-` becomes `_`, because the kernel treats both
/// as equal.
///
/// # Errors
/// A directory cannot be read.
pub fn found(root: &Path) -> anyhow::Result<BTreeMap<String, PathBuf>> {
    let mut modules = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let path = entry?.path();
            if path.is_dir() {
                left.push(path);
                continue;
            }
            let name = path.file_name().and_then(|name| name.to_str());
            if let Some((stem, _)) = name.and_then(|name| name.split_once(".ko")) {
                modules.insert(stem.replace('-', "_"), path);
            }
        }
    }
    Ok(modules)
}

/// Reads a module and decompresses it if necessary.
///
/// # Errors
/// The module cannot be read, or its decompressor is missing or fails.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let packed_by = match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => return Ok(std::fs::read(path)?),
    };
    let program = tool::find(packed_by).ok_or_else(|| {
        anyhow!("the program {packed_by}, which unpacks modules, is not installed")
    })?;
    let output = Command::new(program).arg("-dc").arg(path).output()?;
    anyhow::ensure!(
        output.status.success(),
        "{} was not unpacked",
        path.display()
    );
    Ok(output.stdout)
}

/// Returns module names in loading order: each after its dependencies. Built-in modules are left
/// out.
///
/// # Errors
/// A module is missing and not built in (the error contains its name), or a module cannot be read.
pub fn ordered(
    wanted: &[&str],
    found: &BTreeMap<String, PathBuf>,
    builtin: &str,
) -> anyhow::Result<Vec<String>> {
    let mut order = Vec::new();
    for name in wanted {
        visit(name, found, builtin, &mut order)?;
    }
    Ok(order)
}

fn visit(
    name: &str,
    found: &BTreeMap<String, PathBuf>,
    builtin: &str,
    order: &mut Vec<String>,
) -> anyhow::Result<()> {
    let name = name.replace('-', "_");
    if order.contains(&name) {
        return Ok(());
    }
    let Some(path) = found.get(&name) else {
        let is_builtin = builtin.lines().any(|line| {
            let file = line.rsplit('/').next().unwrap_or_default();
            file.trim_end_matches(".ko").replace('-', "_") == name
        });
        return match is_builtin {
            true => Ok(()),
            false => Err(anyhow!("the guest's kernel has no {name}")),
        };
    };
    for other in depends(&read(path)?) {
        visit(&other, found, builtin, order)?;
    }
    order.push(name);
    Ok(())
}

/// Dependencies of a module, from the entry `depends=` of its section `.modinfo`.
fn depends(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(start) = module.windows(KEY.len()).position(|bytes| bytes == KEY) else {
        return Vec::new();
    };
    let text = &module[start + KEY.len()..];
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(0);
    let names = String::from_utf8_lossy(&text[..end]).into_owned();
    names
        .split(',')
        .filter(|name| !name.is_empty())
        .map(str::to_string)
        .collect()
}

/// Returns the shared libraries of a program, with the loader, as absolute paths.
///
/// # Errors
/// `ldd` is missing or fails to start, or a library is missing.
pub fn libraries(program: &Path, search: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let ldd = tool::find("ldd").ok_or_else(|| anyhow!("the program ldd is not installed"))?;
    let output = Command::new(ldd)
        .arg(program)
        .env("LD_LIBRARY_PATH", std::env::join_paths(search)?)
        .output()
        .context("ldd did not start")?;
    listed(&String::from_utf8_lossy(&output.stdout))
        .with_context(|| format!("libraries of {}", program.display()))
}

/// Parses the output of `ldd`: `libc.so.6 => /lib/libc.so.6 (0x…)`, `/lib64/ld-linux.so.2 (0x…)`.
fn listed(text: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if line.contains("not found") {
            return Err(anyhow!("{line}"));
        }
        let path = line.split_once("=> ").map_or(line, |(_, path)| path);
        let path = path.split(" (").next().unwrap_or_default();
        if path.starts_with('/') {
            paths.push(PathBuf::from(path));
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read_from_a_module() {
        let module = b"\x7fELF..\0license=GPL\0depends=mbcache,jbd2\0name=ext4\0";
        assert_eq!(depends(module), ["mbcache", "jbd2"]);
        assert!(depends(b"\0depends=\0").is_empty());
        assert!(depends(b"nothing").is_empty());
    }

    #[test]
    fn modules_are_ordered_after_their_dependencies() {
        let home = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &[u8]| {
            std::fs::write(home.path().join(name), text).unwrap();
        };
        put("ext4.ko", b"\0depends=jbd2,crc16\0");
        put("jbd2.ko", b"\0depends=\0");
        put("virtio-blk.ko", b"\0depends=\0");
        let found = found(home.path()).unwrap();
        let order = ordered(&["virtio_blk", "ext4"], &found, "kernel/lib/crc16.ko\n").unwrap();
        assert_eq!(order, ["virtio_blk", "jbd2", "ext4"]);
        let missing = ordered(&["xfs"], &found, "").unwrap_err();
        assert!(missing.to_string().contains("no xfs"));
    }

    #[test]
    fn libraries_as_ldd_lists_them() {
        let text = "\tlinux-vdso.so.1 (0x00007ff)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x00007f)\n\t/lib64/ld.so.2 (0x7)\n";
        assert_eq!(
            listed(text).unwrap(),
            [PathBuf::from("/lib/x/libc.so.6"), "/lib64/ld.so.2".into()]
        );
        assert!(listed("\tlibz.so.1 => not found\n").is_err());
        assert!(listed("\tstatically linked\n").unwrap().is_empty());
    }
}
