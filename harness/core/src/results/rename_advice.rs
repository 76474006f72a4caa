//! What to do if a file names its weights differently than the port.

use crate::run_folder::Audit;

/// What to do if the file may hold the missing weights under other names.
pub(super) fn rename_advice(audit: &Audit) -> Option<String> {
    let rules: Vec<String> = audit.renames.iter().map(|(from, to)| format!("{from:?}: {to:?}")).collect();
    let rule = match rules.is_empty() {
        true if audit.missing.is_empty() || audit.unused.is_empty() => return None,
        true => "name in the file: name in the port".to_owned(),
        false => rules.join(", "),
    };
    Some(format!(
        "If the file has the missing weights under other names, map them below `weights` in the spec: \
         `rename: {{{rule}}}`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_written_as_in_a_spec() {
        let mut audit = Audit { missing: vec!["a.weight".to_owned()], ..Audit::default() };
        assert_eq!(rename_advice(&audit), None);
        audit.unused = vec!["b.weight".to_owned()];
        let advice = rename_advice(&audit).unwrap();
        assert!(advice.ends_with("`rename: {name in the file: name in the port}`"), "{advice}");
        audit.renames =
            [("model.q", "q"), ("self_attn", "attn")].map(|(a, b)| (a.to_owned(), b.to_owned())).into();
        let advice = rename_advice(&audit).unwrap();
        assert!(advice.ends_with("`rename: {\"model.q\": \"q\", \"self_attn\": \"attn\"}`"), "{advice}");
    }
}
