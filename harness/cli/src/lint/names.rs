//! Checkpoints whose names or numbers tell that they will be hard to live with.

use std::collections::BTreeMap;

use super::finding::{Finding, some_of};
use mlx_parity_core::spec::{Checkpoint, Spec};

/// Expansions of one inner checkpoint that are worth their time.
const MOST_INNER: usize = 100;

/// The lines of a spec, each with the checkpoints that its loops expand to.
pub(super) fn lines(spec: &Spec) -> BTreeMap<usize, Vec<&Checkpoint>> {
    let mut lines: BTreeMap<usize, Vec<&Checkpoint>> = BTreeMap::new();
    for checkpoint in &spec.checkpoints {
        lines.entry(checkpoint.line).or_default().push(checkpoint);
    }
    lines
}

/// The lines of a spec whose checkpoint is named after a line of source code, such as `txt_in_line49`.
pub(super) fn line_numbers(spec: &Spec) -> Vec<Finding> {
    let named = |checkpoints: &Vec<&Checkpoint>| match checkpoints[..] {
        [only] => line_number(&only.name).map(|base| (only.name.clone(), base.to_owned())),
        // The number may be that of a loop.
        [first, last] | [first, .., last] => line_number(&first.name)
            .filter(|base| line_number(&last.name) == Some(base) && number(&first.name) == number(&last.name))
            .map(|base| (first.name.clone(), base.to_owned())),
        [] => None,
    };
    let found = lines(spec).into_iter().filter_map(|(line, checkpoints)| Some((line, named(&checkpoints)?)));
    found
        .map(|(line, (name, base))| Finding {
            is_error: false,
            message: format!("`{name}` is named after a line of source code, which the next edit moves"),
            path: spec.path.clone(),
            line: Some(line),
            notes: Vec::new(),
            help: Some(format!(
                "name what the tensor is, such as `after_{base}`, in the spec, the port and the reference's script"
            )),
        })
        .collect()
}

/// The name without its line number, if a part of it ends in one: `txt_in` for `blocks.0.txt_in_line49`.
fn line_number(name: &str) -> Option<&str> {
    name.split('.').find_map(|part| {
        let base = part.trim_end_matches(|c: char| c.is_ascii_digit());
        let base = (base.len() < part.len()).then_some(base)?;
        base.strip_suffix("_line_").or_else(|| base.strip_suffix("_line")).filter(|base| !base.is_empty())
    })
}

/// The digits at the end of the part with the line number.
fn number(name: &str) -> Option<&str> {
    let part = name.split('.').find(|part| line_number(part).is_some())?;
    Some(part.trim_start_matches(|c: char| !c.is_ascii_digit()))
}

/// The lines of a spec whose inner checkpoint expands to more than a hundred.
pub(super) fn many_expansions(spec: &Spec) -> Vec<Finding> {
    let many = |checkpoints: &[&Checkpoint]| {
        checkpoints.len() > MOST_INNER && checkpoints.iter().all(|checkpoint| checkpoint.level > 0)
    };
    let found = lines(spec).into_iter().filter(|(_, checkpoints)| many(checkpoints));
    found
        .map(|(line, checkpoints)| {
            let names: Vec<&str> = checkpoints.iter().map(|checkpoint| checkpoint.name.as_str()).collect();
            Finding {
                is_error: false,
                message: format!(
                    "{} is {} checkpoints at level {}; an inner checkpoint is for a close look at one place",
                    some_of(&names[..1]),
                    names.len(),
                    checkpoints[0].level
                ),
                path: spec.path.clone(),
                line: Some(line),
                notes: Vec::new(),
                help: Some(format!(
                    "take some of them with `when`, such as `when: \"i % 10 == 0\"`, or shorten `for`, to at most {MOST_INNER}"
                )),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_number_is_digits_after_line_at_the_end_of_a_part() {
        for (name, base) in [
            ("txt_in_line49", Some("txt_in")),
            ("blocks.3.attn_line_7.out", Some("attn")),
            ("after_txt_in", None),
            ("outline3", None),
            ("lines.3", None),
            ("line3", None),
            ("baseline_2", None),
            ("x_line", None),
        ] {
            assert_eq!(line_number(name), base, "{name}");
        }
    }
}
