//! Who may use the server: requests with the token, addressed to this server, and from no other web page.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::Response;
use subtle::ConstantTimeEq;

use super::docs::TOKEN_IN_QUERY;
use super::response::error_response;

/// The number of random bytes in a token.
const TOKEN_BYTES: usize = 32;

/// What a request must have.
pub(super) struct Guard {
    token: String,
    /// The values of `Host` that name this server. A page of another site that points its name at this machine sends its own.
    hosts: [String; 3],
}

impl Guard {
    /// A guard of the server at this port, with a new token.
    pub(super) fn new(port: u16) -> Result<Self, getrandom::Error> {
        let mut bytes = [0; TOKEN_BYTES];
        getrandom::fill(&mut bytes)?;
        let token = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let hosts = ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{port}"));
        Ok(Self { token, hosts })
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Why a request is refused, if it is: the status, what was found, and what to do.
    fn refuses(&self, uri: &Uri, headers: &HeaderMap) -> Option<(StatusCode, &'static str, String)> {
        let is_own = |host: &str| self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host));
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok()).unwrap_or_default();
        if !is_own(host) || hosts.next().is_some() {
            let next = format!("address it as `{}`", self.hosts[0]);
            return Some((StatusCode::FORBIDDEN, "`Host` names another server", next));
        }
        let foreign = |origin: &header::HeaderValue| {
            !origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://")).is_some_and(is_own)
        };
        if headers.get_all(header::ORIGIN).iter().any(foreign) {
            let next = "send requests from a program, or from the page `/docs` of this server".to_owned();
            return Some((StatusCode::FORBIDDEN, "`Origin` is a page of another site", next));
        }
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given =
            given.and_then(|value| value.strip_prefix("Bearer ").or_else(|| value.strip_prefix("bearer ")));
        let given = given.or_else(|| token_of_page(uri));
        let next = || {
            "send the header `Authorization: Bearer TOKEN` with the token that the server printed".to_owned()
        };
        match given {
            None => Some((StatusCode::UNAUTHORIZED, "the request has no token", next())),
            Some(given) if !self.is_token(given) => {
                Some((StatusCode::UNAUTHORIZED, "the token is not the one of this server", next()))
            }
            Some(_) => None,
        }
    }

    fn is_token(&self, given: &str) -> bool {
        bool::from(self.token.as_bytes().ct_eq(given.trim().as_bytes()))
    }
}

/// The token in the query. Only for the pages that a person opens in a browser, which sends no `Authorization`.
fn token_of_page(uri: &Uri) -> Option<&str> {
    let fields = TOKEN_IN_QUERY.contains(&uri.path()).then(|| uri.query())??;
    fields.split('&').find_map(|field| field.strip_prefix("token="))
}

/// Lets a request through, or refuses it.
pub(super) async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    match guard.refuses(request.uri(), request.headers()) {
        None => next.run(request).await,
        Some((status, error, next)) => error_response(status, error, Some(&next)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: u16 = 8000;

    #[track_caller]
    fn check_refused(path: &str, headers: &[(&str, &str)], expected: Option<StatusCode>) {
        let mut guard = Guard::new(PORT).unwrap();
        guard.token = "secret".to_owned();
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.append(header::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        let refused = guard.refuses(&path.parse().unwrap(), &all).map(|(status, ..)| status);
        assert_eq!(refused, expected, "{path} {headers:?}");
    }

    #[test]
    fn a_request_needs_the_token_the_host_and_no_foreign_origin() {
        let (host, token) = (("host", "127.0.0.1:8000"), ("authorization", "Bearer secret"));
        let (forbidden, unauthorized) = (Some(StatusCode::FORBIDDEN), Some(StatusCode::UNAUTHORIZED));
        check_refused("/debug/status", &[host, token], None);
        check_refused("/debug/status", &[("host", "LOCALHOST:8000"), token], None);
        check_refused("/debug/status", &[host, token, ("origin", "http://127.0.0.1:8000")], None);
        check_refused("/debug/status", &[token], forbidden);
        check_refused("/debug/status", &[("host", "127.0.0.1"), token], forbidden);
        check_refused("/debug/status", &[("host", "evil.example:8000"), token], forbidden);
        check_refused("/debug/status", &[host, ("host", "evil.example:8000"), token], forbidden);
        check_refused("/debug/status", &[host, token, ("origin", "http://evil.example")], forbidden);
        check_refused("/debug/status", &[host, token, ("origin", "null")], forbidden);
        check_refused("/debug/status", &[host, token, ("origin", "https://127.0.0.1:8000")], forbidden);
        check_refused("/debug/status", &[host], unauthorized);
        check_refused("/debug/status", &[host, ("authorization", "Bearer secre")], unauthorized);
        check_refused("/debug/status", &[host, ("authorization", "Bearer secret2")], unauthorized);
        check_refused("/debug/status", &[host, ("authorization", "Basic secret")], unauthorized);
        check_refused("/debug/status?token=secret", &[host], unauthorized);
        check_refused("/docs?token=secret", &[host], None);
        check_refused("/openapi.json?a=1&token=secret", &[host], None);
        check_refused("/docs?token=wrong", &[host], unauthorized);
        check_refused("/docs", &[host], unauthorized);
    }

    #[test]
    fn tokens_are_long_and_differ() {
        let (one, other) = (Guard::new(PORT).unwrap(), Guard::new(PORT).unwrap());
        assert!(one.token().len() == 2 * TOKEN_BYTES && one.token() != other.token());
    }
}
