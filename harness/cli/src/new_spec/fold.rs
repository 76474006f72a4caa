//! Folds the names of goldens into lines of a spec: `layers.0.out` and `layers.1.out` become `layers.{i}.out` with a loop.

use std::collections::{BTreeMap, BTreeSet};

use crate::regenerate::ListedTensor;

/// One line of a spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoldedLine {
    /// The parts of the name between dots.
    pub(super) parts: Vec<NamePart>,
    pub(super) tensor: ListedTensor,
    /// How often one run reaches each tap.
    pub(super) hits: usize,
}

/// One part of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NamePart {
    Text(String),
    /// A number that is the same in every name of the line.
    Number(usize),
    /// A loop: the name of its axis, and its values in order.
    Axis(String, Vec<usize>),
}

impl FoldedLine {
    /// The name as a spec writes it, with `{i}` for each loop.
    pub(super) fn name(&self) -> String {
        let parts: Vec<String> = self.parts.iter().map(NamePart::written).collect();
        parts.join(".")
    }

    /// The loops from the outermost to the innermost.
    pub(super) fn axes(&self) -> impl Iterator<Item = (&str, &[usize])> {
        self.parts.iter().filter_map(|part| match part {
            NamePart::Axis(name, values) => Some((name.as_str(), values.as_slice())),
            NamePart::Text(_) | NamePart::Number(_) => None,
        })
    }

    /// Whether the line has this tap.
    pub(super) fn contains(&self, name: &str) -> bool {
        let mut found = name.split('.');
        let same = self.parts.iter().all(|part| {
            let Some(text) = found.next() else { return false };
            match part {
                NamePart::Text(own) => own == text,
                NamePart::Number(own) => number(text) == Some(*own),
                NamePart::Axis(_, values) => number(text).is_some_and(|value| values.contains(&value)),
            }
        });
        same && found.next().is_none()
    }
}

impl NamePart {
    pub(super) fn written(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::Axis(name, _) => format!("{{{name}}}"),
        }
    }
}

/// The values of an axis as a spec writes them: `0..4`, or `[0, 3, 7]`.
pub(super) fn written_values(values: &[usize]) -> String {
    match values {
        [first, .., last] if last - first + 1 == values.len() => format!("{first}..{}", last + 1),
        _ => format!("{values:?}"),
    }
}

/// Goldens whose names differ only in numbers, with the same dtype, shape and hits.
struct Group {
    /// The parts; none for a number.
    pattern: Vec<Option<String>>,
    tensor: ListedTensor,
    hits: usize,
    numbers: Vec<Vec<usize>>,
}

/// Returns the lines for these goldens, in the order in which each line is first reached.
pub(super) fn fold(goldens: &[ListedTensor]) -> Vec<FoldedLine> {
    let mut groups: Vec<Group> = Vec::new();
    let elements = tuple_elements(goldens);
    for (tensor, hits) in taps(goldens) {
        let parts: Vec<&str> = tensor.name.split('.').collect();
        let is_element = elements.contains(tensor.name.as_str());
        let values: Vec<Option<usize>> = (0..parts.len())
            .map(|at| number(parts[at]).filter(|_| !is_element || at + 1 < parts.len()))
            .collect();
        let pattern: Vec<Option<String>> = parts
            .iter()
            .zip(&values)
            .map(|(part, value)| value.is_none().then(|| (*part).to_owned()))
            .collect();
        let numbers = values.into_iter().flatten().collect();
        let is_same = |group: &&mut Group| {
            group.pattern == pattern
                && group.hits == hits
                && (group.tensor.dtype, &group.tensor.shape) == (tensor.dtype, &tensor.shape)
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.numbers.push(numbers),
            None => groups.push(Group { pattern, tensor: tensor.clone(), hits, numbers: vec![numbers] }),
        }
    }
    groups.into_iter().flat_map(Group::lines).collect()
}

/// The most elements of a tuple. More names that differ in their last number are a loop.
const TUPLE: usize = 3;

