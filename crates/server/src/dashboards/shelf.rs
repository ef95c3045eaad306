//! Documents of dashboards as rows of the store.

use crate::api_error::ApiError;
use axum::http::StatusCode;
use seiner_model::{Column, Columns, FieldColumn, Interval, Selector, SourceKey, Strings};
use seiner_store::{Error, Latest, MAX_TEXT_BYTES, Query, Store};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Measurement of the rows.
pub const MEASUREMENT: &str = "seiner_dashboard";
const NAME: &str = "name";
const DOCUMENT: &str = "document";
const REVISION: &str = "revision";

/// Version of the documents that the page of this server writes.
const VERSION: u64 = 1;
/// Maximum number of dashboards.
const MAX_DASHBOARDS: usize = 500;
/// Maximum length of a name, in characters.
const MAX_NAME: usize = 100;
/// Characters of names besides letters and digits.
const SIGNS: &str = " -_.()";

/// Dashboard as it is stored. A deleted one has an empty document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dashboard {
    /// Number of changes of the document, the first one included.
    pub revision: u64,
    /// JSON.
    pub document: String,
    /// Time of the row, ns.
    pub time: i64,
}

/// Revision that a change replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaces {
    /// None: there must be no dashboard of this name.
    Nothing,
    /// This one.
    Revision(u64),
    /// Any, or none.
    Any,
}

/// Checks the name of a dashboard.
///
/// # Errors
/// If an address or a list could not show the name.
pub fn check_name(name: &str) -> Result<(), ApiError> {
    let is_known = |c: char| c.is_alphanumeric() || SIGNS.contains(c);
    let is_name = !name.is_empty()
        && name.chars().count() <= MAX_NAME
        && name.trim() == name
        && name.chars().any(char::is_alphanumeric)
        && name.chars().all(is_known);
    match is_name {
        true => Ok(()),
        false => Err(ApiError::invalid(format!(
            "{name:?} is not a name of a dashboard; take 1 to {MAX_NAME} letters, digits, spaces and -_.()"
        ))),
    }
}

/// Checks a document, and returns it without white space between its parts.
///
/// # Errors
/// If the text is not a document of a known version, or is too long.
pub fn check_document(text: &[u8]) -> Result<String, ApiError> {
    let document: Value = serde_json::from_slice(text)
        .map_err(|error| ApiError::invalid(format!("the dashboard is not JSON: {error}")))?;
    let version = document.get("version");
    if version.and_then(Value::as_u64) != Some(VERSION) {
        let found = version.map_or("none".to_string(), Value::to_string);
        return Err(ApiError::invalid(format!(
            "the version of the dashboard is {found}; this server stores \"version\":{VERSION}"
        )));
    }
    if !document.get("panels").is_some_and(Value::is_array) {
        return Err(ApiError::invalid(
            "the dashboard has no list of panels; add \"panels\":[]",
        ));
    }
    let document = document.to_string();
    match document.len() <= MAX_TEXT_BYTES {
        true => Ok(document),
        false => Err(ApiError::too_large(format!(
            "the dashboard has {} bytes, and {MAX_TEXT_BYTES} is the maximum; distribute its panels over two dashboards",
            document.len()
        ))),
    }
}

/// Returns the dashboard of a valid name. It may be deleted.
///
/// # Errors
/// If the store cannot be read.
pub fn find(store: &dyn Store, name: &str) -> Result<Option<Dashboard>, Error> {
    Ok(rows(store, &format!("{MEASUREMENT}{{{NAME}={name:?}}}"))?.remove(name))
}

/// Returns the dashboards that are not deleted, by their names.
///
/// # Errors
/// If the store cannot be read.
pub fn present(store: &dyn Store) -> Result<BTreeMap<String, Dashboard>, Error> {
    let mut all = rows(store, MEASUREMENT)?;
    all.retain(|_, dashboard| !dashboard.document.is_empty());
    Ok(all)
}

