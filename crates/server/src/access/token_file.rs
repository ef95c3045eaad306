//! File with the tokens of a server, in TOML.
//!
//! The file contains hashes, never the text of a token. A change writes a new file and renames it, so a reader sees the
//! old or the new contents. Changes of several processes are in order, by a lock on the directory.

use super::scope::Scopes;
use super::token::Digest;
use seiner_model::Selector;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{
    DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, fchown,
};
use std::path::{Path, PathBuf};

/// Version of the format.
const VERSION: u32 = 1;
/// Maximum length of the file, bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Maximum number of tokens.
const MAX_TOKENS: usize = 1000;
/// Maximum length of a name, in bytes.
const MAX_NAME: usize = 64;
/// Bits of the mode that let others change the file.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Token in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenEntry {
    /// Name, unique in the file.
    pub name: String,
    /// Permitted requests.
    pub scope: Scopes,
    /// Selector of the sources that the token may read and write; `None` for all.
    #[serde(rename = "where", default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// SHA-256 of the token's text, in hexadecimal digits.
    pub sha256: String,
    /// Time of creation.
    pub created: String,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    version: u32,
    #[serde(default)]
    token: Vec<TokenEntry>,
}

impl TokenEntry {
    /// Checks the values of an entry.
    ///
    /// # Errors
    /// The wrong value and the remedy.
    pub fn check(&self) -> Result<(), String> {
        let name = &self.name;
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_good) {
            return Err(format!(
                "{name:?} is not a name of a token; take 1 to {MAX_NAME} letters, digits, and `-`, `_` or `.`"
            ));
        }
        if let Some(selector) = &self.selector {
            Selector::parse(selector).map_err(|error| format!("where of token {name}: {error}"))?;
        }
        match Digest::parse(&self.sha256) {
            Some(_) => Ok(()),
            None => Err(format!(
                "sha256 of token {name} has not 64 hexadecimal digits; revoke the token, and create it again"
            )),
        }
    }
}

/// Reads the tokens; `None` if there is no file.
///
/// # Errors
/// A sentence with the file and the remedy.
pub fn read(path: &Path) -> Result<Option<Vec<TokenEntry>>, String> {
    let wrong = |why: String| format!("{}: {why}", path.display());
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(error.to_string())),
    };
    let metadata = file.metadata().map_err(|error| wrong(error.to_string()))?;
    if metadata.mode() & WRITABLE_BY_OTHERS != 0 {
        return Err(wrong(format!(
            "other users may change the file; run `chmod 600 {}`",
            path.display()
        )));
    }
    let mut text = String::new();
    let mut limited = file.take(MAX_BYTES + 1);
    let length = limited.read_to_string(&mut text);
    if length.map_err(|error| wrong(error.to_string()))? as u64 > MAX_BYTES {
        return Err(wrong("the file is longer than 1 MiB".to_string()));
    }
    parse(&text).map(Some).map_err(wrong)
}

fn parse(text: &str) -> Result<Vec<TokenEntry>, String> {
    let contents: Contents = toml::from_str(text).map_err(|error| error.to_string())?;
    if contents.version != VERSION {
        return Err(format!(
            "the version is {}, and this program reads version {VERSION}; use the program that wrote the file",
            contents.version
        ));
    }
    if contents.token.len() > MAX_TOKENS {
        return Err(format!("there are more than {MAX_TOKENS} tokens"));
    }
    for (index, entry) in contents.token.iter().enumerate() {
        entry.check()?;
        let earlier = &contents.token[..index];
        if earlier.iter().any(|earlier| earlier.name == entry.name) {
            return Err(format!("there are two tokens {}; remove one", entry.name));
        }
    }
    Ok(contents.token)
}

