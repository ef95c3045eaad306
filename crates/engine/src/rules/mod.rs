//! The rules of a store: retention, budget and format options, which are stored with the data.
//!
//! The file `rules` stores the decisions for this store. A start takes all rules from it that its
//! caller leaves open. It rejects rules that would let data expire sooner, unless they are
//! confirmed. A wrong or missing configuration therefore deletes no data.
//! `docs/format/rules.md` specifies the bytes.

mod change;
pub mod file;
mod forecast;
pub mod given;

pub use file::{NAME, NEW, check, read};
pub use given::{Given, Rule};
pub use seiner_store::{Change, Outlook};

use crate::aside::move_aside;
use crate::error::{Error, io_error, sync_error};
use crate::options::Options;
use crate::{catalog, retention};
use seiner_platform::{Clock, Disk, Overlay};
use std::sync::Arc;

impl Rule {
    /// Returns the rule as text in the form of the file. Equal texts mean equal rules.
    pub(crate) fn text(self, options: &Options) -> String {
        match self {
            Rule::Classes => file::classes_text(&options.classes),
            Rule::Disk => options
                .disk
                .map_or("all".to_string(), |bytes| bytes.to_string()),
            Rule::LeaveFree => options.leave_free.to_string(),
            Rule::MergeFrom => options.merge_from.to_string(),
            Rule::Policy => options.policy.to_string(),
            Rule::ExtraWrites => options.extra_writes.to_string(),
            Rule::Lanes => options.lanes.to_string(),
            Rule::BlockBytes => options.block_bytes.to_string(),
            Rule::SegmentBytes => options.segment_bytes.to_string(),
            Rule::JournalBytes => options.journal_bytes.to_string(),
        }
    }

    fn copy(self, from: &Options, to: &mut Options) {
        match self {
            Rule::Classes => to.classes = from.classes.clone(),
            Rule::Disk => to.disk = from.disk,
            Rule::LeaveFree => to.leave_free = from.leave_free,
            Rule::MergeFrom => to.merge_from = from.merge_from,
            Rule::Policy => to.policy = from.policy,
            Rule::ExtraWrites => to.extra_writes = from.extra_writes,
            Rule::Lanes => to.lanes = from.lanes,
            Rule::BlockBytes => to.block_bytes = from.block_bytes,
            Rule::SegmentBytes => to.segment_bytes = from.segment_bytes,
            Rule::JournalBytes => to.journal_bytes = from.journal_bytes,
        }
    }
}

impl Given {
    fn has(self, rule: Rule, options: &Options) -> bool {
        match self {
            Given::All => true,
            Given::These(bits) => bits & 1 << rule as u16 != 0,
            Given::Changed => rule.text(options) != rule.text(&Options::default()),
        }
    }
}

/// Effective rules of a start.
pub(crate) struct ResolvedRules {
    pub options: Options,
    /// True if the file differs or is missing.
    pub is_new: bool,
    /// Descriptions of changes, for the log.
    pub changes: Vec<String>,
    /// Name and damage of a damaged file.
    pub damage: Option<String>,
}

/// Replaces the rules that the caller leaves open by the stored rules.
///
/// # Errors
/// [`Error::Retention`] if given rules would let data expire sooner and are not confirmed. Nothing
/// is changed then.
pub(crate) fn resolve(
    disk: &Arc<dyn Disk>,
    clock: &Arc<dyn Clock>,
    options: &Options,
) -> Result<ResolvedRules, Error> {
    let mut damage = None;
    let stored = match read(&**disk) {
        Err(Error::Damage { what, .. }) => {
            damage = Some(what);
            None
        }
        stored => stored?,
    };
    let is_stored = stored.is_some();
    let known = match stored {
        Some(stored) => Some(stored),
        None => known_without_file(&**disk)?,
    };
    let mut resolved = ResolvedRules {
        options: options.clone(),
        is_new: !is_stored,
        changes: Vec::new(),
        damage,
    };
    let Some(known) = known else {
        return Ok(resolved);
    };
    for rule in Rule::ALL {
        // Without the file, only the classes are stored.
        if !is_stored && rule != Rule::Classes {
            continue;
        }
        if !options.given.has(rule, options) {
            rule.copy(&known, &mut resolved.options);
            continue;
        }
        let (old, new) = (rule.text(&known), rule.text(options));
        if old != new {
            resolved.is_new = true;
            if rule == Rule::Classes {
                resolved
                    .changes
                    .push("retention classes change".to_string());
            } else {
                resolved
                    .changes
                    .push(format!("{} = {new} instead of {old}", rule.name()));
            }
        }
    }
    let mut losses = change::losses(&known, &resolved.options, is_stored);
    if !is_stored && let Some(taken) = over_budget(&**disk, &resolved.options)? {
        losses.push(change::over_disk(taken, &resolved.options));
    }
    if losses.is_empty() || options.apply_retention {
        let whys = losses.iter().map(ToString::to_string);
        resolved.changes.extend(whys);
        return Ok(resolved);
    }
    // The store is read through an overlay that keeps all writes in memory.
    let overlay = Overlay::new(disk.clone())
        .map_err(io_error(|| "listing the files of the store".to_string()))?;
    let old = Options {
        given: Given::All,
        ..known
    };
    let outlook = forecast::of(Arc::new(overlay), clock.clone(), old, &resolved.options)?;
    Err(Error::Retention(Box::new(outlook.with(losses))))
}

/// Returns the rules in the catalog of a store without the file. Returns `None` if the store is
/// empty.
fn known_without_file(disk: &dyn Disk) -> Result<Option<Options>, Error> {
    use crate::inspect::FileKind;
    let names = disk
        .list()
        .map_err(io_error(|| "listing the files of the store".to_string()))?;
    let holds = |name: &String| {
        matches!(
            FileKind::of(name),
            FileKind::Segment | FileKind::OpenSegment | FileKind::Journal
        )
    };
    if !names.iter().any(holds) {
        return Ok(None);
    }
    let Some(read) = catalog::read(disk)? else {
        return Ok(None);
    };
    let classes = retention::records::rules_of(read.dead().iter().map(Vec::as_slice));
    Ok(Some(Options {
        classes,
        ..Options::default()
    }))
}

/// Returns the bytes of all files if they exceed the budget and some class may be shed.
fn over_budget(disk: &dyn Disk, options: &Options) -> Result<Option<u64>, Error> {
    let Some(budget) = options.disk.filter(|_| change::may_shed(&options.classes)) else {
        return Ok(None);
    };
    let files = crate::inspect::files(disk)?;
    let taken = files.iter().map(|file| file.bytes).sum();
    Ok((taken > budget).then_some(taken))
}

/// Replaces the stored rules atomically.
///
/// # Errors
/// If the disk fails.
pub(crate) fn store(disk: &dyn Disk, options: &Options) -> Result<(), Error> {
    let context = || format!("writing {NAME}");
    let file = disk.create(NEW).map_err(io_error(context))?;
    file.write_at(0, file::encode(options).as_bytes())
        .map_err(io_error(context))?;
    file.sync().map_err(sync_error(context))?;
    disk.rename(NEW, NAME).map_err(io_error(context))?;
    disk.sync_names().map_err(sync_error(context))
}

/// Renames a damaged file.
///
/// # Errors
/// If the disk fails.
pub(crate) fn set_aside(disk: &dyn Disk) -> Result<(), Error> {
    move_aside(disk, NAME).map(drop)
}
