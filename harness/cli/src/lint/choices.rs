//! Tokens whose ties would change everything after them.

use super::finding::{Finding, some_of};
use super::names::lines;
use mlx_parity_core::gate::Gate;
use mlx_parity_core::spec::{Checkpoint, Spec};

/// The lines of a spec with several choices of tokens that are not injected: after a tie, the port writes another text than
/// the reference. A spec with twins cannot inject.
pub(super) fn unforced_tokens(spec: &Spec) -> Vec<Finding> {
    if !spec.twins.is_empty() {
        return Vec::new();
    }
    let is_free =
        |one: &Checkpoint| matches!(one.gate, Some(Gate::Tokens { .. })) && !spec.inject.contains(&one.name);
    let is_repeated =
        |checkpoints: &[&Checkpoint]| checkpoints.len() > 1 || checkpoints.iter().any(|one| one.hits > 1);
    let found = lines(spec)
        .into_iter()
        .filter(|(_, checkpoints)| is_repeated(checkpoints) && checkpoints.iter().any(|one| is_free(one)));
    found
        .map(|(line, checkpoints)| Finding {
            is_error: false,
            message: format!(
                "{} is not injected: after a tie, the port continues with another token than the reference, and all later \
                 steps are red",
                some_of(&[checkpoints[0].name.as_str()])
            ),
            path: spec.path.clone(),
            line: Some(line),
            notes: Vec::new(),
            help: Some("name it under `inject`, and let the port continue with what `tap` returns".to_owned()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use mlx_parity_core::spec::{Specs, parse_spec};

    fn check(inject: &str, count: usize) {
        let text = format!(
            "version: 1\nport: a::b\nreference: {{script: s.py}}\n{inject}checkpoints:\n\
            - {{name: \"l.{{t}}\", for: {{t: 0..2}}, dtype: float32, noise: 8}}\n\
            - {{name: \"t.{{t}}\", for: {{t: 0..2}}, dtype: int32, compare: tokens, with: \"l.{{t}}\", ties: 8}}\n\
            - {{name: once, dtype: int32, compare: tokens, with: l.0, ties: 8}}\n"
        );
        let policies = Specs::load(Path::new("/nowhere")).policies;
        let spec = parse_spec("a/b", Path::new("b.yaml"), &text, &policies).unwrap();
        let found = unforced_tokens(&spec);
        assert_eq!(found.len(), count, "{inject}");
        assert!(found.iter().all(|one| one.message.starts_with("`t.0` is not injected")));
    }

    #[test]
    fn tokens_of_a_loop_must_be_injected() {
        check("", 1);
        check("inject: [\"t.{t}\"]\n", 0);
        check("inject: [t.0]\n", 1);
    }
}
