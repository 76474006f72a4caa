//! What a request asks for: its query and its JSON body.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, Query, Request};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use mlx_parity_core::text::suggest::did_you_mean;
use serde::de::DeserializeOwned;

use super::MOST_BODY;
use crate::failure::{Failure, FailureKind};

/// The longest time that a request may wait for the port.
pub(super) const MOST_WAIT: Duration = Duration::from_secs(300);
/// Time for the body of a request.
const BODY: Duration = Duration::from_secs(10);

/// The fields of a query. A name that the end point does not know, or that comes twice, is an error.
#[derive(Debug)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(super) fn of(uri: &Uri, known: &[&str]) -> Result<Self, Failure> {
        let wrong = |message: String| Failure::new(FailureKind::Malformed, message);
        let Query(fields) = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|_| wrong("the query cannot be read".to_owned()))?;
        for (at, (name, _)) in fields.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let near = did_you_mean(name, known.iter().copied());
                let allowed = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(wrong(format!("unknown field `{name}` in the query{near}; allowed: {allowed}")));
            }
            if fields[..at].iter().any(|(earlier, _)| earlier == name) {
                return Err(wrong(format!("the query has the field `{name}` twice")));
            }
        }
        Ok(Self(fields))
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone())
    }

    pub(super) fn count(&self, name: &str) -> Result<Option<usize>, Failure> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let wrong =
            || Failure::new(FailureKind::Malformed, format!("`{name}` is `{text}`, expected a whole number"));
        text.parse().map(Some).map_err(|_| wrong())
    }

    /// How long to wait: `wait` in seconds, 0 by default.
    pub(super) fn wait(&self) -> Result<Duration, Failure> {
        let Some(text) = self.text("wait") else { return Ok(Duration::ZERO) };
        let seconds =
            text.parse::<f64>().ok().filter(|seconds| (0.0..=MOST_WAIT.as_secs_f64()).contains(seconds));
        let wrong = || {
            let most = MOST_WAIT.as_secs();
            Failure::new(
                FailureKind::Malformed,
                format!("`wait` is `{text}`, expected seconds from 0 to {most}"),
            )
        };
        seconds.map(Duration::from_secs_f64).ok_or_else(wrong)
    }
}

/// The body of a request, and the status with which it is refused.
pub(super) async fn body(request: Request) -> Result<Bytes, (StatusCode, String)> {
    let too_large = || (StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {MOST_BODY} bytes"));
    let is_json = is_json(request.headers());
    // A length that was announced is refused before the body arrives.
    let announced =
        request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: u64| length > MOST_BODY as u64) {
        return Err(too_large());
    }
    let read = tokio::time::timeout(BODY, Bytes::from_request(request, &())).await;
    let late =
        || (StatusCode::REQUEST_TIMEOUT, format!("the body did not arrive within {} s", BODY.as_secs()));
    let bytes = read.map_err(|_| late())?.map_err(|refused| match refused.status() {
        StatusCode::PAYLOAD_TOO_LARGE => too_large(),
        status => (status, "the body cannot be read".to_owned()),
    })?;
    if bytes.is_empty() || is_json {
        return Ok(bytes);
    }
    Err((
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "the body must be JSON, with `Content-Type: application/json`".into(),
    ))
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Reads a body as JSON. An empty body is an empty object.
pub(super) fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    let body = if body.iter().all(u8::is_ascii_whitespace) { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|error| {
        let message = format!("the body is not what this end point takes: {error}");
        Failure::new(FailureKind::Malformed, message).with_next("`GET /openapi.json` shows the fields")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(query: &str) -> Result<Fields, Failure> {
        Fields::of(&format!("/x?{query}").parse().unwrap(), &["wait", "pattern"])
    }

    #[test]
    fn a_query_has_known_fields_with_allowed_values() {
        let right = fields("wait=1.5&pattern=blocks.%2A").unwrap();
        assert_eq!(right.wait().unwrap(), Duration::from_millis(1500));
        assert_eq!(right.text("pattern").as_deref(), Some("blocks.*"));
        assert_eq!(fields("").unwrap().wait().unwrap(), Duration::ZERO);
        for wrong in ["wait=-1", "wait=301", "wait=nan", "wait=inf", "wait=", "wait=x"] {
            let failure = fields(wrong).unwrap().wait().unwrap_err();
            assert!(failure.message.contains("expected seconds from 0 to 300"), "{wrong}: {failure:?}");
        }
        assert!(fields("wiat=1").unwrap_err().message.contains("did you mean `wait`?"));
        assert!(fields("wait=1&wait=2").unwrap_err().message.contains("twice"));
    }
}
