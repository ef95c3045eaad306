//! Ids of requests: from the header `X-Request-Id`, or generated.
//!
//! An id is at most 64 characters of a small set, so that it can stand in a header, in JSON and in a log line as it is.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use std::fmt;
use std::sync::LazyLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::UNIX_EPOCH;
use tokio_rustls::rustls::crypto::ring::default_provider;

/// Header of requests and answers.
pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Maximum length of an id.
const MAX_LENGTH: usize = 64;
/// Characters of generated ids.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Number of digits that stand for a run of the process: 40 bits.
const RUN_DIGITS: usize = 8;

/// Id of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(HeaderValue);

impl RequestId {
    /// Returns the id that a request states, if it is valid, or a new one.
    pub fn of(headers: &HeaderMap) -> RequestId {
        match headers.get(HEADER) {
            Some(stated) if is_valid(stated.as_bytes()) => RequestId(stated.clone()),
            _ => RequestId::generate(),
        }
    }

    /// Returns a new id: digits of this run of the process, and the number of the request.
    pub fn generate() -> RequestId {
        static RUN: LazyLock<u64> = LazyLock::new(run);
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut text = Vec::with_capacity(RUN_DIGITS + 8);
        put_digits(&mut text, *RUN, RUN_DIGITS);
        text.push(b'-');
        let number = NEXT.fetch_add(1, Relaxed);
        put_digits(&mut text, number, digits_of(number));
        let value = HeaderValue::from_maybe_shared(axum::body::Bytes::from(text));
        RequestId(value.expect("digits are valid in a header"))
    }

    /// Returns the id as the value of a header.
    pub fn value(&self) -> HeaderValue {
        self.0.clone()
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        self.0.to_str().expect("an id consists of visible ASCII")
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn is_valid(id: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    (1..=MAX_LENGTH).contains(&id.len()) && id.iter().all(is_plain)
}

/// Returns a random number for this run of the process; the time if the system gives no random bytes.
fn run() -> u64 {
    let mut bytes = [0; 8];
    match default_provider().secure_random.fill(&mut bytes) {
        Ok(()) => u64::from_le_bytes(bytes),
        Err(_) => {
            let since = crate::time::wall().duration_since(UNIX_EPOCH);
            since.map_or(0, |since| since.as_micros() as u64)
        }
    }
}

fn digits_of(number: u64) -> usize {
    (64 - number.leading_zeros() as usize).div_ceil(5).max(1)
}

/// Appends the last digits of a number.
fn put_digits(text: &mut Vec<u8>, number: u64, digits: usize) {
    let places = (0..digits).rev();
    text.extend(places.map(|place| DIGITS[(number >> (5 * place)) as usize & 31]));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn of(value: &[u8]) -> RequestId {
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, HeaderValue::from_bytes(value).unwrap());
        RequestId::of(&headers)
    }

    #[test]
    fn valid_ids_are_kept_and_others_replaced() {
        let longest = "x".repeat(MAX_LENGTH);
        for kept in [
            "a",
            "7f3e-11.A_z",
            "550e8400-e29b-41d4-a716-446655440000",
            &longest,
        ] {
            assert_eq!(of(kept.as_bytes()).as_str(), kept);
        }
        let too_long = "x".repeat(MAX_LENGTH + 1);
        for replaced in ["", "a b", "a\"b", "a,b", "a/b", "\u{e4}", "a\tb", &too_long] {
            let id = of(replaced.as_bytes());
            assert_ne!(id.as_str(), replaced);
            assert!(is_valid(id.as_str().as_bytes()), "{id}");
        }
    }

    #[test]
    fn generated_ids_are_short_and_differ() {
        let ids: Vec<RequestId> = (0..1000).map(|_| RequestId::generate()).collect();
        let texts: HashSet<&str> = ids.iter().map(RequestId::as_str).collect();
        assert_eq!(texts.len(), ids.len());
        assert!(texts.iter().all(|text| (10..20).contains(&text.len())));
        // Each run of the process has digits of its own.
        let run = |id: &str| id.split_once('-').unwrap().0.to_string();
        let runs: HashSet<String> = texts.iter().map(|id| run(id)).collect();
        assert_eq!(runs.len(), 1);
        assert_ne!(super::run(), super::run());
    }

    #[test]
    fn digits_are_the_last_of_the_number() {
        let text = |number, digits| {
            let mut text = Vec::new();
            put_digits(&mut text, number, digits);
            String::from_utf8(text).unwrap()
        };
        assert_eq!(text(0, digits_of(0)), "0");
        assert_eq!(text(31, digits_of(31)), "z");
        assert_eq!(text(32, digits_of(32)), "10");
        assert_eq!(text(u64::MAX, digits_of(u64::MAX)), "fzzzzzzzzzzzz");
        assert_eq!(text(33, RUN_DIGITS), "00000011");
    }
}
