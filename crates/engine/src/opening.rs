//! Opening a store: its rules, recovery, and what a start writes.

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
/// As [`Engine::open_directory`]; and [`Error::Retention`] when the rules among the options let data go
/// sooner than those that are stored with the data, unless [`Options::apply_retention`] confirms them.
pub(crate) fn open(
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    options: Options,
) -> Result<Core, Error> {
    let resolved = rules::resolve(&disk, &clock, &options)?;
    let mut engine = Core::recovered(disk.clone(), clock, resolved.options.clone())?;
    if let Some(what) = resolved.damage {
        rules::set_aside(&*disk)?;
        let what =
            format!("{what}; the classes that the catalog knows hold, check the other rules");
        let aside = (rules::NAME.to_string(), what);
        engine.recovery.set_aside.push(aside);
    }
    // Before the catalog: a crash between the two leaves rules that the next start puts in force.
    if resolved.is_new {
        rules::store(&*disk, &resolved.options)?;
        engine.rules_changed = resolved.changes;
    }
    begin(&engine)?;
    Ok(engine)
}

/// Opens a store under given rules, whatever is stored.
pub(crate) fn open_under(
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    options: Options,
) -> Result<Core, Error> {
    let engine = Core::recovered(disk, clock, options)?;
    begin(&engine)?;
    Ok(engine)
}

/// Writes what a start has to write.
fn begin(core: &Core) -> Result<(), Error> {
    // Before the catalog has rules with an age: afterwards, a missing time is damage.
    if core.log().retention.has_pending() {
        core.persist_time(false)?;
    }
    // A loss is on record before the file that shows it is removed.
    put_on_record(core, !core.recovery.losses.is_empty())?;
    if core.recovery.needs_settling {
        flush(core)?;
    }
    count_set_aside(core)?;
    // What new rules hide must stay hidden.
    if core.log().retention.has_pending() {
        let _span = tracing::trace_span!("rules").entered();
        core.write_catalog()?;
    }
    Ok(())
}

/// Writes what recovery found: names that only the journal has, and the ledger. Unless there are
/// losses, it can wait for space.
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
