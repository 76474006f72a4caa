//! `schema.json` matches the types, accepts every spec that the reader accepts, and refuses mistakes that a schema can express.

use std::fs;
use std::path::Path;

use mlx_parity_core::spec::{SCHEMA, Specs, schema, schema_text};
use serde_json::Value;

use crate::{data, repository};

fn yaml(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap();
    // JSON has no infinity. An editor reads `.inf` as a number, so any number will do.
    value(&text.replace(".inf", "1e300"))
}

fn value(text: &str) -> Value {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).unwrap()
}

fn validator() -> jsonschema::Validator {
    jsonschema::validator_for(&schema()).unwrap()
}

fn policy_validator() -> jsonschema::Validator {
    let mut schema = schema();
    let policy = serde_json::json!({"$ref": "#/$defs/PolicyFile", "$defs": schema["$defs"].take()});
    jsonschema::validator_for(&policy).unwrap()
}

#[test]
fn the_committed_schema_is_current() {
    let path = repository().join("parity-specs").join(SCHEMA);
    let committed = fs::read_to_string(&path).unwrap();
    assert!(
        committed == schema_text(),
        "{} is not current: run `cargo xtask lint --write-schema`",
        path.display()
    );
}

#[test]
fn it_takes_every_committed_spec() {
    let roots = [repository().join("parity-specs"), data("spec/root")];
    let mut seen = 0;
    for root in roots {
        for spec in Specs::load(&root).specs {
            let problems: Vec<String> =
                validator().iter_errors(&yaml(&spec.path)).map(|error| error.to_string()).collect();
            assert!(problems.is_empty(), "{}: {problems:?}", spec.path.display());
            seen += 1;
        }
        let problems: Vec<String> = policy_validator()
            .iter_errors(&yaml(&root.join("policies.yaml")))
            .map(|error| error.to_string())
            .collect();
        assert!(problems.is_empty(), "{}: {problems:?}", root.display());
    }
    assert!(seen >= 2);
}

#[test]
fn it_refuses_what_is_wrong() {
    let validator = validator();
    let spec =
        |rest: &str| -> Value { value(&format!("version: 1\nport: p\nreference: {{script: s}}\n{rest}")) };
    assert!(validator.is_valid(&spec("checkpoints: [{name: x, shape: [n, 1]}]")));
    let weights = "weights: {file: a, dtype: bfloat16, quantized: {bits: 4, group_size: 64}}";
    assert!(validator.is_valid(&spec(&format!("{weights}\ncheckpoints: [{{name: x, shape: []}}]"))));
    let wrong = [
        "chekpoints: []",
        "checkpoints: []",
        "checkpoints: [{name: x}]",
        "checkpoints: [{name: ~, shape: []}]",
        "checkpoints: [{shape: []}]",
        "checkpoints: [{name: x, shape: [], rtoll: 1}]",
        "checkpoints: [{name: x, shape: [-1]}]",
        "checkpoints: [{name: x, dtype: f32, noise: 8}]",
        "checkpoints: [{name: x, noise: 8}]",
        "checkpoints: [{name: x, dtype: float32, rtol: 1}]",
        "checkpoints: [{name: x, dtype: float32, rtol: -1, atol: 0}]",
        "checkpoints: [{name: x, dtype: float32, noise: 8, policy: fp32}]",
        "checkpoints: [{name: x, shape: [], gate: false}]",
        "checkpoints: [{name: x, shape: [], gate: true, why: y}]",
        "checkpoints: [{name: x, shape: [], when: i == 1}]",
        "checkpoints: [{name: x, shape: [], for: {i: 0-4}}]",
        "checkpoints: [{name: x, shape: [], for: {}}]",
        "checkpoints: [{name: x, shape: [], hits: 0}]",
        "checkpoints: [{name: x, shape: [], level: 10}]",
        "checkpoints: [{name: x, shape: [], stage: lunch}]",
        "checkpoints: [{name: x, range: [1]}]",
        "checkpoints: [{name: x, shape: [], nan: same}]",
        "checkpoints: [{name: x, shape: []}]\ndevice: tpu",
        "checkpoints: [{name: x, shape: []}]\ntimeout: 90",
        "checkpoints: [{name: x, shape: []}]\nrequires: [luck]",
        "checkpoints: [{name: x, shape: []}]\nweights: {rename: {}}",
        "checkpoints: [{name: x, shape: []}]\nweights: {file: a, shards: [b]}",
        "checkpoints: [{name: x, shape: []}]\nweights: {file: a, external: /a.safetensors}",
        "checkpoints: [{name: x, shape: []}]\nweights: {external: a.safetensors}",
        "checkpoints: [{name: x, shape: []}]\nweights: {external: /a.bin}",
        "checkpoints: [{name: x, shape: []}]\nweights: {external: /a.safetensors, sha256: abc}",
        "checkpoints: [{name: x, shape: []}]\nweights: {external: /a.safetensors, sha256: {}}",
        "checkpoints: [{name: x, shape: []}]\nweights: {file: a, dtype: int32}",
        "checkpoints: [{name: x, shape: []}]\nweights: {file: a, quantized: {bits: 7, group_size: 64}}",
        "checkpoints: [{name: x, shape: []}]\nweights: {file: a, quantized: {bits: 4}}",
        "checkpoints: [{name: x, shape: []}]\ninputs: [1]",
        "checkpoints: [{name: x, shape: []}]\nabout: ~",
    ];
    for rest in wrong {
        assert!(!validator.is_valid(&spec(rest)), "{rest}");
    }
    assert!(!validator.is_valid(&value("version: 2\nport: p\ncheckpoints: [{name: x, shape: []}]")));
    let policies = policy_validator();
    for wrong in [
        "version: 1",
        "version: 1\npolicies: {a: {rtol: 1, dtypes: []}}",
        "version: 1\nbounds: {f32: a}\npolicies: {}",
    ] {
        assert!(!policies.is_valid(&value(wrong)), "{wrong}");
    }
}
