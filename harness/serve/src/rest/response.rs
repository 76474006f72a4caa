//! Responses and their headers.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};

use crate::failure::{Failure, FailureKind};

/// The most bytes of an answer.
const MOST_ANSWER: usize = 4 << 20;

/// The response of a failure.
pub(super) fn failure_response(failure: &Failure) -> Response {
    let status = match failure.kind {
        FailureKind::Malformed => StatusCode::BAD_REQUEST,
        FailureKind::NotFound => StatusCode::NOT_FOUND,
        FailureKind::Conflict => StatusCode::CONFLICT,
        FailureKind::Refused => StatusCode::UNPROCESSABLE_ENTITY,
        FailureKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    };
    json_response(status, &failure.to_json())
}

/// The response of an error with its own status.
pub(super) fn error_response(status: StatusCode, error: &str, next: Option<&str>) -> Response {
    json_response(status, &json!({"ok": false, "error": error, "next": next}))
}

/// The response of an answer, unless it is too large.
pub(super) fn json_response(status: StatusCode, value: &Value) -> Response {
    let text = value.to_string();
    if text.len() > MOST_ANSWER {
        let found = text.len();
        let error = format!("the answer has {found} bytes, more than {MOST_ANSWER}");
        return error_response(
            StatusCode::INTERNAL_SERVER_ERROR,
            &error,
            Some("ask for a part: a pattern, or a slice"),
        );
    }
    response(status, "application/json", text)
}

/// A response that no browser keeps or takes for another type.
pub(super) fn response(status: StatusCode, kind: &'static str, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
