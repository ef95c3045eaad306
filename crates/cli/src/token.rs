//! `seiner token`: creates, lists and revokes the tokens of a server.

use crate::failure::Failure;
use clap::{Args, Subcommand};
use seiner_model::{Selector, rfc3339};
use seiner_server::access::{Digest, Scopes, TokenEntry, change, generate, read};
use seiner_server::settings::Setting;
use seiner_server::{Layers, RepeatedFlags};
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Create, list and revoke the tokens with which clients use a server.
///
/// A server needs no token until the first one is created. From then on, every request needs a
/// token. A running server reads a change within a second. The file of the tokens contains hashes,
/// so the text of a token is printed only once: docs/access.md.
///
/// Examples:
///
///   seiner token create grafana --scope read
///
///   seiner token create gateway --scope write --where 'climate{house="7"}'
///
///   seiner token list
///
///   seiner token revoke gateway
#[derive(Args)]
#[command(subcommand_value_name = "ACTION", subcommand_help_heading = "Actions")]
pub struct Token {
    #[command(subcommand)]
    action: Action,
    /// Read settings of the server from this file [default: ./seiner.toml, if there is one].
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// Data directory of the server [default: as `seiner serve`].
    #[arg(long, value_name = "DIR", global = true)]
    data: Option<String>,
    /// File of the tokens [default: as `seiner serve`, which is access.toml in the data directory].
    #[arg(long, value_name = "FILE", global = true)]
    access_file: Option<String>,
}

#[derive(Subcommand)]
enum Action {
    /// Create a token and print it. It cannot be printed again.
    Create {
        /// Name of the token, for lists and for the log.
        name: String,
        /// Permitted requests: read, write, or admin, which includes the others. Several are
        /// separated by commas.
        #[arg(long, value_name = "SCOPE,...", value_parser = Scopes::parse)]
        scope: Scopes,
        /// Selector of the sources that the token may read and write, such as 'cpu{host="a"}'.
        /// Addresses that cannot be limited to these sources reject the token.
        #[arg(long = "where", value_name = "SELECTOR", value_parser = parse_selector)]
        selector: Option<Selector>,
    },
    /// List the tokens with their scopes, times of creation and selectors.
    List,
    /// Revoke a token. Requests with the token are rejected from then on.
    Revoke {
        /// Name of the token.
        name: String,
    },
}

fn parse_selector(text: &str) -> Result<Selector, String> {
    Selector::parse(text).map_err(|error| error.to_string())
}

impl Token {
    /// Carries out the action on the file of the tokens.
    pub fn run(self) -> Result<(), Failure> {
        let path = self.path()?;
        match self.action {
            Action::Create {
                name,
                scope,
                selector,
            } => create(&path, name, scope, selector),
            Action::List => list(&path),
            Action::Revoke { name } => revoke(&path, &name),
        }
    }

    /// Returns the file that a server with the same settings uses.
    fn path(&self) -> Result<PathBuf, Failure> {
        let flag = |setting: &Setting| match setting.name {
            "data" => self.data.clone(),
            "access_file" => self.access_file.clone(),
            _ => None,
        };
        let layers = Layers::gather(self.config.as_deref(), flag, RepeatedFlags::default());
        let settings = layers.and_then(|layers| layers.settings());
        let settings = settings.map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(settings.token_file())
    }
}

fn failed(error: String) -> Failure {
    Failure::Failed(anyhow::anyhow!(error))
}

fn create(
    path: &Path,
    name: String,
    scope: Scopes,
    selector: Option<Selector>,
) -> Result<(), Failure> {
    let text = generate().map_err(failed)?;
    let since_1970 = crate::time::wall().duration_since(UNIX_EPOCH)?;
    let entry = TokenEntry {
        name,
        scope,
        selector: selector.map(|selector| selector.to_string()),
        sha256: Digest::of(&text).to_string(),
        created: rfc3339(since_1970.as_secs() as i64 * 1_000_000_000),
    };
    entry.check().map_err(Failure::Usage)?;
    let name = entry.name.clone();
    let is_first = change(path, |tokens| {
        if tokens.iter().any(|token| token.name == entry.name) {
            return Err(format!(
                "there is a token {} already; revoke it first, or take another name",
                entry.name
            ));
        }
        tokens.push(entry);
        Ok(tokens.len() == 1)
    });
    if is_first.map_err(failed)? {
        eprintln!("From now on, every request to the server needs a token.");
    }
    eprintln!(
        "{}: the hash of the token {name} is in this file. The token itself is printed once:",
        path.display()
    );
    writeln!(stdout(), "{text}")?;
    Ok(())
}

fn list(path: &Path) -> Result<(), Failure> {
    let Some(tokens) = read(path).map_err(failed)? else {
        eprintln!("There is no file {}.", path.display());
        return Ok(());
    };
    let width = tokens.iter().map(|token| token.name.len()).max();
    let width = width.unwrap_or(0);
    let mut out = stdout().lock();
    for token in tokens {
        let scope = token.scope.to_string();
        write!(out, "{:width$}  {scope:16}  {}", token.name, token.created)?;
        match token.selector {
            Some(selector) => writeln!(out, "  {selector}")?,
            None => writeln!(out)?,
        }
    }
    Ok(())
}

fn revoke(path: &Path, name: &str) -> Result<(), Failure> {
    let left = change(path, |tokens| {
        let before = tokens.len();
        tokens.retain(|token| token.name != name);
        match tokens.len() == before {
            true => Err(format!(
                "there is no token {name:?}; `seiner token list` shows all"
            )),
            false => Ok(tokens.len()),
        }
    });
    let left = left.map_err(failed)?;
    writeln!(stdout(), "revoked {name}")?;
    if left == 0 {
        eprintln!(
            "No token is left, so the server rejects every request. To use it without tokens on loopback, remove {} and \
             start the server again.",
            path.display()
        );
    }
    Ok(())
}
