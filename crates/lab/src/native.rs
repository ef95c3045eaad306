//! File systems made for a run: an image file, a loop device on it, a new file system, mounted.

use crate::error::{Result, refuse};
use crate::location::Device;
use crate::registry::{Registry, ResourceGuard};
use crate::resource::Resource;
use crate::tool;
use anyhow::Context;
use rustix::fs::FallocateFlags;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// File systems that the lab can make, and `ufs`, which only the papers measured.
pub const KINDS: [&str; 10] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "jfs", "reiserfs", "nilfs2", "ufs",
];

/// Reason why UFS is not available.
const NO_UFS: &str =
    "Linux can only read it: there is no writable driver, and SoftUpdates exist only in BSD";

/// Returns the reason why no backend supports a file system; `None` if some backend supports it.
pub fn obstacle_everywhere(kind: &str) -> Option<String> {
    if !KINDS.contains(&kind) {
        return Some(format!(
            "unknown file system; known are {}",
            KINDS.join(", ")
        ));
    }
    (kind == "ufs").then(|| NO_UFS.to_string())
}

/// Returns the reason why a file system cannot be made and mounted on this machine; `None` if it
/// can.
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

/// Parameters of a new file system.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Type: one of [`KINDS`].
    pub kind: String,
    /// Mount options, separated by commas; may be empty.
    pub options: String,
    /// Bytes of the file system.
    pub bytes: u64,
    /// Number of files that must fit, for file systems with a fixed number of inodes.
    pub inodes: u64,
    /// Offset of the file system in the image, bytes.
    pub offset: u64,
}

/// A loop device on an image file. Dropping it detaches the device.
pub struct LoopDevice {
    /// Properties of the device.
    pub device: Device,
    _guards: ResourceGuards,
}

/// Guards that are released in reverse order.
#[derive(Default)]
pub struct ResourceGuards(pub Vec<ResourceGuard>);

impl Drop for ResourceGuards {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

impl LoopDevice {
    /// Attaches a loop device to a file.
    ///
    /// # Errors
    /// The system does not permit it, for example in a container.
    pub fn attach(file: &Path, offset: u64, registry: &Arc<Registry>) -> Result<LoopDevice> {
        let resource = Resource::Loop {
            file: file.to_owned(),
        };
        let (guard, node) = registry.create(resource, || {
            let offset = offset.to_string();
            // A disk in memory does not support direct I/O and does not need it.
            let direct = match registry.medium() {
                Some(_) => "--direct-io=off",
                None => "--direct-io=on",
            };
            let arguments = ["--find", "--show", direct, "-o", &offset].map(Path::new);
            Ok(tool::run("losetup", arguments, [file])?)
        })?;
        let guards = ResourceGuards(vec![guard]);
        Ok(LoopDevice {
            device: Device::of_node(node.trim())?,
            _guards: guards,
        })
    }

    /// Path of the device node.
    pub fn node(&self) -> PathBuf {
        Path::new("/dev").join(&self.device.name)
    }
}

/// Makes a file system on a device.
///
/// # Errors
/// The `mkfs` program is missing or fails.
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
    guard: Option<ResourceGuard>,
}

impl Mounted {
    /// Mounts the file system of a device.
    ///
    /// # Errors
    /// The system does not permit it.
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
            guard: None,
        };
        mounted.mount_again()?;
        Ok(mounted)
    }

    /// Mounts the file system again.
    ///
    /// # Errors
    /// The system does not permit it.
    pub fn mount_again(&mut self) -> Result<()> {
        let resource = Resource::Mount {
            path: self.point.clone(),
        };
        let (guard, ()) = self.registry.create(resource, || {
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
        self.guard = Some(guard);
        Ok(())
    }

    /// Unmounts the file system. All its data is then on the device.
    ///
    /// # Errors
    /// The file system stays busy.
    pub fn unmount(&mut self) -> Result<()> {
        self.guard.take().map_or(Ok(()), ResourceGuard::release)
    }

    /// Mount point.
    pub fn point(&self) -> &Path {
        &self.point
    }
}

/// A new file system on an image file. Dropping it removes everything.
pub struct Fresh {
    /// The mounted file system. As the first field it is dropped first, which unmounts it.
    pub mounted: Mounted,
    /// Device below the file system.
    pub disk: LoopDevice,
    _guards: ResourceGuards,
}

impl Fresh {
    /// Makes and mounts a file system, with its image in `directory`.
    ///
    /// # Errors
    /// There is not enough space, or the system does not permit it.
    pub fn make(recipe: &Recipe, directory: &Path, registry: &Arc<Registry>) -> Result<Fresh> {
        let (guard, tree) = registry.tree(directory)?;
        let guards = ResourceGuards(vec![guard]);
        let image = image(&tree, recipe.bytes + recipe.offset, registry)?;
        let disk = LoopDevice::attach(&image, recipe.offset, registry)?;
        make(&disk.node(), recipe)?;
        let point = tree.join("mounted");
        fs::create_dir(&point)?;
        let mounted = Mounted::mount(&disk.node(), &point, recipe, registry)?;
        Ok(Fresh {
            mounted,
            disk,
            _guards: guards,
        })
    }
}

/// Makes an image file with reserved space, or returns the registry's medium if there is one.
///
/// # Errors
/// There is not enough space, or the file cannot be made.
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
                "there is no space for an image of {bytes} bytes in {}",
                tree.display()
            ));
        }
        Err(error) => return Err(anyhow::Error::from(error).into()),
    }
    Ok(path)
}

/// Syncs the file system that contains a path.
///
/// # Errors
/// The sync fails.
pub fn sync_file_system(path: &Path) -> Result<()> {
    let directory = File::open(path)?;
    rustix::fs::syncfs(&directory).with_context(|| format!("{} was not synced", path.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unavailable_file_systems_are_explained() {
        assert!(obstacle("ufs").unwrap().contains("no writable driver"));
        assert!(obstacle("zfs").unwrap().contains("known are"));
    }
}
