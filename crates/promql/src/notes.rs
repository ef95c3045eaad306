//! Warnings and hints about the result of a query.

use std::collections::BTreeSet;
use std::sync::Mutex;

/// Maximum number of warnings, and of hints.
const MAX_NOTES: usize = 50;

/// Warnings and hints, each text once.
#[derive(Debug, Default)]
pub struct Notes {
    warnings: Mutex<BTreeSet<String>>,
    infos: Mutex<BTreeSet<String>>,
}

impl Notes {
    /// Adds a warning: the result may be incomplete or meaningless.
    pub fn warning(&self, text: String) {
        add(&self.warnings, text);
    }

    /// Adds a hint: the query may not be what its author meant.
    pub fn info(&self, text: String) {
        add(&self.infos, text);
    }

    /// Adds the warning of a quantile outside of 0 to 1.
    pub fn quantile_out_of_range(&self, q: f64) {
        self.warning(format!(
            "PromQL warning: quantile value should be between 0 and 1, got {}",
            crate::number_text(q)
        ));
    }

    /// Returns warnings and hints.
    pub fn take(&self) -> (Vec<String>, Vec<String>) {
        let take = |texts: &Mutex<BTreeSet<String>>| {
            let mut texts = texts.lock().expect("no thread panics while it adds a text");
            std::mem::take(&mut *texts).into_iter().collect()
        };
        (take(&self.warnings), take(&self.infos))
    }
}

fn add(texts: &Mutex<BTreeSet<String>>, text: String) {
    let mut texts = texts.lock().expect("no thread panics while it adds a text");
    if texts.len() < MAX_NOTES {
        texts.insert(text);
    }
}