/// Returns the latest rows of sources, by their names.
fn rows(store: &dyn Store, select: &str) -> Result<BTreeMap<String, Dashboard>, Error> {
    let query = Query {
        selector: Selector::parse(select)?,
        fields: Some(vec![DOCUMENT.to_string(), REVISION.to_string()]),
        interval: Interval::ALL,
    };
    let mut found: BTreeMap<String, Dashboard> = BTreeMap::new();
    for latest in store.latest(&query, None)? {
        let Latest {
            key,
            field,
            time,
            value,
            ..
        } = latest?;
        // Other programs may write rows of this measurement too.
        let name = key.tag(NAME);
        if check_name(name).is_err() || key.tags().len() != 1 {
            continue;
        }
        let dashboard = found.entry(name.to_string()).or_insert(Dashboard {
            revision: 0,
            document: String::new(),
            time: i64::MIN,
        });
        match (&*field, value) {
            (DOCUMENT, Column::Str(texts)) if !texts.is_empty() => {
                dashboard.document = texts.get(0).to_string();
                dashboard.time = time;
            }
            (REVISION, Column::U64(numbers)) => {
                dashboard.revision = numbers.first().copied().unwrap_or_default();
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Stores a document, or deletes it if it is empty. Returns the new revision, and the position for
/// [`Store::wait_durable`]. The caller makes sure that only one change is made at a time.
///
/// # Errors
/// If somebody else changed the dashboard, there are too many, or the store rejects the row.
pub fn change(
    store: &dyn Store,
    name: &str,
    document: &str,
    replaces: Replaces,
    now: i64,
) -> Result<(u64, u64), ApiError> {
    let old = find(store, name)?;
    let is_present = old.as_ref().is_some_and(|old| !old.document.is_empty());
    let revision = old.as_ref().map_or(0, |old| old.revision);
    check_revision(name, is_present.then_some(revision), replaces)?;
    let is_new = !is_present && !document.is_empty();
    if is_new && present(store)?.len() >= MAX_DASHBOARDS {
        return Err(ApiError::with(
            StatusCode::CONFLICT,
            "conflict",
            format!("there are {MAX_DASHBOARDS} dashboards, which is the maximum; delete one"),
        ));
    }
    let row = Dashboard {
        revision: revision + 1,
        document: document.to_string(),
        // A clock that was set back must not hide the change.
        time: old.map_or(now, |old| now.max(old.time.saturating_add(1))),
    };
    Ok((row.revision, put(store, name, &row)?))
}

/// Compares the revision that a change replaces with the present one.
fn check_revision(name: &str, present: Option<u64>, replaces: Replaces) -> Result<(), ApiError> {
    let (status, text) = match (replaces, present) {
        (Replaces::Any, _) | (Replaces::Nothing, None) => return Ok(()),
        (Replaces::Revision(wanted), Some(present)) if wanted == present => return Ok(()),
        (Replaces::Nothing, Some(present)) => (
            StatusCode::CONFLICT,
            format!(
                "the dashboard {name:?} exists; read it, and send its revision as If-Match: \"{present}\""
            ),
        ),
        (Replaces::Revision(wanted), Some(present)) => (
            StatusCode::PRECONDITION_FAILED,
            format!(
                "somebody else changed the dashboard {name:?}: its revision is {present}, and yours is {wanted}; \
                 read it again"
            ),
        ),
        (Replaces::Revision(_), None) => (
            StatusCode::PRECONDITION_FAILED,
            format!("there is no dashboard {name:?}; somebody else deleted or renamed it"),
        ),
    };
    Err(ApiError::with(status, "conflict", text))
}

/// Writes a row. Returns its position for [`Store::wait_durable`].
///
/// # Errors
/// If the store rejects the row.
pub fn put(store: &dyn Store, name: &str, dashboard: &Dashboard) -> Result<u64, ApiError> {
    let key = SourceKey::new(MEASUREMENT, [(NAME, name)]).map_err(ApiError::invalid)?;
    let source = store.register(&key)?;
    let mut texts = Strings::default();
    texts.push(&dashboard.document);
    let dense = |values| FieldColumn {
        present: None,
        values,
    };
    let columns = Columns {
        times: vec![dashboard.time],
        fields: vec![
            dense(Column::Str(texts)),
            dense(Column::U64(vec![dashboard.revision])),
        ],
    };
    let receipt = store.append_columns(source, &[DOCUMENT, REVISION], &columns)?;
    match receipt.rejected.into_iter().next() {
        Some((_, reason)) => Err(ApiError::invalid(reason)),
        None => Ok(receipt.position),
    }
}

/// Returns a line of the list of dashboards.
pub fn line(name: &str, dashboard: &Dashboard) -> Value {
    let document: Value = serde_json::from_str(&dashboard.document).unwrap_or_default();
    let panels = document.get("panels").and_then(Value::as_array);
    json!({
        "name": name,
        "revision": dashboard.revision,
        "panels": panels.map_or(0, Vec::len),
        "bytes": dashboard.document.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_store::MemoryStore;

    const EMPTY: &str = r#"{"version":1,"panels":[]}"#;

    #[test]
    fn names_are_those_that_lists_and_addresses_can_show() {
        for name in ["a", "Küche 2", "line-1_b.c (old)", &"x".repeat(100)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in [
            "",
            " a",
            "a ",
            "a/b",
            "a\nb",
            "..",
            "<b>",
            "a\0",
            &"x".repeat(101),
        ] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn documents_have_a_version_panels_and_a_bounded_length() {
        let spaced = r#" { "version" : 1, "panels" : [ ] } "#;
        assert_eq!(
            check_document(spaced.as_bytes()).unwrap().len(),
            EMPTY.len()
        );
        for (text, words) in [
            ("x", "not JSON"),
            ("[]", "version of the dashboard is none"),
            (r#"{"version":2,"panels":[]}"#, "is 2"),
            (r#"{"version":1}"#, "add \"panels\""),
        ] {
            let error = check_document(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        let long = json!({ "version": 1, "panels": ["x".repeat(MAX_TEXT_BYTES)] }).to_string();
        let error = check_document(long.as_bytes()).unwrap_err();
        assert_eq!(error.status(), StatusCode::PAYLOAD_TOO_LARGE);
        let most = MAX_TEXT_BYTES - r#"{"panels":[""],"version":1}"#.len();
        let long = json!({ "version": 1, "panels": ["x".repeat(most)] }).to_string();
        assert_eq!(
            check_document(long.as_bytes()).unwrap().len(),
            MAX_TEXT_BYTES
        );
    }

    #[test]
    fn a_change_of_another_revision_is_rejected() {
        let store = MemoryStore::new();
        let change = |document, replaces| change(&store, "a", document, replaces, 1000);
        let status = |result: Result<_, ApiError>| result.unwrap_err().status();
        assert_eq!(change(EMPTY, Replaces::Nothing).unwrap().0, 1);
        assert_eq!(status(change(EMPTY, Replaces::Nothing)), 409);
        // The clock stands still, and the later change is valid all the same.
        let second = EMPTY.replace("[]", "[1]");
        assert_eq!(change(&second, Replaces::Revision(1)).unwrap().0, 2);
        assert_eq!(status(change(EMPTY, Replaces::Revision(1))), 412);
        let found = find(&store, "a").unwrap().unwrap();
        assert_eq!((found.revision, &*found.document), (2, &*second));
        assert_eq!(change("", Replaces::Revision(2)).unwrap().0, 3);
        assert!(present(&store).unwrap().is_empty());
        assert_eq!(status(change(EMPTY, Replaces::Revision(3))), 412);
        // A new dashboard has another revision than an old one of the same name.
        assert_eq!(change(EMPTY, Replaces::Nothing).unwrap().0, 4);
    }

    #[test]
    fn the_number_of_dashboards_is_limited() {
        let store = MemoryStore::new();
        let add = |name: &str| change(&store, name, EMPTY, Replaces::Nothing, 1);
        for number in 0..MAX_DASHBOARDS {
            add(&number.to_string()).unwrap();
        }
        let error = add("more").unwrap_err();
        assert!(error.to_string().contains("delete one"), "{error}");
        change(&store, "7", EMPTY, Replaces::Revision(1), 1).unwrap();
        change(&store, "7", "", Replaces::Any, 1).unwrap();
        add("more").unwrap();
    }

    #[test]
    fn rows_of_other_programs_are_left_out() {
        let store = MemoryStore::new();
        let row = Dashboard {
            revision: 1,
            document: EMPTY.to_string(),
            time: 1,
        };
        put(&store, "fine", &row).unwrap();
        put(&store, "a/b", &row).unwrap();
        let names: Vec<String> = present(&store).unwrap().into_keys().collect();
        assert_eq!(names, ["fine"]);
    }
}
