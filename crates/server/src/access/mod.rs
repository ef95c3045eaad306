//! Access: which requests need a token, and what a token permits.
//!
//! Every listener asks [`Access`] for admission. Addresses of HTTP have their scopes in one table (`routes.rs`), and
//! a middleware of the router applies the table. A token with a selector works on a view of the store that contains
//! the selected sources only ([`LimitedStore`]).

#[expect(clippy::module_inception)]
mod access;
mod credentials;
mod denial;
mod failures;
mod guard;
mod limited;
mod routes;
mod scope;
mod token;
mod token_file;

pub use access::{Access, Token, Wanted, check};
pub use credentials::Credentials;
pub use denial::Denial;
pub use guard::{Guard, Peer, guard};
pub use limited::LimitedStore;
pub use routes::rule_of;
pub use scope::{Scope, Scopes};
pub use token::{Digest, generate};
pub use token_file::{TokenEntry, change, read};
