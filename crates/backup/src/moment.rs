//! Files of a store at one moment.

use crate::copy::{Copier, changing, failed};
use crate::joined::Joined;
use crate::sealed;
use crate::target::Target;
use seiner_engine::{Error, Reading, Scope, check_within, read_directory};
use seiner_platform::Disk;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Store that is copied.
pub enum Source<'a> {
    /// Directory that another process may write to.
    Live(&'a Path),
    /// Files that do not change.
    #[cfg(feature = "object-storage")]
    Still(Arc<dyn Disk>),
}

/// Files of the store at one moment, of which those that change were copied.
pub struct Moment {
    /// Disk with the sealed segments.
    pub source: Arc<dyn Disk>,
    /// Names of the sealed segments.
    pub sealed: Vec<String>,
    /// Names of the sealed segments that were copied before.
    pub kept: BTreeSet<String>,
    /// Bytes copied.
    pub bytes: u64,
}

/// Copies the files that change.
///
/// # Errors
/// If the files change faster than they can be copied, or a disk fails.
pub fn take(source: &Source<'_>, target: &dyn Target) -> Result<Moment, Error> {
    match source {
        Source::Live(path) => read_directory(path, |disk| attempt(disk, target)),
        #[cfg(feature = "object-storage")]
        Source::Still(disk) => match attempt(disk.clone(), target)? {
            Reading::Done(moment) | Reading::Doubtful(moment) => Ok(moment),
        },
    }
}

/// Copies the files that change. The copies and the sealed segments are the store at one moment, or the result is
/// doubtful.
fn attempt(source: Arc<dyn Disk>, target: &dyn Target) -> Result<Reading<Moment>, Error> {
    let kept = target.keep(&*source)?;
    let copier = Copier {
        source: &*source,
        target: target.changing(),
    };
    let bytes = copier.copy_changing(&changing(&*source)?)?;
    let context = || "listing the segments".to_string();
    let sealed = sealed::names(&*source).map_err(failed(context))?;
    let sealed: Vec<String> = sealed.into_values().collect();
    let joined = Joined {
        first: target.changing(),
        second: &*source,
        names: &sealed,
    };
    // Journal files that were reused meanwhile are known already. Their records are checked at the end.
    let scope = Scope {
        segments: &|_| false,
        records: false,
    };
    let is_sound = check_within(&joined, &scope, &mut |_, _| {})?.is_sound();
    let moment = Moment {
        source,
        sealed,
        kept,
        bytes,
    };
    Ok(match is_sound {
        true => Reading::Done(moment),
        false => Reading::Doubtful(moment),
    })
}
