//! The OpenAPI document.

use serde_json::{Map, Value, json};

use super::endpoints::{Action, ENDPOINTS, Endpoint, Field, Method};

/// The document, made from the list of end points.
pub(super) fn document() -> Value {
    let mut paths = Map::new();
    for endpoint in ENDPOINTS {
        let methods = paths.entry(endpoint.open_path()).or_insert_with(|| json!({}));
        methods[endpoint.method.name().to_lowercase()] = operation(endpoint);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "mlx-parity debug sessions",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Steps through an mlx-rs port from checkpoint to checkpoint, with the goldens at hand. A server has \
                one session at a time. Long work returns at once with 202; poll `GET /debug/status`, or pass `wait`.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {
                "type": "http", "scheme": "bearer", "description": "The token that the server prints when it starts",
            }},
            "schemas": {"Answer": answer(), "Error": error()},
        },
    })
}

fn operation(endpoint: &Endpoint) -> Value {
    let parameter = |field: &Field| {
        json!({
            "name": field.name, "in": "query", "required": field.required, "description": field.about,
            "schema": {"type": field.kind},
        })
    };
    let mut parameters: Vec<Value> = endpoint.query.iter().map(parameter).collect();
    if endpoint.path.contains("{*name}") {
        parameters.push(json!({
            "name": "name", "in": "path", "required": true, "description": "The name of a tensor",
            "schema": {"type": "string"},
        }));
    }
    let mut operation = json!({
        "operationId": endpoint.open_path().trim_matches('/').replace(['/', '.', '{', '}'], "_"),
        "summary": endpoint.about,
        "parameters": parameters,
        "responses": responses(endpoint),
    });
    if endpoint.method == Method::Post {
        operation["requestBody"] = body(endpoint);
    }
    operation
}

fn body(endpoint: &Endpoint) -> Value {
    let properties: Map<String, Value> = endpoint
        .body
        .iter()
        .map(|field| (field.name.to_owned(), json!({"type": field.kind, "description": field.about})))
        .collect();
    let required: Vec<&str> =
        endpoint.body.iter().filter(|field| field.required).map(|field| field.name).collect();
    let schema = json!({
        "type": "object", "properties": properties, "required": required,
        "additionalProperties": endpoint.action == Action::AnyCommand,
    });
    json!({"required": !required.is_empty(), "content": {"application/json": {"schema": schema}}})
}

fn responses(endpoint: &Endpoint) -> Value {
    let content = |schema: &str| json!({"application/json": {"schema": {"$ref": format!("#/components/schemas/{schema}")}}});
    match endpoint.action {
        Action::OpenApi => return json!({"200": {"description": "The document"}}),
        Action::Docs => return json!({"200": {"description": "The page", "content": {"text/html": {}}}}),
        _ => {}
    }
    let mut all = json!({
        "200": {"description": "The answer", "content": content("Answer")},
        "400": {"description": "The request cannot be read", "content": content("Error")},
        "401": {"description": "The token is missing or wrong", "content": content("Error")},
        "403": {"description": "`Host` or `Origin` is foreign", "content": content("Error")},
        "404": {"description": "There is no such spec", "content": content("Error")},
        "409": {"description": "There is no session, or its state does not allow this now", "content": content("Error")},
        "413": {"description": "The body is too large", "content": content("Error")},
        "422": {"description": "The command cannot be performed", "content": content("Error")},
    });
    if endpoint.query.iter().any(|field| field.name == "wait") {
        all["202"] = json!({"description": "The port still runs, or the session still starts", "content": content("Answer")});
    }
    all
}

fn answer() -> Value {
    json!({
        "type": "object",
        "description": "The answer to a command. `kind` says which further fields it has; they are those of the answers that \
            `cargo parity debug --json` prints.",
        "required": ["ok", "kind"],
        "properties": {
            "ok": {"const": true},
            "kind": {"enum": [
                "stopped", "running", "ended", "breakpoints", "location", "variables", "tensor", "values", "changed",
                "saved", "diagnosis", "status", "noted", "checkpoints",
            ]},
        },
    })
}

fn error() -> Value {
    json!({
        "type": "object",
        "required": ["ok", "error"],
        "properties": {
            "ok": {"const": false},
            "error": {"type": "string", "description": "What was found and what is allowed"},
            "next": {"type": ["string", "null"], "description": "What to do next"},
        },
    })
}
