//! Middleware of the HTTP port that applies the rules of access, and writes the audit log.

use super::access::Token;
use super::credentials::Credentials;
use super::denial::Denial;
use super::routes::{Rule, rule_of};
use crate::api_error::ApiError;
use crate::app_state::AppState;
use axum::Router;
use axum::body::HttpBody;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderValue, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

/// Maximum number of routers for selectors that are kept.
const ROUTERS: usize = 1000;
/// Parameters that are not logged: user and password of clients of InfluxDB 1, and the usual name of a token.
const SECRET: [&str; 3] = ["u", "p", "token"];

/// Address of the client of a connection, an extension of its requests.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

/// State of the middleware.
pub struct Guard {
    app: Arc<AppState>,
    /// Creates the routes on a view of the store.
    routes: fn(&Arc<AppState>) -> Router<Arc<AppState>>,
    /// Routes for the tokens with a selector, by the selector.
    limited: Mutex<HashMap<String, Router>>,
}

impl Guard {
    /// Creates the state. `routes` creates the routes for a token with a selector.
    pub fn new(
        app: Arc<AppState>,
        routes: fn(&Arc<AppState>) -> Router<Arc<AppState>>,
    ) -> Arc<Guard> {
        Arc::new(Guard {
            app,
            routes,
            limited: Mutex::default(),
        })
    }

    /// Returns the routes on the sources of a token, if it has a selector.
    fn limited(&self, token: Option<&Token>) -> Option<Router> {
        let selector = token?.selector.as_ref()?;
        let mut limited = self
            .limited
            .lock()
            .expect("no thread panics while it makes routes");
        if limited.len() >= ROUTERS {
            limited.clear();
        }
        let made = limited.entry(selector.to_string()).or_insert_with(|| {
            let app = Arc::new(self.app.limited_to(selector));
            (self.routes)(&app)
                .layer(DefaultBodyLimit::disable())
                .with_state(app)
        });
        Some(made.clone())
    }
}

/// Passes permitted requests on to their routes.
pub async fn guard(State(guard): State<Arc<Guard>>, mut request: Request, next: Next) -> Response {
    let Some(rule) = rule_of(request.uri().path()) else {
        return ApiError::internal("this address has no scope, which is a bug of the server")
            .into_response();
    };
    let Some(wanted) = rule.wanted(request.method()) else {
        return next.run(request).await;
    };
    let peer = request.extensions().get::<Peer>();
    let peer = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0);
    let credentials = Credentials::of(request.headers(), request.uri());
    let token = match guard.app.access.admit(&credentials, wanted, peer) {
        Ok(token) => token,
        Err(denial) => return answer(&denial, &request),
    };
    let token = token.as_deref();
    let about = about(rule, &request);
    let response = match guard.limited(token) {
        None => next.run(request).await,
        Some(router) => {
            // The extensions have the parts of the path, which the router adds again.
            request.extensions_mut().clear();
            match TowerToHyperService::new(router).call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        }
    };
    if let Some(about) = about {
        let who = token.map_or("anyone", |token| &token.name);
        let status = response.status().as_u16();
        tracing::info!(target: "audit", "{who} from {peer}: {about}, answered {status}");
    }
    response
}

/// Returns the answer to a request that is denied. Its connection is closed if its body was not read.
fn answer(denial: &Denial, request: &Request) -> Response {
    let mut response = denial.into_response();
    if !request.body().is_end_stream() {
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Returns the text of a request in the audit log.
fn about(rule: &Rule, request: &Request) -> Option<String> {
    let text = || format!("{} {}", request.method(), without_secrets(request.uri()));
    rule.is_audited.then(text)
}

/// Returns an address without user and password. Control characters stay encoded.
fn without_secrets(uri: &Uri) -> String {
    let Some(query) = uri.query() else {
        return uri.path().to_string();
    };
    let is_secret = |pair: &&str| {
        let name = pair.split_once('=').map_or(*pair, |(name, _)| name);
        let name = form_urlencoded::parse(name.as_bytes()).next();
        name.is_some_and(|(name, _)| SECRET.contains(&&*name))
    };
    let pairs: Vec<&str> = query.split('&').filter(|pair| !is_secret(pair)).collect();
    format!("{}?{}", uri.path(), pairs.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_logged() {
        for (uri, logged) in [
            ("/api/v1/flush", "/api/v1/flush"),
            ("/d?select=cpu&u=a&p=b&to=1", "/d?select=cpu&to=1"),
            ("/d?%70=b&up=1", "/d?up=1"),
            ("/d?p", "/d?"),
            ("/d?token=b&to=1", "/d?to=1"),
        ] {
            assert_eq!(without_secrets(&uri.parse().unwrap()), logged);
        }
    }
}
