//! Tokens of a running server. A timer reads the file again when it changes.

use super::credentials::Credentials;
use super::denial::Denial;
use super::failures::{Counted, Failures};
use super::scope::{Scope, Scopes};
use super::token::{Digest, MAX_TEXT, generate};
use super::token_file::{self, TokenEntry};
use crate::metric_text::labelled_counters;
use crate::settings::{AccessMode, Settings};
use prometheus_client::encoding::DescriptorEncoder;
use seiner_model::Selector;
use std::fmt;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, RwLock};

/// Name of the token of the program that answers SQL, which no file contains.
const SQL: &str = "seiner-sql";

/// Token that is valid at present.
pub struct Token {
    /// Name.
    pub name: String,
    /// Permitted requests.
    pub scopes: Scopes,
    /// Sources that the token may read and write; `None` for all.
    pub selector: Option<Selector>,
    digest: Digest,
}

/// Tokens of a server, and the decision who may do what.
pub struct Access {
    is_open: bool,
    path: PathBuf,
    /// Tokens of the file; `None` if there was no file since the start.
    tokens: RwLock<Option<Arc<[Arc<Token>]>>>,
    /// State of the file at the last attempt to read it.
    seen: Mutex<Option<Stamp>>,
    sql: (Arc<Token>, String),
    failures: Failures,
    /// Requests that were denied: without a token, with a wrong one, beyond the limit, without the permission.
    denied: [AtomicU64; 4],
}

/// State of a file. Every change makes a new file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    changed: (i64, i64),
    bytes: u64,
}

impl Stamp {
    fn of(path: &Path) -> Option<Stamp> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Stamp {
            inode: metadata.ino(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            bytes: metadata.len(),
        })
    }
}

/// Request that needs permission.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// Scope of the request; `None` if any token will do.
    pub scope: Option<Scope>,
    /// True if the request can be limited to the sources of a selector.
    pub is_limitable: bool,
}

impl Wanted {
    /// Permission to write.
    pub const WRITE: Wanted = Wanted {
        scope: Some(Scope::Write),
        is_limitable: true,
    };
}

impl Access {
    /// Reads the tokens.
    ///
    /// # Errors
    /// As [`check`].
    pub fn open(settings: &Settings) -> Result<Access, String> {
        let path = settings.token_file();
        let seen = Stamp::of(&path);
        let is_open = settings.access == AccessMode::Open;
        let entries = checked(settings)?;
        let text = generate()?;
        let sql = Token {
            name: SQL.to_string(),
            scopes: Scopes::of(&[Scope::Read]),
            selector: None,
            digest: Digest::of(&text),
        };
        Ok(Access {
            is_open,
            path,
            tokens: RwLock::new(entries.map(|entries| tokens_of(&entries, None))),
            seen: Mutex::new(seen),
            sql: (Arc::new(sql), text),
            failures: Failures::default(),
            denied: Default::default(),
        })
    }

    /// Returns whether requests need a token.
    pub fn is_required(&self) -> bool {
        self.tokens().is_some()
    }

    /// Returns the token with which the program that answers SQL reads from this server.
    pub fn sql_token(&self) -> &str {
        &self.sql.1
    }

    /// Returns the token of a request if it permits the request; `None` if no request needs a token.
    ///
    /// # Errors
    /// The reason, which is counted.
    pub fn admit(
        &self,
        credentials: &Credentials,
        wanted: Wanted,
        peer: IpAddr,
    ) -> Result<Option<Arc<Token>>, Denial> {
        let Some(tokens) = self.tokens() else {
            return Ok(None);
        };
        let admitted = self.check(&tokens, credentials, wanted, peer);
        if let Err(denial) = &admitted {
            self.denied[place(denial)].fetch_add(1, Relaxed);
        }
        admitted.map(Some)
    }

    fn check(
        &self,
        tokens: &[Arc<Token>],
        credentials: &Credentials,
        wanted: Wanted,
        peer: IpAddr,
    ) -> Result<Arc<Token>, Denial> {
        let text = match credentials {
            Credentials::Missing => return Err(Denial::Missing),
            Credentials::Unreadable => "",
            Credentials::Token(text) => text,
        };
        let token = self.find(tokens, text).ok_or_else(|| self.failed(peer))?;
        let name = || token.name.clone();
        match wanted.scope {
            Some(needs) if !token.scopes.permit(needs) => {
                let has = token.scopes.to_string();
                let token = name();
                Err(Denial::Scope { token, has, needs })
            }
            _ if token.selector.is_some() && !wanted.is_limitable => {
                Err(Denial::Selector { token: name() })
            }
            _ => Ok(token),
        }
    }

    /// Returns the token with a text. Compares with all tokens, so that the time does not depend on the text.
    fn find(&self, tokens: &[Arc<Token>], text: &str) -> Option<Arc<Token>> {
        if text.len() > MAX_TEXT {
            return None;
        }
        let digest = Digest::of(text);
        let all = tokens.iter().chain([&self.sql.0]);
        all.fold(None, |found, token| match token.digest.equals(&digest) {
            true => Some(token),
            false => found,
        })
        .cloned()
    }

