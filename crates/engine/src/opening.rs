//! Opening of a store: its rules, recovery, and the writes of a start.

use crate::closing::flush;
use crate::core::Core;
use crate::error::Error;
use crate::jobs::free::count_set_aside;
use crate::options::Options;
use crate::rules;
use seiner_platform::{Clock, Disk};
use std::sync::Arc;

/// Opens a store without a thread of its own: the caller calls [`Engine::commit`] and
/// [`Engine::step`].
///
/// # Errors
/// As [`Engine::open_directory`]. [`Error::Retention`] if the rules in the options let data expire
/// sooner than the stored rules, unless [`Options::apply_retention`] confirms them.
pub(crate) fn open(
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    options: Options,
) -> Result<Core, Error> {
    let resolved = rules::resolve(&disk, &clock, &options)?;
    let mut engine = Core::recovered(disk.clone(), clock, resolved.options.clone())?;
    if let Some(what) = resolved.damage {
        rules::set_aside(&*disk)?;
        let what = format!("{what}; the classes in the catalog apply; check the other rules");
        let aside = (rules::NAME.to_string(), what);
        engine.recovery.set_aside.push(aside);
    }
    // The file is written before the catalog. After a crash between the two writes, the next start
    // applies the rules in the file.
    if resolved.is_new {
        rules::store(&*disk, &resolved.options)?;
        engine.rules_changed = resolved.changes;
    }
    begin(&engine)?;
    Ok(engine)
}

/// Opens a store with the given rules, regardless of the stored rules.
pub(crate) fn open_under(
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    options: Options,
) -> Result<Core, Error> {
    let engine = Core::recovered(disk, clock, options)?;
    begin(&engine)?;
    Ok(engine)
}

/// Performs the writes of a start.
fn begin(core: &Core) -> Result<(), Error> {
    // The time is written before the catalog has rules with an age. Afterwards, a missing time is
    // damage.
    if core.log().retention.has_pending() {
        core.persist_time(false)?;
    }
    // A loss is recorded before the file that proves it is removed.
    put_on_record(core, !core.recovery.losses.is_empty())?;
    if core.recovery.needs_flush {
        flush(core)?;
    }
    let disk = core.writing().space.disk();
    count_set_aside(core, &*disk)?;
    // Data hidden by new rules must stay hidden.
    if core.log().retention.has_pending() {
        let _span = tracing::trace_span!("rules").entered();
        core.write_catalog()?;
    }
    Ok(())
}

/// Writes the findings of recovery: names that only the journal contains, and the ledger. Without
/// losses, these writes can wait for space.
fn put_on_record(core: &Core, losses: bool) -> Result<(), Error> {
    let new = core.head().has_new_names();
    let names = match new {
        true => core.write_catalog(),
        false => Ok(()),
    };
    match names.and_then(|()| core.write_ledger()) {
        Err(error) if error.is_out_of_space() && !losses => Ok(()),
        result => result,
    }
}
