//! Dashboards of the page: documents in JSON, each with a name.
//!
//! A document is a text in the store, in the source `seiner_dashboard{name="…"}`. So every kind of store has
//! dashboards: one in a directory, one on an array and a cluster. The latest row is valid, and a row with an empty
//! text deletes. A revision number in the row detects that two people edit the same document.

mod handlers;
mod renewal;
mod shelf;

pub use handlers::{MAX_BODY, list, read, remove, save};
pub use renewal::keep;