    /// Counts a wrong token of a peer.
    fn failed(&self, peer: IpAddr) -> Denial {
        match self.failures.count(peer, crate::time::now()) {
            Counted::Below => Denial::Wrong,
            Counted::Reached => {
                tracing::warn!("{peer} presented many wrong tokens within a minute");
                Denial::Wrong
            }
            Counted::Above(seconds) => Denial::TooMany(seconds),
        }
    }

    /// Returns whether a connection that was admitted is still valid: its token has the same scopes and sources, or no
    /// request needs a token, if it has none.
    pub fn is_valid(&self, token: Option<&Arc<Token>>) -> bool {
        match (self.tokens(), token) {
            (Some(tokens), Some(token)) => tokens.iter().any(|valid| Arc::ptr_eq(valid, token)),
            (tokens, token) => tokens.is_none() && token.is_none(),
        }
    }

    /// Reads the file again if it has changed. Called about once a second, on a thread that may block. If the file is
    /// removed, no token is valid until there is a file.
    pub fn refresh(&self) {
        let stamp = Stamp::of(&self.path);
        let mut seen = self.seen.lock().expect("no thread panics while it reads");
        if self.is_open || *seen == stamp {
            return;
        }
        *seen = stamp;
        let entries = match token_file::read(&self.path) {
            Ok(Some(entries)) => entries,
            Ok(None) if !self.is_required() => return,
            Ok(None) => Vec::new(),
            Err(error) => {
                tracing::error!("the tokens stay as they are: {error}");
                return;
            }
        };
        let before = self.tokens();
        let tokens = tokens_of(&entries, before.as_deref());
        report(before.as_deref().unwrap_or_default(), &tokens);
        let mut held = self
            .tokens
            .write()
            .expect("no thread panics while it writes");
        *held = Some(tokens);
    }

    fn tokens(&self) -> Option<Arc<[Arc<Token>]>> {
        let held = self
            .tokens
            .read()
            .expect("no thread panics while it writes");
        held.clone()
    }

    /// Writes the metrics.
    pub fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let reasons = ["missing", "wrong", "limited", "forbidden"];
        let counts = self.denied.iter().map(|count| count.load(Relaxed));
        let help = "Requests and connections denied by the rules of access, by reason";
        let counts: Vec<(&str, u64)> = reasons.into_iter().zip(counts).collect();
        labelled_counters(encoder, "denied_requests", help, "reason", &counts)
    }
}

/// Checks that a server with these settings can start.
///
/// # Errors
/// If the file of the tokens cannot be used, or other hosts can reach a port and there is no token.
pub fn check(settings: &Settings) -> Result<(), String> {
    checked(settings).map(drop)
}

/// Returns the tokens of the file; `None` if there is no file, or requests need no token.
fn checked(settings: &Settings) -> Result<Option<Vec<TokenEntry>>, String> {
    let entries = match settings.access {
        AccessMode::Open => None,
        AccessMode::Tokens | AccessMode::Mixed => token_file::read(&settings.token_file())?,
    };
    settings.check_access(entries.as_ref().map(Vec::len))?;
    Ok(entries)
}

/// Returns the place of a denial among the counters.
fn place(denial: &Denial) -> usize {
    match denial {
        Denial::Missing => 0,
        Denial::Wrong => 1,
        Denial::TooMany(_) => 2,
        Denial::Scope { .. } | Denial::Selector { .. } => 3,
    }
}

/// Returns the tokens of a file. A token that is unchanged stays the same.
fn tokens_of(entries: &[TokenEntry], before: Option<&[Arc<Token>]>) -> Arc<[Arc<Token>]> {
    let before = before.unwrap_or_default();
    let tokens = entries.iter().filter_map(|entry| {
        let token = Token {
            name: entry.name.clone(),
            scopes: entry.scope.clone(),
            // The file was checked.
            selector: match &entry.selector {
                Some(selector) => Some(Selector::parse(selector).ok()?),
                None => None,
            },
            digest: Digest::parse(&entry.sha256)?,
        };
        let same = before.iter().find(|same| same.is_same(&token));
        Some(same.cloned().unwrap_or_else(|| Arc::new(token)))
    });
    tokens.collect()
}

impl Token {
    fn is_same(&self, other: &Token) -> bool {
        let selector = |token: &Token| token.selector.as_ref().map(Selector::to_string);
        self.name == other.name
            && self.scopes == other.scopes
            && selector(self) == selector(other)
            && self.digest.equals(&other.digest)
    }
}

/// Logs which tokens were added and removed. A changed token is removed and added.
fn report(before: &[Arc<Token>], after: &[Arc<Token>]) {
    let is_in = |tokens: &[Arc<Token>], token: &Arc<Token>| {
        tokens.iter().any(|other| Arc::ptr_eq(other, token))
    };
    for token in before.iter().filter(|token| !is_in(after, token)) {
        tracing::info!(target: "audit", "the token {} was revoked or changed", token.name);
    }
    for token in after.iter().filter(|token| !is_in(before, token)) {
        let (name, scopes) = (&token.name, &token.scopes);
        match &token.selector {
            Some(selector) => {
                tracing::info!(target: "audit", "the token {name} has the scope {scopes}, where {selector}");
            }
            None => tracing::info!(target: "audit", "the token {name} has the scope {scopes}"),
        }
    }
}
