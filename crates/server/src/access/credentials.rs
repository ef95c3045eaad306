//! Token of a request, in any of the forms that clients use.

use axum::http::{HeaderMap, HeaderValue, Uri, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Addresses of InfluxDB 1, whose clients may send user and password as parameters.
const WITH_PARAMETERS: [&str; 2] = ["/write", "/query"];

/// Token of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Credentials {
    /// None.
    Missing,
    /// Text that may be a token.
    Token(String),
    /// Header in an unknown form, or several headers.
    Unreadable,
}

impl Credentials {
    /// Returns the token of the header `Authorization`, or of the parameter `p`.
    pub fn of(headers: &HeaderMap, uri: &Uri) -> Credentials {
        match Credentials::of_headers(headers) {
            Credentials::Missing if WITH_PARAMETERS.contains(&uri.path()) => of_parameters(uri),
            found => found,
        }
    }

    /// Returns the token of the header `Authorization`.
    pub fn of_headers(headers: &HeaderMap) -> Credentials {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        match (values.next(), values.next()) {
            (None, _) => Credentials::Missing,
            (Some(value), None) => {
                of_value(value).map_or(Credentials::Unreadable, Credentials::Token)
            }
            (Some(_), Some(_)) => Credentials::Unreadable,
        }
    }
}

fn of_value(value: &HeaderValue) -> Option<String> {
    let (scheme, rest) = value.to_str().ok()?.trim().split_once(' ')?;
    let rest = rest.trim();
    match scheme.to_ascii_lowercase().as_str() {
        "bearer" => Some(rest.to_string()),
        // Clients of InfluxDB 2 send user and password in this form to a server of version 1.
        "token" => Some(password(rest).unwrap_or(rest).to_string()),
        "basic" => {
            let decoded = String::from_utf8(STANDARD.decode(rest).ok()?).ok()?;
            password(&decoded).map(str::to_string)
        }
        _ => None,
    }
}

/// Returns the password of `user:password`. A token contains no colon.
fn password(text: &str) -> Option<&str> {
    text.split_once(':').map(|(_, password)| password)
}

fn of_parameters(uri: &Uri) -> Credentials {
    let pairs = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let mut passwords = pairs.filter(|(name, _)| name == "p");
    match (passwords.next(), passwords.next()) {
        (None, _) => Credentials::Missing,
        (Some((_, text)), None) => Credentials::Token(text.into_owned()),
        (Some(_), Some(_)) => Credentials::Unreadable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(uri: &str, values: &[&str]) -> Credentials {
        let mut headers = HeaderMap::new();
        for value in values {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            headers.append(header::AUTHORIZATION, value);
        }
        Credentials::of(&headers, &uri.parse().unwrap())
    }

    #[test]
    fn every_form_of_a_token_is_read() {
        let token = Credentials::Token("seiner_x".to_string());
        let basic = format!("Basic {}", STANDARD.encode("ann:seiner_x"));
        for value in [
            "Token seiner_x",
            "token  seiner_x ",
            "Bearer seiner_x",
            "bearer seiner_x",
            "Token ann:seiner_x",
            &basic,
        ] {
            assert_eq!(of("/x", &[value]), token, "{value}");
        }
        assert_eq!(of("/write?db=a&u=ann&p=seiner_x", &[]), token);
        assert_eq!(of("/query?q=x&p=seiner_x", &[]), token);
        // The header counts.
        assert_eq!(of("/query?p=other", &["Token seiner_x"]), token);
    }

    proptest::proptest! {
        #[test]
        fn any_header_and_address_can_be_read(value in "\\PC{0,80}", query in "[ -~]{0,40}") {
            let mut headers = HeaderMap::new();
            if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
                headers.append(header::AUTHORIZATION, value);
            }
            if let Ok(uri) = format!("/write?{query}").parse() {
                Credentials::of(&headers, &uri);
            }
            // A server of Basic credentials returns what a client encoded.
            let basic = format!("Basic {}", STANDARD.encode(format!("user:{value}")));
            assert_eq!(of("/x", &[&basic]), Credentials::Token(value));
        }
    }

    #[test]
    fn other_texts_are_no_tokens() {
        for (uri, values, expected) in [
            ("/x", &[][..], Credentials::Missing),
            ("/api/v1/query?p=seiner_x", &[], Credentials::Missing),
            ("/write?p=a&p=b", &[], Credentials::Unreadable),
            ("/x", &["Token a", "Token b"], Credentials::Unreadable),
            ("/x", &["seiner_x"], Credentials::Unreadable),
            ("/x", &["Digest seiner_x"], Credentials::Unreadable),
            ("/x", &["Basic %%%"], Credentials::Unreadable),
            ("/x", &["Basic YW5u"], Credentials::Unreadable),
            ("/x", &["Basic /////w=="], Credentials::Unreadable),
            ("/x", &["Bearer ä"], Credentials::Unreadable),
        ] {
            assert_eq!(of(uri, values), expected, "{uri} {values:?}");
        }
    }
}
