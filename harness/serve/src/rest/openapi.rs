//! The OpenAPI document.

use serde_json::{Map, Value, json};

use super::endpoints::{Action, ENDPOINTS, Endpoint, Field, Method};
use super::schemas::{answer_of, reference, schemas};

/// The document, made from the list of end points.
pub(super) fn document() -> Value {
    let schemas = schemas();
    let mut paths = Map::new();
    for (order, endpoint) in ENDPOINTS.iter().enumerate() {
        let methods = paths.entry(endpoint.open_path()).or_insert_with(|| json!({}));
        let mut operation = operation(endpoint, &schemas);
        // Objects are sorted by name. The page lists the end points in the order of a session.
        operation["x-order"] = order.into();
        methods[endpoint.method.name().to_lowercase()] = operation;
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
            "schemas": schemas,
        },
    })
}

fn operation(endpoint: &Endpoint, schemas: &Map<String, Value>) -> Value {
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
        "responses": responses(endpoint, schemas),
    });
    if endpoint.method == Method::Post {
        operation["requestBody"] = body(endpoint);
    }
    operation
}

fn body(endpoint: &Endpoint) -> Value {
    let schema = match endpoint.action {
        Action::AnyCommand => json!({"$ref": "#/components/schemas/AnyCommand"}),
        _ => {
            let property = |field: &Field| {
                (field.name.to_owned(), json!({"type": field.kind, "description": field.about}))
            };
            let required = endpoint.body.iter().filter(|field| field.required).map(|field| field.name);
            json!({
                "type": "object", "properties": endpoint.body.iter().map(property).collect::<Map<_, _>>(),
                "required": required.collect::<Vec<_>>(), "additionalProperties": false,
            })
        }
    };
    let required = endpoint.action == Action::AnyCommand || endpoint.body.iter().any(|field| field.required);
    json!({"required": required, "content": {"application/json": {"schema": schema}}})
}

fn responses(endpoint: &Endpoint, schemas: &Map<String, Value>) -> Value {
    let content = |schema: Value| json!({"application/json": {"schema": schema}});
    let error = || content(json!({"$ref": "#/components/schemas/Error"}));
    match endpoint.action {
        Action::OpenApi => return json!({"200": {"description": "The document"}}),
        Action::Docs => return json!({"200": {"description": "The page", "content": {"text/html": {}}}}),
        _ => {}
    }
    let mut all = json!({
        "200": {"description": "The answer", "content": content(answer_of(endpoint, schemas))},
        "400": {"description": "The request cannot be read", "content": error()},
        "401": {"description": "The token is missing or wrong", "content": error()},
        "403": {"description": "`Host` or `Origin` is foreign", "content": error()},
        "404": {"description": "There is no such spec", "content": error()},
        "409": {"description": "There is no session, or its state does not allow this now", "content": error()},
        "413": {"description": "The body is too large", "content": error()},
        "422": {"description": "The command cannot be performed", "content": error()},
    });
    if endpoint.query.iter().any(|field| field.name == "wait") {
        all["202"] = json!({"description": "The port still runs, or the session still starts", "content": content(reference("running"))});
    }
    all
}
