//! Checkpoints of a training step that are declared as if they were any other.

use super::finding::{Finding, some_of};
use super::names::lines;
use mlx_parity_core::spec::{Checkpoint, Spec, Stage};

/// The lines of a spec with gradients whose stage does not say so: if one is lost, its class is not `gradient`.
pub(super) fn unstaged_gradients(spec: &Spec) -> Vec<Finding> {
    let found =
        lines(spec).into_iter().filter(|(_, checkpoints)| checkpoints.iter().any(|one| is_unstaged(one)));
    found
        .map(|(line, checkpoints)| Finding {
            is_error: false,
            message: format!(
                "{} is a gradient by its name, but not by its stage: a lost gradient has a class of its own only with \
                 `stage: gradient`",
                some_of(&[checkpoints[0].name.as_str()])
            ),
            path: spec.path.clone(),
            line: Some(line),
            notes: Vec::new(),
            help: Some("add `stage: gradient`".to_owned()),
        })
        .collect()
}

/// Whether a checkpoint has the name of a gradient, as `Run::gradients` gives it, and another stage.
fn is_unstaged(checkpoint: &Checkpoint) -> bool {
    checkpoint.name.split('.').any(|part| part == "grad") && checkpoint.stage != Some(Stage::Gradient)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use mlx_parity_core::spec::{Specs, parse_spec};

    #[test]
    fn a_gradient_without_its_stage_is_found_once_per_line() {
        let text = "version: 1\nport: a::b\ncheckpoints:\n\
            - {name: \"grad.{i}.w\", for: {i: 0..2}, shape: [2]}\n\
            - {name: grad.b, shape: [2], stage: gradient}\n\
            - {name: gradient, shape: [2]}\n";
        let policies = Specs::load(Path::new("/nowhere")).policies;
        let spec = parse_spec("a/b", Path::new("b.yaml"), text, &policies).unwrap();
        let found = unstaged_gradients(&spec);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, Some(4));
        assert!(found[0].message.starts_with("`grad.0.w` is a gradient by its name"), "{}", found[0].message);
    }
}
