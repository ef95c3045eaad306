//! Text of a token, and the hash under which a server knows the token.
//!
//! A token contains 256 random bits. SHA-256 is the right hash for such a text: nobody can try out 2^256 texts, so a slow
//! hash, which passwords need, would only cost time at every request.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use std::fmt;
use subtle::ConstantTimeEq;
use tokio_rustls::rustls::crypto::ring::default_provider;

/// Beginning of every token, by which scanners for leaked credentials recognise tokens.
const PREFIX: &str = "seiner_";
/// Random bytes of a token.
const BYTES: usize = 32;
/// Maximum length of a text that may be a token. A longer text is not hashed.
pub const MAX_TEXT: usize = 256;

/// Creates the text of a token.
///
/// # Errors
/// If the system gives no random bytes.
pub fn generate() -> Result<String, String> {
    let mut bytes = [0; BYTES];
    let filled = default_provider().secure_random.fill(&mut bytes);
    filled.map_err(|_| "the system gives no random bytes".to_string())?;
    Ok(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// SHA-256 of a token's text.
#[derive(Clone)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Returns the hash of a text.
    pub fn of(text: &str) -> Digest {
        Digest(Sha256::digest(text).into())
    }

    /// Parses 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Digest> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let high = char::from(pair[0]).to_digit(16)?;
            let low = char::from(pair[1]).to_digit(16)?;
            *byte = (high << 4 | low) as u8;
        }
        Some(Digest(bytes))
    }

    /// Returns whether two hashes are equal, in a time that does not depend on the bytes.
    pub fn equals(&self, other: &Digest) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_are_known_by_their_hash() {
        let (one, other) = (generate().unwrap(), generate().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.len(), PREFIX.len() + 43);
        let digest = Digest::of(&one);
        let read = Digest::parse(&digest.to_string()).unwrap();
        assert!(read.equals(&Digest::of(&one)));
        assert!(!read.equals(&Digest::of(&other)));
    }

    #[test]
    fn hashes_are_those_of_other_programs() {
        let of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::of("abc").to_string(), of_abc);
        for wrong in ["", "ba78", &of_abc[1..], &of_abc.replace('b', "g")] {
            assert!(Digest::parse(wrong).is_none(), "{wrong}");
        }
    }
}
