//! Scope of every address of HTTP.
//!
//! An address that is missing in the table answers no request. Files of the page have no route and are open.

use super::access::Wanted;
use super::scope::Scope;
use crate::http::OLD_FLUSH;
use axum::http::Method;

/// Rule for an address.
#[derive(Clone, Copy)]
pub struct Rule {
    /// Permission that a request needs; `None` if the address is open.
    pub wanted: Option<Wanted>,
    /// Permission that a request with another method than GET and HEAD needs, if it differs.
    pub to_change: Option<Wanted>,
    /// True if requests are written to the audit log.
    pub is_audited: bool,
}

impl Rule {
    /// Returns the permission that a request with a method needs; `None` if the address is open.
    pub fn wanted(&self, method: &Method) -> Option<Wanted> {
        match matches!(*method, Method::GET | Method::HEAD) {
            true => self.wanted,
            false => self.to_change.or(self.wanted),
        }
    }
}

const OPEN: Rule = Rule {
    wanted: None,
    to_change: None,
    is_audited: false,
};
/// Facts about the server that every client needs, whatever it does.
const ANY: Rule = rule(None, true, false);
const READ: Rule = rule(Some(Scope::Read), true, false);
/// Answers about the store as a whole, which a selector cannot limit.
const READ_ALL: Rule = rule(Some(Scope::Read), false, false);
const WRITE: Rule = rule(Some(Scope::Write), true, false);
/// Documents that some read and others write.
const DOCUMENT: Rule = Rule {
    to_change: WRITE.wanted,
    ..READ
};
const DELETE: Rule = rule(Some(Scope::Admin), true, true);
const ADMIN: Rule = rule(Some(Scope::Admin), false, true);

const fn rule(scope: Option<Scope>, is_limitable: bool, is_audited: bool) -> Rule {
    Rule {
        wanted: Some(Wanted {
            scope,
            is_limitable,
        }),
        to_change: None,
        is_audited,
    }
}

/// Addresses with their rules. A part in braces stands for any text without a slash.
const TABLE: [(&str, Rule); 60] = [
    ("/ping", OPEN),
    ("/health", OPEN),
    ("/ready", OPEN),
    ("/prometheus/-/healthy", OPEN),
    ("/prometheus/-/ready", OPEN),
    // Needs the secret of the cluster instead.
    ("/cluster/{request}", OPEN),
    ("/ports", ANY),
    ("/api/v2/buckets", ANY),
    ("/api/v2/orgs", ANY),
    ("/api/version", ANY),
    ("/opentsdb/api/version", ANY),
    ("/prometheus/api/v1/status/buildinfo", ANY),
    ("/write", WRITE),
    ("/api/v2/write", WRITE),
    ("/api/v3/write_lp", WRITE),
    ("/api/v1/write", WRITE),
    ("/prometheus/api/v1/write", WRITE),
    ("/v1/metrics", WRITE),
    ("/opentelemetry/v1/metrics", WRITE),
    ("/prometheus/api/v1/otlp/v1/metrics", WRITE),
    ("/api/put", WRITE),
    ("/opentsdb/api/put", WRITE),
    ("/query", READ),
    ("/api/v1/query", READ),
    ("/api/v1/latest", READ),
    ("/api/v1/measurements", READ),
    ("/api/v1/tags", READ),
    ("/api/v1/values", READ),
    ("/api/v1/fields", READ),
    ("/api/v1/sources", READ),
    ("/api/v1/summary", READ),
    ("/api/v1/range", READ),
    ("/api/v1/dashboards", READ),
    ("/api/v1/dashboards/{name}", DOCUMENT),
    ("/prometheus/api/v1/query", READ),
    ("/prometheus/api/v1/query_range", READ),
    ("/prometheus/api/v1/format_query", READ),
    ("/prometheus/api/v1/series", READ),
    ("/prometheus/api/v1/labels", READ),
    ("/prometheus/api/v1/label/{name}/values", READ),
    ("/prometheus/api/v1/read", READ),
    ("/prometheus/api/v1/query_exemplars", READ),
    ("/prometheus/api/v1/rules", READ_ALL),
    ("/prometheus/api/v1/alerts", READ_ALL),
    ("/prometheus/api/v1/metadata", READ_ALL),
    ("/prometheus/api/v1/targets", READ_ALL),
    ("/prometheus/api/v1/scrape_pools", READ_ALL),
    ("/api/v1/sql", READ_ALL),
    ("/api/v1/plan", READ_ALL),
    ("/api/v1/log", READ_ALL),
    ("/api/v1/log/why", READ_ALL),
    ("/api/v1/log/trace", READ_ALL),
    ("/metrics", READ_ALL),
    ("/status", READ_ALL),
    ("/api/v1/delete", DELETE),
    ("/api/v2/delete", DELETE),
    ("/api/v1/flush", ADMIN),
    (OLD_FLUSH, ADMIN),
    ("/api/v1/clock", ADMIN),
    ("/api/v1/acknowledge", ADMIN),
];

