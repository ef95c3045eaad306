//! Clock and answers of targets, behind a trait.

use super::target::Target;
use crate::app_state::AppState;
use crate::whole_body::Held;
use seiner_wire::exposition::Form;
use std::future::Future;

/// Answer of a target.
pub struct Fetched {
    /// Text, decompressed.
    pub body: Held,
    /// Form of the text.
    pub form: Form,
}

/// Clock and network.
pub trait Outside: Send + Sync + 'static {
    /// Returns the wall time in ns since 1970.
    fn now(&self) -> i64;

    /// Requests the text of a target. The caller limits the time.
    ///
    /// # Errors
    /// If the target does not answer with a text, or with one that is too long: a sentence for people.
    fn fetch(
        &self,
        app: &AppState,
        target: &Target,
    ) -> impl Future<Output = Result<Fetched, String>> + Send;
}