/// The names of the elements of tuples, such as a cosine and a sine: `rotary.0` and `rotary.1`, with nothing below them. Lists of
/// modules have plural names: `blocks.0`.
fn tuple_elements(goldens: &[ListedTensor]) -> BTreeSet<&str> {
    let mut tuples: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut containers: BTreeSet<&str> = BTreeSet::new();
    for golden in goldens {
        let name = golden.name.split_once('@').map_or(golden.name.as_str(), |(name, _)| name);
        let dots = name.match_indices('.').map(|(at, _)| at);
        containers.extend(dots.map(|at| &name[..at]));
        if let Some((owner, last)) = name.rsplit_once('.')
            && number(last).is_some()
        {
            tuples.entry(owner).or_default().insert(name);
        }
    }
    let is_tuple = |(owner, names): &(&str, BTreeSet<&str>)| {
        let word = owner.rsplit('.').next().unwrap_or_default();
        let is_list = word.ends_with('s') || word.len() == 1 || is_step(word);
        names.len() <= TUPLE && !is_list && !names.iter().any(|name| containers.contains(name))
    };
    tuples.into_iter().filter(is_tuple).flat_map(|(_, names)| names).collect()
}

/// Returns the taps with their number of hits: `name@1` is the second hit of `name`.
pub(super) fn taps(goldens: &[ListedTensor]) -> Vec<(&ListedTensor, usize)> {
    let mut taps: Vec<(&ListedTensor, usize)> = Vec::new();
    for golden in goldens {
        let first = golden.name.rsplit_once('@').map(|(name, _)| name);
        match first.and_then(|name| taps.iter_mut().find(|(tap, _)| tap.name == name)) {
            Some((_, hits)) => *hits += 1,
            None => taps.push((golden, 1)),
        }
    }
    taps
}

/// A part that is a number, as loops write it.
fn number(part: &str) -> Option<usize> {
    let is_plain = part.bytes().all(|byte| byte.is_ascii_digit()) && (part == "0" || !part.starts_with('0'));
    if is_plain && part.len() <= 6 { part.parse().ok() } else { None }
}

impl Group {
    fn lines(self) -> Vec<FoldedLine> {
        let mut lines = Vec::new();
        for values in products(&self.numbers) {
            let mut values = values.into_iter();
            let mut used = BTreeSet::new();
            let mut parts: Vec<NamePart> = Vec::new();
            for part in &self.pattern {
                parts.push(match part {
                    Some(text) => NamePart::Text(text.clone()),
                    None => match values.next().unwrap_or_default() {
                        single if single.len() == 1 => NamePart::Number(single[0]),
                        several => NamePart::Axis(axis_name(parts.last(), &mut used), several),
                    },
                });
            }
            lines.push(FoldedLine { parts, tensor: self.tensor.clone(), hits: self.hits });
        }
        lines
    }
}

/// A letter for a loop: `t` for steps, else the first free one of `i`, `j`, `k` and so on.
fn axis_name(container: Option<&NamePart>, used: &mut BTreeSet<char>) -> String {
    let is_step = matches!(container, Some(NamePart::Text(text)) if is_step(text));
    let letters = is_step.then_some('t').into_iter().chain('i'..='z');
    let letter = letters.into_iter().find(|letter| !used.contains(letter)).unwrap_or('i');
    used.insert(letter);
    letter.to_string()
}

/// Whether a loop of this name is over time: its rounds run the same code, not a deeper one.
pub(super) fn is_step(name: &str) -> bool {
    matches!(name, "step" | "steps" | "timestep" | "timesteps" | "t")
}

