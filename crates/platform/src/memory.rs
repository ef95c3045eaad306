//! Limits of the memory that the allocator keeps after it was freed, and the memory that a process may use.
//!
//! The C library of Linux (glibc) keeps freed memory in arenas per thread, and does not return memory below a
//! block that is still in use. A program with a bound on its memory must limit both. On other platforms the
//! functions of this module do nothing.

/// Returns the bytes of memory that this process may use: the memory of the machine, or the smallest limit of the
/// process's control groups if that is less. `None` if the system states neither.
pub fn usable() -> Option<u64> {
    usable_by(|file| std::fs::read_to_string(file).ok())
}

/// Returns the result of [`usable`] for given contents of the system's files: `/proc/meminfo`,
/// `/proc/self/cgroup`, and the limits of control groups (versions 1 and 2) below `/sys/fs/cgroup`.
pub fn usable_by(read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let machine = read("/proc/meminfo").and_then(|text| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"))?;
        let kibibytes = line.trim().strip_suffix("kB")?;
        kibibytes.trim().parse::<u64>().ok()?.checked_mul(1024)
    });
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    let limits = groups.lines().filter_map(|line| {
        // Number, controllers and path, separated by colons. Version 2 has no controllers in this list.
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            list if list.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        // The limit of a group holds for the groups in it. In a container, the path may be that of the host. The
        // limit is then at the root.
        let folders = path.trim_end_matches('/').match_indices('/');
        let ends = folders
            .map(|(end, _)| end)
            .chain([path.trim_end_matches('/').len()]);
        let limit = |end: usize| {
            let text = read(&format!("{root}{}/{file}", &path[..end]))?;
            text.trim().parse::<u64>().ok()
        };
        ends.filter_map(limit).min()
    });
    limits.chain(machine).min()
}

/// Size in bytes from which an allocation gets its own mapping, which is unmapped when it is freed. Tables that
/// grow with the number of sources exceed this size; buffers of single requests and segments do not.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_FROM: i32 = 4 << 20;
/// Number of free bytes at the end of an arena above which they are returned to the system.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const TRIM_FROM: i32 = 8 << 20;
/// Maximum number of arenas, shared by all threads. A thread cannot use memory that is free in an arena of
/// another thread.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENAS: i32 = 2;

/// Limits the memory that the allocator keeps. Programs call this function once at start.
pub fn bound_allocator() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (parameter, value) in [
        (libc::M_ARENA_MAX, ARENAS),
        (libc::M_MMAP_THRESHOLD, MAPPED_FROM),
        (libc::M_TRIM_THRESHOLD, TRIM_FROM),
    ] {
        // SAFETY: `mallopt` sets one number. Other threads may allocate at the same time.
        #[allow(unsafe_code)]
        unsafe {
            libc::mallopt(parameter, value);
        }
    }
}

/// Returns all free pages of the allocator to the system. Takes some milliseconds per gigabyte, so call it
/// after much memory was freed.
pub fn trim_allocator() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: `malloc_trim` takes the allocator's own locks and touches only free memory.
    #[allow(unsafe_code)]
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usable_with(files: &[(&str, &str)]) -> Option<u64> {
        usable_by(|file| {
            let found = files.iter().find(|(name, _)| *name == file);
            found.map(|(_, text)| text.to_string())
        })
    }

    const MACHINE: (&str, &str) = (
        "/proc/meminfo",
        "MemTotal:       16384000 kB\nMemFree:         1000000 kB\n",
    );
    const MACHINE_BYTES: u64 = 16_384_000 * 1024;

    #[test]
    fn a_machine_without_limits_is_usable_as_a_whole() {
        assert_eq!(usable_with(&[]), None);
        assert_eq!(usable_with(&[MACHINE]), Some(MACHINE_BYTES));
        let group = ("/proc/self/cgroup", "0::/user.slice/app\n");
        let none = ("/sys/fs/cgroup/user.slice/app/memory.max", "max\n");
        assert_eq!(usable_with(&[MACHINE, group, none]), Some(MACHINE_BYTES));
    }

    #[test]
    fn the_least_limit_of_all_groups_counts() {
        let group = ("/proc/self/cgroup", "0::/user.slice/app\n");
        let own = ("/sys/fs/cgroup/user.slice/app/memory.max", "3000000000\n");
        let outer = ("/sys/fs/cgroup/user.slice/memory.max", "2000000000\n");
        assert_eq!(usable_with(&[MACHINE, group, own]), Some(3_000_000_000));
        let both = [MACHINE, group, own, outer];
        assert_eq!(usable_with(&both), Some(2_000_000_000));
        // The root of a container. Its path is that of the host, or empty.
        let root = ("/sys/fs/cgroup/memory.max", "1000000000\n");
        assert_eq!(usable_with(&[MACHINE, group, root]), Some(1_000_000_000));
        let inside = ("/proc/self/cgroup", "0::/\n");
        assert_eq!(usable_with(&[MACHINE, inside, root]), Some(1_000_000_000));
        let more = ("/sys/fs/cgroup/memory.max", "99000000000000\n");
        assert_eq!(usable_with(&[MACHINE, inside, more]), Some(MACHINE_BYTES));
    }

    #[test]
    fn groups_of_version_1_are_found_by_their_controller() {
        let group = (
            "/proc/self/cgroup",
            "9:cpu,cpuacct:/c\n4:memory:/docker/a\n0::/\n",
        );
        let limit = (
            "/sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes",
            "536870912\n",
        );
        let other = ("/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "1\n");
        assert_eq!(
            usable_with(&[MACHINE, group, limit, other]),
            Some(512 << 20)
        );
        let none = (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712\n",
        );
        assert_eq!(usable_with(&[MACHINE, group, none]), Some(MACHINE_BYTES));
    }
}
