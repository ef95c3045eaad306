//! Renewal of documents before a retention class expires them.
//!
//! A document is written once and valid for years, and the class of its row may keep rows for days only. The server
//! therefore writes documents again, with the same revision. The time of the new row is a little in the past, so that
//! a change that is made at the same moment, here or at another port of a cluster, is later and stays valid.

use super::shelf::{Dashboard, MEASUREMENT, present, put};
use crate::app_state::AppState;
use crate::ingest::now;
use crate::shutdown::Stop;
use seiner_model::{Selector, SourceKey};
use seiner_store::{Class, ClassStatus, Keep, Store, WhenFull};
use std::sync::Arc;
use std::time::Duration;

/// Time between two looks for old documents.
const EVERY: Duration = Duration::from_secs(600);
/// Age at which a document is written again, if its class is kept longer than four times that age.
const OLD: i64 = 86_400 * 1_000_000_000;
/// Age of the row that is written.
const BACK: i64 = 60 * 1_000_000_000;

/// Renews documents until the server stops.
pub async fn keep(app: Arc<AppState>, mut stop: Stop) {
    let mut looks = tokio::time::interval(EVERY);
    loop {
        tokio::select! {
            _ = looks.tick() => {
                let store = app.store.clone();
                let renewed = tokio::task::spawn_blocking(move || renew(&*store, now()));
                match renewed.await {
                    Ok(Ok(0)) => {}
                    Ok(Ok(number)) => tracing::debug!("{number} dashboards were written again"),
                    Ok(Err(error)) => tracing::warn!("the dashboards were not written again: {error}"),
                    Err(error) => tracing::error!("the dashboards were not written again: {error}"),
                }
            }
            () = stop.wanted() => return,
        }
    }
}

/// Writes old documents again. Returns their number.
fn renew(store: &dyn Store, now: i64) -> Result<usize, crate::ApiError> {
    let classes = store.classes();
    let is_embedded = store.embedded().is_some();
    let mut renewed = 0;
    for (name, dashboard) in present(store)? {
        let Ok(key) = SourceKey::new(MEASUREMENT, [("name", &*name)]) else {
            continue;
        };
        let class = class_of(&classes, &key);
        let is_due = match old_after(class.map(|class| &class.class), is_embedded) {
            Some(old) => now.saturating_sub(dashboard.time) >= old,
            None => false,
        };
        if is_due {
            let row = Dashboard {
                time: now.saturating_sub(BACK).max(dashboard.time),
                ..dashboard
            };
            put(store, &name, &row)?;
            renewed += 1;
        }
    }
    Ok(renewed)
}

/// Returns the class of a source.
fn class_of<'a>(classes: &'a [ClassStatus], key: &SourceKey) -> Option<&'a ClassStatus> {
    let holds = |text: &str| Selector::parse(text).is_ok_and(|selector| selector.holds(key));
    let mut classes = classes.iter().filter(|class| class.step_ns.is_none());
    classes.find(|class| class.class.sources.is_empty() || holds(&class.class.sources))
}

/// Returns the age from which a document is written again; `None` if its class never expires it. The classes of a
/// cluster are not known here.
fn old_after(class: Option<&Class>, is_embedded: bool) -> Option<i64> {
    let Some(class) = class else {
        return (!is_embedded).then_some(OLD);
    };
    let Keep { age, bytes, .. } = class.keep;
    let quarter = age.map(|age| i64::try_from(age.as_nanos() / 4).unwrap_or(i64::MAX));
    let is_limited = bytes.is_some() || class.when_full == WhenFull::Shed;
    // The latest rows of a ring include the latest document.
    match quarter {
        Some(quarter) => Some(quarter.min(OLD)),
        None => is_limited.then_some(OLD),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboards::shelf::{Replaces, change, find};
    use seiner_store::MemoryStore;

    const HOUR: i64 = 3600 * 1_000_000_000;

    fn class(change: impl FnOnce(&mut Class)) -> Class {
        let mut class = Class::forever();
        change(&mut class);
        class
    }

    #[test]
    fn documents_are_renewed_if_their_class_may_expire_them() {
        let day = Duration::from_secs(86_400);
        let old = |class: &Class| old_after(Some(class), true);
        assert_eq!(old(&class(|_| {})), None);
        assert_eq!(old(&class(|class| class.keep.rows = Some(5))), None);
        assert_eq!(
            old(&class(|class| class.keep.age = Some(day))),
            Some(6 * HOUR)
        );
        assert_eq!(
            old(&class(|class| class.keep.age = Some(30 * day))),
            Some(OLD)
        );
        assert_eq!(old(&class(|class| class.keep.bytes = Some(1))), Some(OLD));
        let shed = class(|class| class.when_full = WhenFull::Shed);
        assert_eq!(old(&shed), Some(OLD));
        assert_eq!(old_after(None, true), None);
        assert_eq!(old_after(None, false), Some(OLD));
    }

    #[test]
    fn a_renewed_document_keeps_its_revision_and_loses_against_a_change() {
        // A store in memory has no classes, like a port of a cluster.
        let store = MemoryStore::new();
        let document = r#"{"version":1,"panels":[]}"#;
        change(&store, "a", document, Replaces::Nothing, 0).unwrap();
        assert_eq!(renew(&store, OLD - 1).unwrap(), 0);
        let now = 2 * OLD;
        assert_eq!(renew(&store, now).unwrap(), 1);
        let renewed = find(&store, "a").unwrap().unwrap();
        assert_eq!((renewed.revision, renewed.time), (1, now - BACK));
        assert_eq!(renew(&store, now).unwrap(), 0);
        // A change before the renewal's row is written, with the clock of another port.
        let other = document.replace("[]", "[1]");
        change(&store, "a", &other, Replaces::Revision(1), now - BACK / 2).unwrap();
        put(&store, "a", &renewed).unwrap();
        let found = find(&store, "a").unwrap().unwrap();
        assert_eq!((found.revision, found.document), (2, other));
    }
}
