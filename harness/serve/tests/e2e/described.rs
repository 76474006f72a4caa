//! The OpenAPI document as a test: every answer must be what the document says, without any field that it does not name.

use std::collections::BTreeSet;
use std::sync::Mutex;

use serde_json::{Value, json};

/// The document, and the end points that have answered with 200.
pub(crate) struct Described {
    document: Value,
    answered: Mutex<BTreeSet<String>>,
}

impl Described {
    pub(crate) fn new(mut document: Value) -> Self {
        document["components"]["schemas"].as_object_mut().unwrap().values_mut().for_each(close);
        Self { document, answered: Mutex::default() }
    }

    /// Expects the answer to a request in the document.
    #[track_caller]
    pub(crate) fn check(&self, method: &str, path: &str, status: u16, answer: &Value) {
        let path = path.split('?').next().unwrap();
        let Some((template, operation)) = self.operation(method, path) else { return };
        let response = &operation["responses"][status.to_string()];
        assert!(response.is_object(), "the document has no status {status} for {method} {path}: {answer}");
        let problems = self.problems(&response["content"]["application/json"]["schema"], answer);
        assert!(problems.is_empty(), "{method} {path} {status}: {problems:#?}\n{answer:#}");
        if status == 200 {
            self.answered.lock().unwrap().insert(format!("{method} {template}"));
        }
    }

    /// What is wrong with an answer that should have this schema.
    pub(crate) fn problems(&self, schema: &Value, answer: &Value) -> Vec<String> {
        if schema.is_null() {
            return Vec::new();
        }
        let whole = json!({"allOf": [schema], "components": self.document["components"]});
        let validator = jsonschema::draft202012::new(&whole).unwrap();
        validator.iter_errors(answer).map(|error| format!("{}: {error}", error.instance_path())).collect()
    }

    /// The end points that have not answered with 200.
    pub(crate) fn silent(&self) -> Vec<String> {
        let answered = self.answered.lock().unwrap();
        let paths = self.document["paths"].as_object().unwrap().iter();
        let all = paths.flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(move |method| format!("{} {path}", method.to_uppercase()))
        });
        all.filter(|one| !answered.contains(one)).collect()
    }

    fn operation(&self, method: &str, path: &str) -> Option<(&String, &Value)> {
        let paths = self.document["paths"].as_object().unwrap();
        let is_meant = |template: &str| match template.split_once('{') {
            Some((start, _)) => path.strip_prefix(start).is_some_and(|name| !name.is_empty()),
            None => path == template,
        };
        let (template, methods) = paths.iter().find(|(template, _)| is_meant(template))?;
        Some((template, methods.get(method.to_lowercase())?))
    }
}

/// Allows no other properties than those that the schema names.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.values_mut().for_each(close);
            if fields.get("properties").is_some_and(Value::is_object) && !fields.contains_key("$ref") {
                fields.insert("additionalProperties".to_owned(), false.into());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}
