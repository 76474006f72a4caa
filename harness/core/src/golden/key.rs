//! The key of a fixture set, which changes when its reference does.

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::files::hash::hex;

/// The key of a fixture set: a hex SHA-256 of the format, the spec's `reference` block and the script's bytes.
///
/// The hashed bytes are `mlx-parity fixture 1`, a line feed, [`canonical_json`] of the block, a line feed, and the script.
pub fn made_by_key(reference: &Value, script: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(b"mlx-parity fixture 1\n");
    hash.update(canonical_json(reference));
    hash.update(b"\n");
    hash.update(script);
    hex(&hash.finalize())
}

/// The canonical JSON text of a value: keys in the order of their bytes at every level, no white space, and floats in
/// scientific notation (`1e-5`, `2.5e0`).
pub fn canonical_json(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            // Keys are sorted here, because another crate can make serde_json keep the order of insertion.
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|&(key, _)| key);
            out.push('{');
            for (index, (key, item)) in entries.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_canonical(item, out);
            }
            out.push('}');
        }
        // serde_json has changed its notation of floats between versions, and a key must stay the same.
        Value::Number(number) if number.is_f64() => {
            out.push_str(&format!("{:e}", number.as_f64().unwrap_or_default()));
        }
        plain => out.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_written_as_the_exporter_writes_them() {
        // The other side of this is in exporter/tests/test_recorder.py.
        let value = json!({"eps": 1e-5, "big": 1e16, "plain": [0.1, 1.0, -2.5e-10, 3, true, null]});
        let text = r#"{"big":1e16,"eps":1e-5,"plain":[1e-1,1e0,-2.5e-10,3,true,null]}"#;
        assert_eq!(canonical_json(&value), text);
    }

    #[test]
    fn the_text_is_sorted_and_has_no_space() {
        let value = json!({"b": [1, 2.5, {"z": null, "a": true}], "a": "é \"x\"", "B": -3, "ab": {}});
        assert_eq!(
            canonical_json(&value),
            r#"{"B":-3,"a":"é \"x\"","ab":{},"b":[1,2.5e0,{"a":true,"z":null}]}"#
        );
    }

    /// The number is what this prints:
    /// `printf 'mlx-parity fixture 1\n{"params":{"dim":64},"script":"a.py"}\nprint(1)\n' | sha256sum`
    #[test]
    fn the_key_is_what_other_tools_compute() {
        let reference = json!({"script": "a.py", "params": {"dim": 64}});
        assert_eq!(
            made_by_key(&reference, b"print(1)\n"),
            "0d86ab81ceed4386ad308afb6c5bc25ec7fe6652ef95238f1711cf520c3beb81"
        );
        assert_ne!(made_by_key(&reference, b"print(2)\n"), made_by_key(&reference, b"print(1)\n"));
        let other = json!({"script": "a.py", "params": {"dim": 65}});
        assert_ne!(made_by_key(&other, b"print(1)\n"), made_by_key(&reference, b"print(1)\n"));
    }
}
