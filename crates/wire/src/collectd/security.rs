//! Signed and encrypted packets.

use aes::Aes256;
use hmac::{Hmac, KeyInit, Mac};
use ofb::Ofb;
use ofb::cipher::{KeyIvInit, StreamCipher};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Bytes of a signature, of an initial vector, and of the checksum of encrypted parts.
const SIGNATURE: usize = 32;
const VECTOR: usize = 16;
const CHECKSUM: usize = 20;

/// Protection that packets must have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// None. Signatures with a known user are verified.
    #[default]
    None,
    /// A signature, or encryption.
    Sign,
    /// Encryption.
    Encrypt,
}

/// Protection that packets must have, and the passwords of users.
#[derive(Clone, Default)]
pub struct Security {
    /// Level of protection.
    pub level: Level,
    users: BTreeMap<String, String>,
}

impl Security {
    /// Creates the rules for packets. `users` has lines `user: password`, as the file of collectd's `AuthFile`.
    ///
    /// # Errors
    /// The first line that is malformed: a sentence with its number.
    pub fn new(level: Level, users: &str) -> Result<Security, String> {
        let mut known = BTreeMap::new();
        for (at, line) in users.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match line.split_once(':') {
                Some((user, password)) if !user.is_empty() && !password.trim().is_empty() => {
                    known.insert(user.trim().to_string(), password.trim().to_string());
                }
                _ => return Err(format!("line {} is not `user: password`", at + 1)),
            }
        }
        match level > Level::None && known.is_empty() {
            true => Err("there is no user; write lines `user: password`".to_string()),
            false => Ok(Security {
                level,
                users: known,
            }),
        }
    }

    /// Verifies the signature of a packet. `content` is that of the part with the signature, and `rest` is the rest of
    /// the packet. Returns whether the signature was verified: without protection, that of an unknown user is not.
    ///
    /// # Errors
    /// If the signature is wrong, or if the user is unknown and packets must be protected.
    pub(super) fn verify(&self, content: &[u8], rest: &[u8]) -> Result<bool, String> {
        let (signature, user) = content
            .split_at_checked(SIGNATURE)
            .ok_or("a signature is cut off")?;
        let password = match self.password(user) {
            Ok(password) => password,
            Err(_) if self.level == Level::None => return Ok(false),
            Err(error) => return Err(error),
        };
        let mut mac = Hmac::<Sha256>::new_from_slice(password.as_bytes())
            .map_err(|error| error.to_string())?;
        mac.update(user);
        mac.update(rest);
        match mac.verify_slice(signature) {
            Ok(()) => Ok(true),
            Err(_) => {
                Err("the signature is wrong; compare the passwords of both sides".to_string())
            }
        }
    }

    /// Decrypts the content of an encrypted part.
    ///
    /// # Errors
    /// If the content is cut off, the user is unknown, or the password is another one.
    pub(super) fn decrypt(&self, content: &[u8]) -> Result<Vec<u8>, String> {
        let cut = || "an encrypted part is cut off".to_string();
        let (len, rest) = content.split_first_chunk::<2>().ok_or_else(cut)?;
        let len = usize::from(u16::from_be_bytes(*len));
        let (user, rest) = rest.split_at_checked(len).ok_or_else(cut)?;
        let (vector, rest) = rest.split_at_checked(VECTOR).ok_or_else(cut)?;
        let key = Sha256::digest(self.password(user)?.as_bytes());
        let mut cipher =
            Ofb::<Aes256>::new_from_slices(&key, vector).map_err(|error| error.to_string())?;
        let mut plain = rest.to_vec();
        cipher.apply_keystream(&mut plain);
        let (checksum, parts) = plain.split_at_checked(CHECKSUM).ok_or_else(cut)?;
        match checksum == Sha1::digest(parts).as_slice() {
            true => Ok(parts.to_vec()),
            false => Err(
                "the checksum of an encrypted part is wrong; compare the passwords of both sides"
                    .to_string(),
            ),
        }
    }

    fn password(&self, user: &[u8]) -> Result<&str, String> {
        let text = String::from_utf8_lossy(user);
        let password = self.users.get(&*text);
        password
            .map(String::as_str)
            .ok_or_else(|| format!("user {text:?} is unknown; add it to collectd_auth_file"))
    }
}
