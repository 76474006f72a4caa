//! What to do if a file names its weights differently than the port.

use std::collections::BTreeMap;

/// The most rules that are offered.
const MOST_RENAMES: usize = 4;

/// What to do if the file names weights differently than the port: rules for `rename`, where missing and unused names differ
/// in their first parts only.
pub(super) fn rename_advice(missing: &[String], unused: &[String]) -> String {
    let mut rules: BTreeMap<String, String> = BTreeMap::new();
    for name in missing {
        let head = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
        let prefix = |long: &str, short: &str| {
            long.strip_suffix(short).filter(|prefix| prefix.ends_with('.')).map(str::to_owned)
        };
        for other in unused {
            if let Some(prefix) = prefix(other, name) {
                rules.insert(prefix + &head(name), head(name));
            } else if let Some(prefix) = prefix(name, other) {
                rules.insert(head(other), prefix + &head(other));
            }
        }
    }
    let rule = match rules.is_empty() || rules.len() > MOST_RENAMES {
        true => "`rename: {name in the file: name in the port}`".to_owned(),
        false => {
            let rules: Vec<String> = rules.iter().map(|(from, to)| format!("{from:?}: {to:?}")).collect();
            format!("`rename: {{{}}}`", rules.join(", "))
        }
    };
    format!(
        "If the file has the missing weights under other names, map them below `weights` in the spec: {rule}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(missing: &[&str], unused: &[&str], rule: &str) {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let advice = rename_advice(&owned(missing), &owned(unused));
        assert!(advice.ends_with(&format!("`rename: {rule}`")), "{advice}");
    }

    #[test]
    fn names_that_differ_in_their_first_parts_give_rules() {
        let (long, short) =
            (["model.layers.0.q.weight", "model.norm.weight"], ["layers.0.q.weight", "norm.weight"]);
        check(&short, &long, r#"{"model.layers": "layers", "model.norm": "norm"}"#);
        check(&long, &short, r#"{"layers": "model.layers", "norm": "model.norm"}"#);
        check(&["a.weight"], &["b.weight"], "{name in the file: name in the port}");
        // `aq.weight` ends in `q.weight`, but not in the part `q`.
        check(&["q.weight"], &["aq.weight"], "{name in the file: name in the port}");
    }
}
