//! File systems made for a run: an image file, a loop device on it, a fresh file system, mounted.

use crate::error::{Result, refuse};
use crate::place::Device;
use crate::registry::{Claim, Registry, Resource};
use crate::tool;
use anyhow::Context;
use rustix::fs::FallocateFlags;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file systems of the papers, and what is known of making them.
pub const KINDS: [&str; 10] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "jfs", "reiserfs", "nilfs2", "ufs",
];

/// Why nobody has UFS.
const NO_UFS: &str =
    "Linux only reads it: there is no writable driver, and SoftUpdates exist in BSD alone";

/// Why a file system can be had nowhere; nothing if it can.
pub fn obstacle_everywhere(kind: &str) -> Option<String> {
    if !KINDS.contains(&kind) {
        return Some(format!(
            "unknown file system; known are {}",
            KINDS.join(", ")
        ));
    }
    (kind == "ufs").then(|| NO_UFS.to_string())
}

/// Why a file system cannot be made and mounted here; nothing if it can.
pub fn obstacle(kind: &str) -> Option<String> {
    if let Some(why) = obstacle_everywhere(kind) {
        return Some(why);
    }
    if !rustix::process::geteuid().is_root() {
        return Some("making and mounting a file system takes root".to_string());
    }
    let maker = format!("mkfs.{kind}");
    for program in [maker.as_str(), "losetup", "mount", "umount"] {
        if tool::find(program).is_none() {
            return Some(format!("the program {program} is not installed"));
        }
    }
    if !kernel_has(kind) {
        return Some(format!(
            "this kernel has no {kind}, neither built in nor as a module"
        ));
    }
    None
}

fn kernel_has(kind: &str) -> bool {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if known
        .lines()
        .any(|line| line.split_whitespace().last() == Some(kind))
    {
        return true;
    }
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let modules = Path::new("/lib/modules")
        .join(kernel.trim())
        .join("modules.dep");
    let modules = fs::read_to_string(modules).unwrap_or_default();
    modules.lines().any(|line| {
        line.split(':')
            .next()
            .is_some_and(|name| name.contains(&format!("/{kind}.ko")))
    })
}

/// What a file system is made like.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// One of [`KINDS`].
    pub kind: String,
    /// Options of the mount, apart by commas; may be empty.
    pub options: String,
    /// The bytes of the image.
    pub bytes: u64,
    /// Files that must fit, where the file system has a fixed number.
    pub inodes: u64,
    /// Where in the image it begins, bytes.
    pub offset: u64,
}

/// A loop device on an image of the lab's own.
pub struct LoopDevice {
    /// What the kernel says of it.
    pub device: Device,
    _claims: Claims,
}

/// Undone from the last to the first.
#[derive(Default)]
pub struct Claims(pub Vec<Claim>);

impl Drop for Claims {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

impl LoopDevice {
    /// Puts a loop device on a file.
    ///
    /// # Errors
    /// When the system refuses, for example in a container.
    pub fn attach(file: &Path, offset: u64, registry: &Arc<Registry>) -> Result<LoopDevice> {
        let resource = Resource::Loop {
            file: file.to_owned(),
        };
        let (claim, node) = registry.create(resource, || {
            let offset = offset.to_string();
            // A disk in memory cannot be had around the page cache, and need not be.
            let direct = match registry.medium() {
                Some(_) => "--direct-io=off",
                None => "--direct-io=on",
            };
            let arguments = ["--find", "--show", direct, "-o", &offset].map(Path::new);
            Ok(tool::run("losetup", arguments, [file])?)
        })?;
        let claims = Claims(vec![claim]);
        Ok(LoopDevice {
            device: Device::of_node(node.trim())?,
            _claims: claims,
        })
    }