/// Changes the tokens. Creates the file, with mode 0600, and its directory if they are missing. The file belongs to the
/// owner of the directory, so that root can change the tokens of a server with a user of its own.
///
/// # Errors
/// The error of the change, or a sentence with the file.
pub fn change<T>(
    path: &Path,
    change: impl FnOnce(&mut Vec<TokenEntry>) -> Result<T, String>,
) -> Result<T, String> {
    let wrong = |error: io::Error| format!("{}: {error}", path.display());
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    make(folder).map_err(wrong)?;
    let lock = File::open(folder).map_err(wrong)?;
    lock.lock().map_err(wrong)?;
    let mut token = read(path)?.unwrap_or_default();
    let result = change(&mut token)?;
    if token.len() > MAX_TOKENS {
        return Err(format!(
            "there are {MAX_TOKENS} tokens already; revoke one with `seiner token revoke NAME`"
        ));
    }
    let version = VERSION;
    let text = toml::to_string(&Contents { version, token }).map_err(|error| error.to_string())?;
    write(path, &text, &lock).map_err(wrong)?;
    Ok(result)
}

/// Creates a directory and the missing ones above it. New directories belong to the owner of the first one that exists.
fn make(folder: &Path) -> io::Result<()> {
    let mut missing = Vec::new();
    let mut above = folder;
    while !above.exists() {
        missing.push(above);
        match above.parent() {
            Some(parent) if parent != Path::new("") => above = parent,
            _ => {
                above = Path::new(".");
                break;
            }
        }
    }
    let owner = fs::metadata(above)?;
    for folder in missing.into_iter().rev() {
        DirBuilder::new().mode(0o750).create(folder)?;
        // Only root may give a directory away.
        _ = chown(folder, Some(owner.uid()), Some(owner.gid()));
    }
    Ok(())
}

fn write(path: &Path, text: &str, folder: &File) -> io::Result<()> {
    let new = PathBuf::from(format!("{}.new", path.display()));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&new)?;
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    let owner = folder.metadata()?;
    // Only root may give a file away. Another user is the owner already, or keeps the file.
    _ = fchown(&file, Some(owner.uid()), Some(owner.gid()));
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    folder.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> TokenEntry {
        TokenEntry {
            name: name.to_string(),
            scope: Scopes::parse("read,write").unwrap(),
            selector: Some("cpu{host=\"a\"}".to_string()),
            sha256: Digest::of(name).to_string(),
            created: "2026-01-01T00:00:00Z".to_string(),
        }
    }

    #[test]
    fn tokens_are_kept_in_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/data/access.toml");
        assert_eq!(read(&path), Ok(None));
        for name in ["a", "b"] {
            change(&path, |tokens| {
                tokens.push(entry(name));
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(read(&path), Ok(Some(vec![entry("a"), entry("b")])));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("version = 1\n"), "{text}");
        let failed = change(&path, |tokens| {
            tokens.clear();
            Err::<(), _>("no".to_string())
        });
        assert_eq!(failed, Err("no".to_string()));
        assert_eq!(read(&path).unwrap().unwrap().len(), 2);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
        assert!(read(&path).unwrap_err().contains("chmod 600"));
    }

    #[test]
    fn wrong_files_are_rejected_with_the_reason() {
        let of = |entry: &TokenEntry| {
            let token = vec![entry.clone()];
            toml::to_string(&Contents { version: 1, token }).unwrap()
        };
        let good = of(&entry("a"));
        assert!(parse(&good).is_ok());
        let twice = format!("{good}{}", good.replace("version = 1\n", ""));
        for (text, part) in [
            ("", "version"),
            ("version = 2", "version is 2"),
            (&good.replace("read,write", "all"), "read, write and admin"),
            (&good.replace("host=", "host"), "where of token a"),
            (
                &good.replace("sha256 = \"", "sha256 = \"x"),
                "64 hexadecimal",
            ),
            (&good.replace("name = \"a\"", "name = \"a b\""), "letters"),
            (&good.replace("where", "were"), "were"),
            (&twice, "two tokens a"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
