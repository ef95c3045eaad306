//! Token that a command presents to a server.

use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::PathBuf;

/// Variable with the text of a token.
const VARIABLE: &str = "SEINER_TOKEN";

// Flags for access to a server. Not a doc comment: it would remove the description of the command from its help.
#[derive(Args)]
pub struct Login {
    /// File with the token for the server, if the server needs one [variable: SEINER_TOKEN, with the
    /// token itself].
    #[arg(long, value_name = "FILE", global = true)]
    token_file: Option<PathBuf>,
}

impl Login {
    /// Returns the token of the file or of the variable, if there is one.
    ///
    /// # Errors
    /// If the file cannot be read, or the text is not a token.
    pub fn token(&self) -> Result<Option<String>> {
        let (text, origin) = match &self.token_file {
            Some(path) => {
                let text = std::fs::read_to_string(path);
                let origin = path.display().to_string();
                (text.with_context(|| origin.clone())?, origin)
            }
            None => match std::env::var(VARIABLE) {
                Ok(text) => (text, VARIABLE.to_string()),
                Err(_) => return Ok(None),
            },
        };
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            bail!("{origin} contains no token; `seiner token create` prints one, without spaces");
        }
        Ok(Some(text.to_string()))
    }
}