/// Path below which Prometheus' addresses are. Paths without a route have an answer of their own there.
const PROMETHEUS: &str = "/prometheus/api/v1";

/// Returns the rule for the path of a request, if the path is that of a route.
pub fn rule_of(path: &str) -> Option<&'static Rule> {
    let mut table = TABLE.iter();
    let found = table.find(|(pattern, _)| matches(pattern, path));
    let unknown = path.starts_with(PROMETHEUS).then_some(&READ_ALL);
    found.map(|(_, rule)| rule).or(unknown)
}

fn matches(pattern: &str, path: &str) -> bool {
    let (mut wanted, mut given) = (pattern.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(wanted), Some(given)) if wanted == given => {}
            (Some(wanted), Some(given)) if wanted.starts_with('{') && !given.is_empty() => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;
    use crate::app_state::{AppState, Extensions};
    use crate::http;
    use crate::settings::Settings;
    use seiner_store::MemoryStore;
    use std::sync::Arc;

    /// Returns the paths of all routes, from the router's text for debugging: `RouteId(3): "/write"`.
    fn paths() -> Vec<String> {
        let store = Arc::new(MemoryStore::new());
        let settings = Settings::default();
        let access = Access::open(&settings).unwrap();
        let app = AppState::new(store, Extensions::default(), settings, (access, None));
        let text = format!("{:?}", http::routes(&Arc::new(app)));
        let parts = text.split("RouteId(").skip(1);
        let paths = parts.filter_map(|part| {
            let (number, rest) = part.split_once("): \"")?;
            number.parse::<u32>().ok()?;
            Some(rest.split_once('"')?.0.to_string())
        });
        // Fallbacks have paths as well.
        let is_fallback = |path: &String| {
            path == "/" || path.trim_end_matches('/') == PROMETHEUS || path.contains('*')
        };
        paths.filter(|path| !is_fallback(path)).collect()
    }

    #[test]
    fn every_route_has_a_rule_and_every_rule_has_a_route() {
        let paths = paths();
        assert!(paths.len() >= 50, "{paths:?}");
        for path in &paths {
            let has_scope = TABLE.iter().any(|(pattern, _)| pattern == path);
            assert!(has_scope, "{path} has no scope");
        }
        for (pattern, _) in &TABLE {
            let is_route = paths.iter().any(|path| path == pattern);
            assert!(is_route, "{pattern} is no route");
        }
    }

    #[test]
    fn a_document_is_read_with_another_scope_than_it_is_changed() {
        let rule = rule_of("/api/v1/dashboards/a").unwrap();
        let scope = |method| rule.wanted(&method).unwrap().scope;
        assert_eq!(scope(Method::GET), Some(Scope::Read));
        assert_eq!(scope(Method::HEAD), Some(Scope::Read));
        for method in [Method::PUT, Method::DELETE, Method::POST] {
            assert_eq!(scope(method), Some(Scope::Write));
        }
    }

    #[test]
    fn patterns_match_whole_paths() {
        for (path, is_known) in [
            ("/prometheus/api/v1/label/host/values", true),
            ("/api/v1/log//", false),
            ("/api/v1/log/why/x", false),
            ("/write", true),
            ("/write/", false),
            ("//write", false),
            ("/Write", false),
            ("/", false),
            ("/prometheus/api/v1/unknown", true),
        ] {
            assert_eq!(rule_of(path).is_some(), is_known, "{path}");
        }
    }
}
