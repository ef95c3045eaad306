//! Databases that a tag distinguishes.

use seiner_model::{Condition, Matcher, Selector};

/// Tag that contains the name of a source's database, and the database that statements read.
#[derive(Clone, Debug, Default)]
pub struct Databases {
    /// Name of the tag. `None` for one database that contains all sources.
    pub tag: Option<String>,
    /// Database of statements that name none. Empty for the sources of all databases.
    pub chosen: String,
}

impl Databases {
    /// Returns the databases for a statement that may name one.
    pub fn with(&self, named: Option<&str>) -> Databases {
        let named = named.filter(|_| self.tag.is_some());
        Databases {
            tag: self.tag.clone(),
            chosen: named.unwrap_or(&self.chosen).to_string(),
        }
    }

    /// Returns the condition on the tag, if a database is chosen.
    pub fn matcher(&self) -> Option<Matcher> {
        let tag = self.tag.as_ref().filter(|_| !self.chosen.is_empty())?;
        Some(Matcher {
            tag: tag.clone(),
            condition: Condition::Is(self.chosen.clone()),
        })
    }

    /// Returns the selector of a measurement in the chosen database.
    pub fn selector(&self, measurement: &str) -> Selector {
        Selector {
            measurement: Some(measurement.to_string()),
            matchers: self.matcher().into_iter().collect(),
        }
    }
}
