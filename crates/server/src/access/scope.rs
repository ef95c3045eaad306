//! Scopes: kinds of requests that a token permits.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Kind of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Queries, names, metrics and the status.
    Read,
    /// Writes.
    Write,
    /// Deletes, flushes, acknowledgements and the clock. Includes the other scopes.
    Admin,
}

impl Scope {
    const ALL: [Scope; 3] = [Scope::Read, Scope::Write, Scope::Admin];

    /// Returns the name: `read`, `write` or `admin`.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Write => "write",
            Scope::Admin => "admin",
        }
    }
}

/// Scopes of a token, at least one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Scopes(Vec<Scope>);

impl Scopes {
    /// Parses names of scopes, separated by commas, such as `read,write`.
    ///
    /// # Errors
    /// The name that is no scope, with the names of all scopes.
    pub fn parse(text: &str) -> Result<Scopes, String> {
        let mut scopes = Vec::new();
        for name in text.split(',').map(str::trim) {
            let scope = Scope::ALL.into_iter().find(|scope| scope.name() == name);
            let scope = scope.ok_or_else(|| {
                format!("{name:?} is not a scope; write one or more of read, write and admin, such as read,write")
            })?;
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
        Ok(Scopes(scopes))
    }

    /// Returns the scopes of this list only.
    pub fn of(scopes: &[Scope]) -> Scopes {
        Scopes(scopes.to_vec())
    }

    /// Returns whether requests of a scope are permitted.
    pub fn permit(&self, scope: Scope) -> bool {
        self.0.contains(&scope) || self.0.contains(&Scope::Admin)
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|scope| scope.name()).collect();
        f.write_str(&names.join(","))
    }
}

impl TryFrom<String> for Scopes {
    type Error = String;

    fn try_from(text: String) -> Result<Scopes, String> {
        Scopes::parse(&text)
    }
}

impl From<Scopes> for String {
    fn from(scopes: Scopes) -> String {
        scopes.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_includes_the_other_scopes_and_they_do_not_include_each_other() {
        let permitted = |text: &str| {
            let scopes = Scopes::parse(text).unwrap();
            Scope::ALL.map(|scope| scopes.permit(scope))
        };
        assert_eq!(permitted("read"), [true, false, false]);
        assert_eq!(permitted("write"), [false, true, false]);
        assert_eq!(permitted("write, read,read"), [true, true, false]);
        assert_eq!(permitted("admin"), [true, true, true]);
        for wrong in ["", "reed", "read,", "Read", "read write"] {
            let error = Scopes::parse(wrong).unwrap_err();
            assert!(error.contains("read, write and admin"), "{error}");
        }
    }
}
