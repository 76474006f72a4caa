//! A manifest and recipes without some of their entries. All other lines stay as they were, so a diff shows the removal only.

use std::collections::BTreeSet;

use serde_json::Value;

use mlx_parity_core::golden::Manifest;

/// The text of a manifest that has become `smaller`: lines of removed tensors are gone, and the checksum of the recipes is
/// the new one.
///
/// A text with another layout than the exporter's is written anew.
pub(super) fn without_tensors(text: &str, old: &Manifest, smaller: &Manifest) -> serde_json::Result<String> {
    let kept: BTreeSet<_> = smaller.tensors.iter().map(|entry| (entry.role, entry.name.as_str())).collect();
    let gone = old.tensors.iter().filter(|entry| !kept.contains(&(entry.role, entry.name.as_str())));
    let gone: Vec<Value> = gone.map(serde_json::to_value).collect::<Result<_, _>>()?;
    let is_gone = |line: &str| {
        let entry: Option<Value> = serde_json::from_str(line.trim_end_matches(',')).ok();
        let same = |gone: &&Value| {
            entry
                .as_ref()
                .is_some_and(|entry| ["role", "name"].iter().all(|key| entry.get(key) == gone.get(key)))
        };
        gone.iter().any(|gone| same(&gone))
    };
    let mut edited = without_lines(text, is_gone);
    if let (Some(before), Some(after)) = (&old.recipes, &smaller.recipes) {
        edited = edited.replacen(&before.sha256, &after.sha256, 1);
    }
    match Manifest::parse(edited.as_bytes()) {
        Ok(parsed) if parsed == *smaller => Ok(edited),
        _ => Ok(serde_json::to_string_pretty(smaller)? + "\n"),
    }
}

/// The text of recipes without these goldens. A text with another layout than the exporter's is written anew.
pub(super) fn without_goldens(text: &str, goldens: &BTreeSet<&str>) -> serde_json::Result<String> {
    let mut smaller: Value = serde_json::from_str(text)?;
    for part in ["goldens", "missing"] {
        if let Some(map) = smaller.get_mut(part).and_then(Value::as_object_mut) {
            map.retain(|name, _| !goldens.contains(name.as_str()));
        }
    }
    let is_gone = |line: &str| {
        let entry: Option<Value> = serde_json::from_str(&format!("{{{}}}", line.trim_end_matches(','))).ok();
        let keys = entry.as_ref().and_then(Value::as_object).filter(|entry| entry.len() == 1);
        keys.is_some_and(|entry| entry.keys().all(|name| goldens.contains(name.as_str())))
    };
    let edited = without_lines(text, is_gone);
    match serde_json::from_str::<Value>(&edited) {
        Ok(parsed) if parsed == smaller => Ok(edited),
        _ => Ok(serde_json::to_string_pretty(&smaller)? + "\n"),
    }
}

/// The text without some lines. If the last entry of a list goes, the entry before it loses its comma.
fn without_lines(text: &str, is_gone: impl Fn(&str) -> bool) -> String {
    let mut kept: Vec<String> = Vec::new();
    for line in text.lines() {
        if !is_gone(line.trim()) {
            kept.push(line.to_owned());
        } else if !line.trim_end().ends_with(',')
            && let Some(last) = kept.last_mut()
        {
            *last = last.trim_end_matches(',').to_owned();
        }
    }
    kept.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECIPES: &str = "{\n \"nodes\": [\n  [\"a\",[]]\n ],\n \"goldens\": {\n  \"x\": 0,\n  \"y\": 0\n },\n \"missing\": {\n  \"z\": \"why\"\n }\n}\n";

    #[test]
    fn only_the_lines_of_removed_goldens_go() {
        let text = without_goldens(RECIPES, &BTreeSet::from(["y", "z"])).unwrap();
        let expected =
            "{\n \"nodes\": [\n  [\"a\",[]]\n ],\n \"goldens\": {\n  \"x\": 0\n },\n \"missing\": {\n }\n}\n";
        assert_eq!(text, expected);
        assert_eq!(without_goldens(RECIPES, &BTreeSet::new()).unwrap(), RECIPES);
    }

    #[test]
    fn another_layout_is_written_anew() {
        let one_line: Value = serde_json::from_str(RECIPES).unwrap();
        let text = without_goldens(&one_line.to_string(), &BTreeSet::from(["x"])).unwrap();
        let found: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(found["goldens"], serde_json::json!({"y": 0}));
        assert_eq!(found["missing"], one_line["missing"]);
    }
}
