//! The schemas of requests and answers, generated from the types that the program reads and writes.

use mlx_parity_cli::debug::{Answer, Command};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::endpoints::{Action, Endpoint};
use super::history::{CHECKPOINTS, History};

/// Where the document has its schemas.
const PLACE: &str = "#/components/schemas/";
/// The answers to a command with which the port goes on, besides `running`.
const STOPS: &[&str] = &["stopped", "ended"];

/// Returns every schema under its name: each kind of answer, such as `StoppedAnswer`, the types in them, and `AnyCommand`.
pub(super) fn schemas() -> Map<String, Value> {
    let placed = |settings: SchemaSettings| {
        settings.with(|settings| settings.definitions_path = "/components/schemas".into()).into_generator()
    };
    let mut commands = placed(SchemaSettings::draft2020_12().for_deserialize());
    let command = commands.subschema_for::<Command>();
    let mut all = commands.take_definitions(true);
    let mut answers = placed(SchemaSettings::draft2020_12().for_serialize());
    answers.subschema_for::<Answer>();
    answers.subschema_for::<History<'_>>();
    all.extend(answers.take_definitions(true));

    let line = json!({
        "type": "object", "properties": {"line": {"type": "string", "description": "The command as at the prompt"}},
        "required": ["line"], "additionalProperties": false,
    });
    all.insert("AnyCommand".to_owned(), json!({"anyOf": [line, command]}));
    let kinds = all.remove("DebugAnswer").unwrap_or_default();
    for mut answer in kinds["oneOf"].as_array().cloned().unwrap_or_default() {
        let kind = answer["properties"]["kind"]["const"].as_str().unwrap_or_default().to_owned();
        if kind == "error" {
            // REST has another form for errors, with a status of its own.
            continue;
        }
        // A kind that refers to a type gets the fields of the type, so that each answer is one object.
        let named = answer.as_object_mut().and_then(|answer| answer.remove("$ref"));
        if let Some(fields) = named.and_then(|named| all.get(named.as_str()?.strip_prefix(PLACE)?).cloned()) {
            merge(&mut answer, &fields);
        }
        insert_answer(&mut all, &kind, answer);
    }
    let history = all.remove("History").unwrap_or_default();
    insert_answer(&mut all, CHECKPOINTS, history);
    all.insert("Error".to_owned(), error());
    all
}

/// Returns the schema of what an end point answers with the status 200.
pub(super) fn answer_of(endpoint: &Endpoint, all: &Map<String, Value>) -> Value {
    let kinds: Vec<&str> = match endpoint.action {
        Action::Start | Action::Pause => STOPS.to_vec(),
        Action::Command("continue" | "next" | "into" | "out" | "restart") => STOPS.to_vec(),
        Action::Command("terminate") => vec!["ended"],
        // The worker can end before it answers.
        Action::Command(name) => vec![kind_of(name), "ended"],
        Action::Status => vec!["status"],
        Action::History => vec![CHECKPOINTS],
        Action::AnyCommand => {
            let others = [component(CHECKPOINTS), component("running")];
            let names = all.keys().filter(|name| name.ends_with("Answer") && !others.contains(name));
            return one_of(names.map(|name| json!({"$ref": format!("{PLACE}{name}")})).collect());
        }
        Action::OpenApi | Action::Docs => Vec::new(),
    };
    one_of(kinds.into_iter().map(reference).collect())
}

/// The kind with which a command is answered while the port stays where it is.
fn kind_of(command: &str) -> &'static str {
    match command {
        "break" | "remove" | "clear" | "breaks" => "breakpoints",
        "vars" => "variables",
        "show" => "tensor",
        "eval" => "values",
        _ => "location",
    }
}

/// Returns the reference to the schema of a kind of answer.
pub(super) fn reference(kind: &str) -> Value {
    json!({"$ref": format!("{PLACE}{}", component(kind))})
}

fn one_of(mut schemas: Vec<Value>) -> Value {
    if schemas.len() == 1 { schemas.remove(0) } else { json!({"oneOf": schemas}) }
}

/// The name of the schema of a kind: `StoppedAnswer` for `stopped`.
fn component(kind: &str) -> String {
    let (first, rest) = kind.split_at(kind.len().min(1));
    format!("{}{rest}Answer", first.to_uppercase())
}

fn insert_answer(all: &mut Map<String, Value>, kind: &str, mut answer: Value) {
    let marks = json!({
        "properties": {"ok": {"const": true}, "kind": {"const": kind}},
        "required": ["ok", "kind"],
    });
    merge(&mut answer, &marks);
    all.insert(component(kind), answer);
}

/// Adds the properties, and what is required, of one schema to another. The description of the first one stays.
fn merge(schema: &mut Value, other: &Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    for (name, value) in other.as_object().into_iter().flatten() {
        let Some(own) = schema.get_mut(name) else {
            schema.insert(name.clone(), value.clone());
            continue;
        };
        match (own, value) {
            (Value::Object(own), Value::Object(value)) => own.extend(value.clone()),
            (Value::Array(own), Value::Array(value)) => {
                let missing: Vec<Value> = value.iter().filter(|one| !own.contains(one)).cloned().collect();
                own.extend(missing);
            }
            _ => {}
        }
    }
}

fn error() -> Value {
    json!({
        "type": "object",
        "required": ["ok", "error", "next"],
        "properties": {
            "ok": {"const": false},
            "error": {"type": "string", "description": "What was found and what is allowed"},
            "next": {"type": ["string", "null"], "description": "What to do next"},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::super::endpoints::ENDPOINTS;
    use super::*;

    #[test]
    fn every_kind_of_answer_is_one_object_and_every_reference_leads_to_a_schema() {
        let all = schemas();
        let names: Vec<&String> = all.keys().filter(|name| name.ends_with("Answer")).collect();
        assert_eq!(names.len(), 15, "{names:?}");
        for name in names {
            let answer = &all[name];
            assert!(answer.get("$ref").is_none() && answer.get("oneOf").is_none(), "{name}: {answer:#}");
            assert!(
                answer["required"].as_array().is_some_and(|names| names.len() >= 2),
                "{name}: {answer:#}"
            );
        }
        let document = super::super::openapi::document();
        references(&document, &|target| assert!(document.pointer(&target[1..]).is_some(), "{target}"));
        for endpoint in ENDPOINTS.iter().filter(|one| !matches!(one.action, Action::OpenApi | Action::Docs)) {
            assert!(answer_of(endpoint, &all) != json!({"oneOf": []}), "{}", endpoint.path);
        }
    }

    fn references(value: &Value, check: &impl Fn(&str)) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match value {
                        Value::String(target) if name == "$ref" => check(target),
                        value => references(value, check),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, check)),
            _ => {}
        }
    }
}
