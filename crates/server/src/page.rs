//! Web page: files that the build of the `web` folder made, as part of the program.

use crate::api_error::ApiError;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use rust_embed::RustEmbed;

/// Files of the built page. Without them the crate builds as well: see its README.
#[derive(RustEmbed)]
#[folder = "dist"]
#[allow_missing = true]
struct Files;

const MISSING: &str = "The page is not part of this build. Build it with `npm ci && npm run build` in the folder web, \
                       then build the program again; or take `make serve`, which does both.\n";

/// Content security policy: the page uses its own files and its own server only.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Returns the file with a path; `/` is the page itself.
pub async fn file(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let path = match uri.path().trim_start_matches('/') {
        "" => "index.html",
        path => path,
    };
    let file = Files::get(path);
    if !matches!(method, Method::GET | Method::HEAD) && (file.is_some() || path == "index.html") {
        let error = ApiError::other_method("a file of the page can only be read; use GET");
        return ([(header::ALLOW, "GET, HEAD")], error).into_response();
    }
    let Some(file) = file else {
        if path == "index.html" {
            return (
                StatusCode::OK,
                [(header::CONTENT_TYPE, "text/plain; charset=utf-8")],
                MISSING,
            )
                .into_response();
        }
        return ApiError::not_found(format!(
            "there is nothing at /{path}; write lines to /write, and query with /api/v1/query"
        ))
        .into_response();
    };
    let tag = format!("\"{}\"", hex(&file.metadata.sha256_hash()[..12]));
    // Names of assets change with their contents; the name of the page does not.
    let caching = if path.starts_with("assets/") {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    let known = headers
        .get(header::IF_NONE_MATCH)
        .is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let common = [
        (header::CONTENT_TYPE, content_type(path)),
        (header::ETAG, tag.as_str()),
        (header::CACHE_CONTROL, caching),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ];
    if known {
        return (StatusCode::NOT_MODIFIED, common).into_response();
    }
    (common, file.data.into_owned()).into_response()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}