/// Splits combinations of numbers into products. Each product has the values per position.
fn products(numbers: &[Vec<usize>]) -> Vec<Vec<Vec<usize>>> {
    let positions = numbers.first().map_or(0, Vec::len);
    let values: Vec<Vec<usize>> = (0..positions)
        .map(|at| numbers.iter().map(|one| one[at]).collect::<BTreeSet<_>>().into_iter().collect())
        .collect();
    let all = values.iter().map(Vec::len).try_fold(1usize, |product, count| product.checked_mul(count));
    if all == Some(numbers.len()) {
        return vec![values];
    }
    let Some(first) = values.iter().position(|values| values.len() > 1) else { return vec![values] };
    let parts = values[first].iter().map(|value| -> Vec<Vec<usize>> {
        numbers.iter().filter(|one| one[first] == *value).cloned().collect()
    });
    parts.flat_map(|part| products(&part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlx_parity_core::tensor::Dtype;

    fn tensor(name: &str, shape: &[usize]) -> ListedTensor {
        ListedTensor {
            name: name.into(),
            dtype: Dtype::Float32,
            shape: shape.to_vec(),
            finding: None,
            why: None,
            file: None,
        }
    }

    #[track_caller]
    fn check(names: &[&str], expected: &[&str]) {
        let goldens: Vec<ListedTensor> = names.iter().map(|name| tensor(name, &[2])).collect();
        let lines = fold(&goldens);
        let written: Vec<String> = lines
            .iter()
            .map(|line| {
                let axes = line.axes().map(|(name, values)| format!(" {name}: {}", written_values(values)));
                let hits = if line.hits > 1 { format!(" hits: {}", line.hits) } else { String::new() };
                format!("{}{}{hits}", line.name(), axes.collect::<String>())
            })
            .collect();
        assert_eq!(written, expected);
        for (tap, _) in taps(&goldens) {
            assert_eq!(lines.iter().filter(|line| line.contains(&tap.name)).count(), 1, "{}", tap.name);
        }
    }

    #[test]
    fn loops_are_folded_in_call_order() {
        check(
            &["embed", "layers.0.norm", "layers.0.out", "layers.1.norm", "layers.1.out", "head"],
            &["embed", "layers.{i}.norm i: 0..2", "layers.{i}.out i: 0..2", "head"],
        );
        check(
            &["step.0.layers.0.x", "step.0.layers.1.x", "step.1.layers.0.x", "step.1.layers.1.x"],
            &["step.{t}.layers.{i}.x t: 0..2 i: 0..2"],
        );
        check(&["blocks.0.a", "blocks.2.a", "blocks.4.a"], &["blocks.{i}.a i: [0, 2, 4]"]);
    }

    #[test]
    fn the_elements_of_a_tuple_are_no_loop() {
        check(
            &["rotary_emb.0", "rotary_emb.1", "blocks.0", "blocks.1", "step.0", "step.1"],
            &["rotary_emb.0", "rotary_emb.1", "blocks.{i} i: 0..2", "step.{t} t: 0..2"],
        );
        check(&["h.0.attn.0", "h.0.attn.1", "h.1.attn.0"], &["h.{i}.attn.0 i: 0..2", "h.0.attn.1"]);
        check(&["chunk.0", "chunk.0.x", "chunk.1"], &["chunk.{i} i: 0..2", "chunk.0.x"]);
    }

    #[test]
    fn what_is_no_product_becomes_several_lines() {
        check(&["down.0.res.0", "down.0.res.1", "down.1.res.0"], &["down.0.res.{i} i: 0..2", "down.1.res.0"]);
        check(&["a.007.b", "a.0.b"], &["a.007.b", "a.0.b"]);
    }

    #[test]
    fn a_second_hit_is_no_name_of_its_own() {
        check(&["x", "y", "x@1", "x@2", "z@1"], &["x hits: 3", "y", "z@1"]);
    }

    #[test]
    fn other_shapes_are_other_lines() {
        let goldens = [tensor("s.0.x", &[6]), tensor("s.1.x", &[1]), tensor("s.2.x", &[1])];
        let names: Vec<String> = fold(&goldens).iter().map(FoldedLine::name).collect();
        assert_eq!(names, ["s.0.x", "s.{i}.x"]);
    }
}
