//! Performs a request and turns its answer into a response.

use std::sync::Arc;
use std::time::Duration;

use axum::RequestExt;
use axum::extract::{Path, Request};
use axum::http::StatusCode;
use axum::response::Response;
use mlx_parity_cli::debug::{Answer, Command};
use serde_json::{Map, Value, json};

use super::docs::page;
use super::endpoints::{Action, Endpoint, Method};
use super::history::history;
use super::openapi::document;
use super::request::{self, Fields};
use super::response::{error_response, failure_response, json_response};
use crate::Debugger;
use crate::failure::{Failure, FailureKind};

/// What a request gave, before anything is performed.
struct Given {
    fields: Fields,
    /// The name in the path.
    name: Option<String>,
    body: Vec<u8>,
}

/// Answers one request.
pub(super) async fn respond(
    debugger: Arc<Debugger>,
    endpoint: &'static Endpoint,
    mut request: Request,
) -> Response {
    match endpoint.action {
        Action::OpenApi => return json_response(StatusCode::OK, &document()),
        Action::Docs => return page(),
        _ => {}
    }
    let known: Vec<&str> = endpoint.query.iter().map(|field| field.name).collect();
    let fields = match Fields::of(request.uri(), &known) {
        Ok(fields) => fields,
        Err(failure) => return failure_response(&failure),
    };
    let name = match endpoint.path.contains("{*") {
        true => request.extract_parts::<Path<String>>().await.ok().map(|Path(name)| name),
        false => None,
    };
    let body = match endpoint.method {
        Method::Get => Vec::new(),
        Method::Post => match request::body(request).await {
            Ok(body) => body.into(),
            Err((status, message)) => return error_response(status, &message, None),
        },
    };
    let given = Given { fields, name, body };
    let performed = tokio::task::spawn_blocking(move || perform(&debugger, endpoint, &given)).await;
    match performed {
        Ok(Ok((status, value))) => json_response(status, &value),
        Ok(Err(failure)) => failure_response(&failure),
        Err(_) => {
            let failure = Failure::new(
                FailureKind::Internal,
                "the server failed at this request; its output says more",
            );
            failure_response(&failure)
        }
    }
}

fn perform(debugger: &Debugger, endpoint: &Endpoint, given: &Given) -> Result<(StatusCode, Value), Failure> {
    let wait = given.fields.wait()?;
    let answer = match endpoint.action {
        Action::Start => debugger.start(request::json(&given.body)?, wait)?,
        Action::Command(name) => debugger.perform(command(name, given)?, wait)?,
        Action::AnyCommand => any_command(debugger, &given.body, wait)?,
        Action::Pause => {
            no_fields(&given.body)?;
            debugger.pause(wait)?
        }
        Action::Status => debugger.status(wait)?,
        Action::History => {
            return Ok((
                StatusCode::OK,
                history(debugger, given.fields.count("from")?, given.fields.count("limit")?)?,
            ));
        }
        Action::OpenApi | Action::Docs => return Ok((StatusCode::OK, document())),
    };
    let status = match &answer {
        Answer::Running(_) => StatusCode::ACCEPTED,
        _ => StatusCode::OK,
    };
    let mut value = serde_json::to_value(&answer)
        .map_err(|error| Failure::new(FailureKind::Internal, format!("the answer is no JSON: {error}")))?;
    value["ok"] = json!(true);
    Ok((status, value))
}

fn no_fields(body: &[u8]) -> Result<(), Failure> {
    let fields: Map<String, Value> = request::json(body)?;
    let unknown = |name: &String| {
        Failure::new(FailureKind::Malformed, format!("unknown field `{name}`; the body has none"))
    };
    fields.keys().next().map_or(Ok(()), |name| Err(unknown(name)))
}

/// The command with this name, with the fields of the body, of the query and of the path.
fn command(name: &str, given: &Given) -> Result<Command, Failure> {
    let mut fields: Map<String, Value> = request::json(&given.body)?;
    if fields.contains_key("command") {
        let failure = Failure::new(
            FailureKind::Malformed,
            format!("unknown field `command`: this end point is `{name}`"),
        );
        return Err(failure.with_next("send other commands to `POST /debug/command`"));
    }
    for field in ["pattern", "slice"] {
        if let Some(text) = given.fields.text(field) {
            fields.insert(field.to_owned(), text.into());
        }
    }
    if let Some(name) = &given.name {
        fields.insert("name".to_owned(), name.as_str().into());
    }
    if let Some(Value::Number(number)) = fields.get("which") {
        let text = number.to_string();
        fields.insert("which".to_owned(), text.into());
    }
    fields.insert("command".to_owned(), name.into());
    parsed(Value::Object(fields))
}

fn any_command(debugger: &Debugger, body: &[u8], wait: Duration) -> Result<Answer, Failure> {
    let mut fields: Map<String, Value> = request::json(body)?;
    let malformed = |message: String| Failure::new(FailureKind::Malformed, message);
    let command = match (fields.remove("line"), fields.is_empty()) {
        (Some(Value::String(line)), true) => match Command::parse(&line) {
            Ok(command) => command.ok_or_else(|| malformed("the line is empty".to_owned()))?,
            Err(error) => return Err(malformed(error.to_string())),
        },
        (Some(_), true) => return Err(malformed("`line` must be a text".to_owned())),
        (Some(_), false) => return Err(malformed("the body has both `line` and other fields".to_owned())),
        (None, true) => {
            return Err(malformed("the body needs `line`, or `command` and its arguments".to_owned()));
        }
        (None, false) => parsed(Value::Object(fields))?,
    };
    debugger.perform(command, wait)
}

fn parsed(value: Value) -> Result<Command, Failure> {
    serde_json::from_value(value).map_err(|error| {
        let failure =
            Failure::new(FailureKind::Malformed, format!("the fields are not those of a command: {error}"));
        failure.with_next("`GET /openapi.json` shows the fields")
    })
}
