//! The page `/docs`: reads the end points from the OpenAPI document inside it, and needs no network.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

use super::openapi::document;
use super::response::response;

/// The paths that a person opens in a browser, with the token in the query.
pub(super) const TOKEN_IN_QUERY: [&str; 2] = ["/docs", "/openapi.json"];

const PAGE: &str = include_str!("docs.html");
/// The place of the document in the page.
const MARK: &str = "__DOCUMENT__";
/// The page may run its own script and call this server, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page.
pub(super) fn page() -> Response {
    // No text can end the script element early.
    let document = document().to_string().replace('<', "\\u003c");
    let mut response = response(StatusCode::OK, "text/html; charset=utf-8", PAGE.replace(MARK, &document));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    // The address has the token.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}
