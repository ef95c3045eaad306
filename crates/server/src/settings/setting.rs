//! Description of one setting.

use super::values::Settings;

/// Setting: its name, its effect, and the parser of its text.
pub struct Setting {
    /// Key in the file. The flag is `--` and the name with `-` for `_`; the variable is
    /// `SEINER_` and the name in capitals.
    pub name: &'static str,
    /// Default text.
    pub default: &'static str,
    /// Form of the expected text, for help texts.
    pub form: &'static str,
    /// Effect and trade-off.
    pub help: &'static str,
    /// Parses a text into the settings. The error contains the remedy.
    pub(crate) assign: fn(&mut Settings, &str) -> Result<(), String>,
}

impl Setting {
    /// Returns the flag, without the dashes: `max-body`.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// Returns the environment variable: `SEINER_MAX_BODY`.
    pub fn variable(&self) -> String {
        format!("SEINER_{}", self.name.to_uppercase())
    }
}