    /// Its node.
    pub fn node(&self) -> PathBuf {
        Path::new("/dev").join(&self.device.name)
    }
}

/// Makes a file system on a device.
///
/// # Errors
/// When its program fails.
pub fn make(node: &Path, recipe: &Recipe) -> Result<()> {
    let inodes = recipe.inodes.to_string();
    let arguments: Vec<&str> = match recipe.kind.as_str() {
        "ext2" => vec!["-q", "-F", "-N", &inodes, "-E", "lazy_itable_init=0"],
        "ext3" | "ext4" => vec![
            "-q",
            "-F",
            "-N",
            &inodes,
            "-E",
            "lazy_itable_init=0,lazy_journal_init=0",
        ],
        "jfs" => vec!["-q"],
        _ => vec!["-q", "-f"],
    };
    tool::run(
        &format!("mkfs.{}", recipe.kind),
        arguments.into_iter().map(Path::new),
        [node],
    )?;
    Ok(())
}

/// A mounted file system.
pub struct Mounted {
    node: PathBuf,
    point: PathBuf,
    recipe: Recipe,
    registry: Arc<Registry>,
    claim: Option<Claim>,
}

impl Mounted {
    /// Mounts what is on a device.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn mount(
        node: &Path,
        point: &Path,
        recipe: &Recipe,
        registry: &Arc<Registry>,
    ) -> Result<Mounted> {
        let mut mounted = Mounted {
            node: node.to_owned(),
            point: point.to_owned(),
            recipe: recipe.clone(),
            registry: registry.clone(),
            claim: None,
        };
        mounted.mount_again()?;
        Ok(mounted)
    }

    /// Mounts it again.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn mount_again(&mut self) -> Result<()> {
        let resource = Resource::Mount {
            path: self.point.clone(),
        };
        let (claim, ()) = self.registry.create(resource, || {
            let options = match self.recipe.options.as_str() {
                "" => "defaults",
                options => options,
            };
            let arguments = ["-t", &self.recipe.kind, "-o", options].map(Path::new);
            tool::run(
                "mount",
                arguments,
                [self.node.as_path(), self.point.as_path()],
            )?;
            Ok(())
        })?;
        self.claim = Some(claim);
        Ok(())
    }

    /// Unmounts it: everything is on the device then.
    ///
    /// # Errors
    /// When it stays busy.
    pub fn unmount(&mut self) -> Result<()> {
        self.claim.take().map_or(Ok(()), Claim::release)
    }

    /// Where it is mounted.
    pub fn point(&self) -> &Path {
        &self.point
    }
}

/// A fresh file system on an image of the lab's own. Everything goes when it is dropped.
pub struct Fresh {
    /// The file system; unmounted first.
    pub mounted: Mounted,
    /// The device below.
    pub disk: LoopDevice,
    _claims: Claims,
}

impl Fresh {
    /// Makes and mounts one, with its image in `directory`.
    ///
    /// # Errors
    /// When there is no room, or the system refuses.
    pub fn make(recipe: &Recipe, directory: &Path, registry: &Arc<Registry>) -> Result<Fresh> {
        let (claim, tree) = registry.tree(directory)?;
        let claims = Claims(vec![claim]);
        let image = image(&tree, recipe.bytes + recipe.offset, registry)?;
        let disk = LoopDevice::attach(&image, recipe.offset, registry)?;
        make(&disk.node(), recipe)?;
        let point = tree.join("mounted");
        fs::create_dir(&point)?;
        let mounted = Mounted::mount(&disk.node(), &point, recipe, registry)?;
        Ok(Fresh {
            mounted,
            disk,
            _claims: claims,
        })
    }
}

/// An image whose room is reserved; or the disk that the run was given for it.
pub fn image(tree: &Path, bytes: u64, registry: &Registry) -> Result<PathBuf> {
    if let Some(medium) = registry.medium() {
        return Ok(medium.to_owned());
    }
    let path = tree.join("image");
    let file = File::create(&path).with_context(|| format!("{} was not made", path.display()))?;
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) => {}
        Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(bytes)?,
        Err(rustix::io::Errno::NOSPC) => {
            return refuse(format!(
                "there is no room for an image of {bytes} bytes in {}",
                tree.display()
            ));
        }
        Err(error) => return Err(anyhow::Error::from(error).into()),
    }
    Ok(path)
}

/// Brings everything on the file system of a path to its device.
///
/// # Errors
/// When that fails.
pub fn sync_file_system(path: &Path) -> Result<()> {
    let directory = File::open(path)?;
    rustix::fs::syncfs(&directory).with_context(|| format!("{} was not synced", path.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_told() {
        assert!(obstacle("ufs").unwrap().contains("no writable driver"));
        assert!(obstacle("zfs").unwrap().contains("known are"));
    }
}
