//! Free space: queries the file system and passes the result to [`crate::space`].

pub(crate) mod memory;

use crate::core::Core;
use crate::error::{Error, io_error};
use crate::jobs::writing::Writing;
use crate::journal::DAMAGED;
use crate::space::on_disk;
use seiner_platform::Disk;
use std::time::Duration;

/// Interval between queries to the file system for its free bytes, and between attempts to free
/// space by all means before writers are rejected, ns.
pub(crate) const QUERY_EVERY: u64 = 1_000_000_000;

/// Counts the bytes of files set aside. These files do not block the store, but count against the
/// budget.
pub(crate) fn count_set_aside(core: &Core, disk: &dyn Disk) -> Result<(), Error> {
    let listing = || "listing what was set aside".to_string();
    let mut aside = 0;
    for name in disk.list().map_err(io_error(listing))? {
        if name.ends_with(DAMAGED) {
            let context = || format!("measuring {name}");
            let file = disk.open(&name).map_err(io_error(context))?;
            let bytes = file.len().map_err(io_error(context))?;
            let allocated = file.allocated().map_err(io_error(context))?;
            aside += on_disk(bytes.max(allocated), disk.unit());
        }
    }
    core.log().space.note_aside(aside);
    Ok(())
}

/// Queries the free bytes of the file system from time to time.
pub(crate) fn query_free_space(core: &Core, writing: &mut Writing) -> Result<(), Error> {
    let now = core.clock.monotonic();
    if writing
        .space
        .queried
        .is_some_and(|queried| now - queried < QUERY_EVERY)
    {
        return Ok(());
    }
    writing.space.queried = Some(now);
    let free = writing.space.disk().free().map_err(io_error(|| {
        "querying the free bytes of the file system".to_string()
    }))?;
    let (head, mut log) = core.both();
    log.note_free(free, &head.load());
    Ok(())
}

/// Returns whether writers have space, and the delay for which they should wait.
pub(crate) fn headroom(core: &Core) -> (bool, Duration) {
    let (load, staged) = {
        let head = core.head();
        (head.load(), head.staging.bytes() as u64)
    };
    let (has_space, delay) = core.log().charge_writers(&load, staged);
    if has_space {
        core.health.note_space();
    }
    (has_space, delay)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::testing::{World, options};

    #[test]
    fn writers_have_headroom_until_the_disk_is_full() {
        let world = World::new(options());
        assert_eq!(headroom(&world.core), (true, Duration::ZERO));
        let load = world.core.head().load();
        world.core.log().note_free(Some(0), &load);
        assert!(!headroom(&world.core).0);
        // The file system is queried once a second.
        query_free_space(&world.core, &mut world.writing()).unwrap();
        assert!(headroom(&world.core).0);
        world.core.log().note_free(Some(0), &load);
        query_free_space(&world.core, &mut world.writing()).unwrap();
        assert!(!headroom(&world.core).0);
    }
}
