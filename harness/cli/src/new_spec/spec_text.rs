//! The text of a spec that is written from a reference: its lines with stage, level, shape and gate.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::fold::{FoldedLine, NamePart, fold, is_step, written_values};
use crate::regenerate::{ListedTensor, Listing};
use mlx_parity_core::spec::Stage;
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::tensor::Dtype;

/// What the text of a spec is made from.
pub(super) struct SpecSource<'a> {
    pub(super) model: &'a str,
    pub(super) component: &'a str,
    /// From the project's root, with `/`.
    pub(super) script: &'a str,
    pub(super) listing: &'a Listing,
    /// Whether the project has the policy `exact`.
    pub(super) has_exact: bool,
}

/// Goldens that prove something, and the names of the others with the exporter's finding.
pub(super) fn usable(goldens: &[ListedTensor]) -> (Vec<ListedTensor>, Vec<&ListedTensor>) {
    let (mut kept, mut left) = (Vec::new(), Vec::new());
    for golden in goldens {
        match golden.finding {
            None => kept.push(golden.clone()),
            Some(_) => left.push(golden),
        }
    }
    (kept, left)
}

impl SpecSource<'_> {
    /// Returns the lines of the checkpoints, without those that prove nothing.
    pub(super) fn lines(&self) -> Vec<FoldedLine> {
        fold(&usable(&self.listing.goldens).0)
    }

    /// Returns the text of the spec.
    pub(super) fn text(&self) -> String {
        let Self { model, component, script, listing, has_exact } = self;
        let mut text = format!(
            "# yaml-language-server: $schema=../schema.json\nversion: 1\nport: {model}::{component}\n\
             about: {}\nreference:\n  script: {}\n",
            quoted(&format!("{model}/{component}, as {script} computes it")),
            quoted(script)
        );
        text += &params(&listing.params);
        if !listing.inputs.is_empty() {
            let names: Vec<String> = listing.inputs.iter().map(|input| quoted(&input.name)).collect();
            let _ = writeln!(text, "inputs: [{}]", names.join(", "));
        }
        text += &weights(&listing.weights, &listing.adapters);
        let is_wide = |tensor: &ListedTensor| tensor.dtype == Dtype::Float64;
        if listing.inputs.iter().chain(&listing.weights).chain(&listing.goldens).any(is_wide) {
            text += "# MLX computes in float64 on the CPU only.\ndevice: cpu\n";
        }
        let lines = self.lines();
        let levels = Levels::of(&lines);
        let deepest = lines.iter().map(|line| levels.level(line)).max().unwrap_or(0);
        if deepest > 0 {
            let _ = writeln!(
                text,
                "# Every checkpoint is checked. Lower this to check only the outer ones; PARITY_LEVEL overrules it.\n\
                 level: {deepest}"
            );
        }
        let (_, left) = usable(&listing.goldens);
        let useless: Vec<String> =
            left_out(&left).into_iter().chain(same_again(listing.skipped.iter())).collect();
        if !useless.is_empty() {
            let _ = writeln!(text, "# Left out, because they prove nothing:");
            for line in useless {
                let _ = writeln!(text, "#   {line}");
            }
        }
        if lines.iter().any(|line| line.tensor.shape.iter().any(|&length| is_named(length, &listing.params)))
        {
            text += "# A length that only one param has is written as the name of the param.\n";
        }
        if lines.iter().any(|line| line.tensor.shape.len() == 4) {
            text += "# PyTorch has channels first and MLX has channels last. For a convolution, write the port's shape and \
                     add\n# `layout: \"n c h w -> n h w c\"`, which converts the golden.\n";
        }
        text += "# In execution order. A line with `for` is one checkpoint per round of its loop.\ncheckpoints:\n";
        for line in &lines {
            let _ =
                writeln!(text, "  - {}", checkpoint(line, levels.level(line), &listing.params, *has_exact));
        }
        text
    }
}

/// One line per loop of names that are left out, with the reason of its first one.
pub(super) fn left_out(left: &[&ListedTensor]) -> Vec<String> {
    let lines = per_loop(left.iter().map(|tensor| {
        let finding = tensor.finding.as_deref().unwrap_or_default();
        let why = tensor.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        (tensor.name.split('.').collect(), format!("{finding}{why}"))
    }));
    lines.into_iter().map(|(name, why)| format!("{}  ({why})", name.join("."))).collect()
}

/// One line per loop of points whose tensors equal an earlier golden.
pub(super) fn same_again<'a>(skipped: impl Iterator<Item = (&'a String, &'a String)>) -> Vec<String> {
    // Not in any name, since it is not a segment.
    const TWIN: &str = "";
    let lines =
        per_loop(skipped.map(|(name, twin)| {
            (name.split('.').chain([TWIN]).chain(twin.split('.')).collect(), String::new())
        }));
    let line = |(parts, _): (Vec<&str>, String)| {
        let mut names = parts.split(|part| *part == TWIN).map(|name| name.join("."));
        let (name, twin) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
        format!("{name}  (the same elements as `{twin}`)")
    };
    lines.into_iter().map(line).collect()
}

/// One line per loop, with the reason of its first name. A `*` stands for a number that differs between the names.
fn per_loop<'a>(names: impl Iterator<Item = (Vec<&'a str>, String)>) -> Vec<(Vec<&'a str>, String)> {
    let is_number = |part: &str| part.parse::<usize>().is_ok();
    let are_one_loop = |a: &[&str], b: &[&str]| {
        a.len() == b.len()
            && a.iter().zip(b).all(|(a, b)| a == b || (*a == "*" || is_number(a)) && is_number(b))
    };
    let mut lines: Vec<(Vec<&str>, String)> = Vec::new();
    for (parts, why) in names {
        match lines.iter_mut().find(|(known, _)| are_one_loop(known, &parts)) {
            Some((known, _)) => {
                known.iter_mut().zip(&parts).filter(|(a, b)| a != b).for_each(|(a, _)| *a = "*")
            }
            None => lines.push((parts, why)),
        }
    }
    lines
}

/// Returns the mapping of one checkpoint.
pub(super) fn checkpoint(
    line: &FoldedLine,
    level: u8,
    params: &Map<String, Value>,
    has_exact: bool,
) -> String {
    let mut keys = vec![format!("name: {}", quoted(&line.name()))];
    let axes: Vec<String> =
        line.axes().map(|(name, values)| format!("{name}: {}", written_values(values))).collect();
    if !axes.is_empty() {
        keys.push(format!("for: {{{}}}", axes.join(", ")));
    }
    if line.hits > 1 {
        keys.push(format!("hits: {}", line.hits));
    }
    let tensor = &line.tensor;
    let shape: Vec<String> = tensor.shape.iter().map(|length| dimension(*length, params)).collect();
    keys.push(format!("dtype: {}", tensor.dtype));
    keys.push(format!("shape: [{}]", shape.join(", ")));
    keys.extend(stage(line).map(|stage| format!("stage: {stage}")));
    if level > 0 {
        keys.push(format!("level: {level}"));
    }
    keys.push(match (tensor.dtype.is_float() || tensor.dtype == Dtype::Complex64, has_exact) {
        (true, _) => "noise: 8".to_owned(),
        (false, true) => "policy: exact".to_owned(),
        (false, false) => "rtol: 0, atol: 0".to_owned(),
    });
    format!("{{{}}}", keys.join(", "))
}

/// Whether a length is written as the name of a param.
fn is_named(length: usize, params: &Map<String, Value>) -> bool {
    dimension(length, params).parse::<usize>().is_err()
}

/// A length, or the name of the one param that has this value.
fn dimension(length: usize, params: &Map<String, Value>) -> String {
    let mut same = params.iter().filter(|(_, value)| value.as_u64() == Some(length as u64));
    let is_name = |name: &str| {
        name.len() <= 32
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            && !is_word(name)
    };
    match (same.next(), same.next()) {
        // Small lengths are often equal by chance.
        (Some((name, _)), None) if length > 4 && is_name(name) => name.clone(),
        _ => length.to_string(),
    }
}

/// Text as YAML reads it back. Most names need no quotes.
fn quoted(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./@".contains(c))
        && !is_word(text);
    if is_plain { text.to_owned() } else { Value::from(text).to_string() }
}

fn is_word(text: &str) -> bool {
    matches!(
        text.to_ascii_lowercase().as_str(),
        "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
    )
}

fn params(params: &Map<String, Value>) -> String {
    if params.is_empty() {
        return String::new();
    }
    let pairs: Vec<String> =
        params.iter().map(|(name, value)| format!("{}: {value}", quoted(name))).collect();
    let line = format!("  params: {{{}}}\n", pairs.join(", "));
    if line.len() <= 120 {
        return line;
    }
    let mut text = String::from("  params:\n");
    for pair in pairs {
        let _ = writeln!(text, "    {pair}");
    }
    text
}

fn weights(weights: &[ListedTensor], adapters: &[String]) -> String {
    let is_adapter =
        |weight: &&ListedTensor| weight.file.as_ref().is_some_and(|file| adapters.contains(file));
    let weights: Vec<&ListedTensor> = weights.iter().filter(|weight| !is_adapter(weight)).collect();
    if weights.is_empty() {
        return String::new();
    }
    let mut files: Vec<&str> =
        weights.iter().map(|weight| weight.file.as_deref().unwrap_or("weights.safetensors")).collect();
    files.sort_unstable();
    files.dedup();
    let about = format!("  # {}", counted(weights.len(), "tensor"));
    let list = |files: Vec<&str>| files.into_iter().map(quoted).collect::<Vec<_>>().join(", ");
    let weights = match files[..] {
        [file] => format!("weights: {{file: {}}}{about}\n", quoted(file)),
        _ => format!("weights: {{shards: [{}]}}{about}\n", list(files)),
    };
    match adapters {
        [] => weights,
        _ => format!("{weights}adapters: [{}]\n", list(adapters.iter().map(String::as_str).collect())),
    }
}

/// How deep names lie, relative to the outermost ones.
pub(super) struct Levels {
    /// A first part that most names share, such as `model`. It is no level.
    shared: Option<String>,
}

impl Levels {
    pub(super) fn of(lines: &[FoldedLine]) -> Self {
        let first = |line: &FoldedLine| match &line.parts[..] {
            [NamePart::Text(first), NamePart::Text(_), ..] => Some(first.clone()),
            _ => None,
        };
        let firsts: Vec<String> = lines.iter().filter_map(first).collect();
        let shared =
            firsts.iter().find(|one| 2 * firsts.iter().filter(|other| other == one).count() > lines.len());
        Self { shared: shared.cloned() }
    }

    /// The level of a line: a block's output is at 0, a module in it at 1, and what that module computes inside at 2.
    pub(super) fn level(&self, line: &FoldedLine) -> u8 {
        let mut parts: &[NamePart] = &line.parts;
        if let [NamePart::Text(first), rest @ ..] = parts
            && Some(first) == self.shared.as_ref()
        {
            parts = rest;
        }
        let mut depth: usize = 0;
        let mut in_block: usize = 0;
        for (index, part) in parts.iter().enumerate() {
            let NamePart::Text(text) = part else { continue };
            match parts.get(index + 1) {
                None | Some(NamePart::Text(_)) => depth += 1,
                // Rounds of a loop over time are no deeper than the code that runs once.
                Some(_) if is_step(text) => {}
                Some(_) => in_block = 1,
            }
        }
        let is_end = matches!(parts.last(), Some(NamePart::Text(last)) if matches!(last.as_str(), "out" | "output" | "input"));
        let level = (depth + in_block).saturating_sub(1 + usize::from(is_end && depth + in_block > 1));
        u8::try_from(level.min(9)).unwrap_or(9)
    }
}

/// The kind of computation that a name speaks of: its last part, or else the parts around it from the inside out.
fn stage(line: &FoldedLine) -> Option<Stage> {
    const WORDS: [(Stage, &[&str]); 9] = [
        (Stage::Residual, &["residual", "after_"]),
        (Stage::Norm, &["norm", "ln_"]),
        (Stage::Rope, &["rope", "rotary"]),
        (Stage::Embedding, &["embed", "wte", "wpe"]),
        (Stage::Conv, &["conv"]),
        (Stage::Modulation, &["modulation", "adaln"]),
        (Stage::Attention, &["attn", "attention", "softmax", "probs", "scores", "to_q", "to_k", "to_v"]),
        (
            Stage::Mlp,
            &["mlp", "ffn", "feed_forward", "gate_proj", "up_proj", "down_proj", "act_fn", "gelu", "silu"],
        ),
        (Stage::Scheduler, &["scheduler", "sigmas", "timesteps"]),
    ];
    let texts: Vec<String> = line
        .parts
        .iter()
        .filter_map(|part| match part {
            NamePart::Text(text) => Some(text.to_ascii_lowercase()),
            NamePart::Number(_) | NamePart::Axis(..) => None,
        })
        .collect();
    let spoken_of = |text: &String| {
        let found = WORDS.iter().find(|(_, words)| words.iter().any(|word| text.contains(word)));
        found.map(|(stage, _)| *stage)
    };
    if texts.iter().any(|text| matches!(text.as_str(), "grad" | "clipped")) {
        return Some(Stage::Gradient);
    }
    let is_update = |pair: &[String]| is_step(&pair[0]) && matches!(pair[1].as_str(), "param" | "state");
    if texts.windows(2).any(is_update) {
        return Some(Stage::Optimizer);
    }
    let (last, around) = texts.split_last()?;
    let is_linear = || ["head", "linear", "proj", "fc", "dense"].iter().any(|word| last.contains(word));
    spoken_of(last)
        .or_else(|| is_linear().then_some(Stage::Linear))
        .or_else(|| around.iter().rev().find_map(spoken_of))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use mlx_parity_core::spec::{Specs, parse_spec};

    fn listing() -> Listing {
        let tensor = |name: &str, shape: &[usize]| json!({"name": name, "dtype": "float32", "shape": shape});
        let mut goldens = vec![tensor("model.embed_tokens", &[1, 7, 64])];
        for layer in 0..2 {
            goldens.push(tensor(&format!("model.layers.{layer}.input_layernorm"), &[1, 7, 64]));
            goldens.push(tensor(&format!("model.layers.{layer}.self_attn.q_proj"), &[1, 7, 64]));
            goldens.push(tensor(&format!("model.layers.{layer}.self_attn.q_proj@1"), &[1, 7, 64]));
            goldens.push(tensor(&format!("model.layers.{layer}"), &[1, 7, 64]));
        }
        goldens.push(json!({"name": "mask", "dtype": "bool", "shape": [7, 7], "finding": "constant"}));
        goldens.push(json!({"name": "tokens", "dtype": "int64", "shape": [7]}));
        goldens.push(tensor("lm_head", &[1, 7, 61]));
        serde_json::from_value(json!({
            "params": {"dim": 64, "tokens": 7, "vocab": 61, "layers": 2, "eps": 1e-6, "name": "a: b"},
            "points": [], "goldens": goldens, "inputs": [{"name": "input_ids", "dtype": "int64", "shape": [1, 7]}],
            "weights": [{"name": "w", "dtype": "float32", "shape": [2], "file": null}]
        }))
        .unwrap()
    }

    #[test]
    fn a_spec_is_written_from_a_listing() {
        let listing = listing();
        let source = SpecSource {
            model: "llama",
            component: "decoder",
            script: "exporter/references/llama.py",
            listing: &listing,
            has_exact: false,
        };
        let text = source.text();
        let expected = r#"# yaml-language-server: $schema=../schema.json
version: 1
port: llama::decoder
about: "llama/decoder, as exporter/references/llama.py computes it"
reference:
  script: exporter/references/llama.py
  params: {dim: 64, tokens: 7, vocab: 61, layers: 2, eps: 1e-6, name: "a: b"}
inputs: [input_ids]
weights: {file: weights.safetensors}  # 1 tensor
# Every checkpoint is checked. Lower this to check only the outer ones; PARITY_LEVEL overrules it.
level: 2
# Left out, because they prove nothing:
#   mask  (constant)
# A length that only one param has is written as the name of the param.
# In execution order. A line with `for` is one checkpoint per round of its loop.
checkpoints:
  - {name: model.embed_tokens, dtype: float32, shape: [1, tokens, dim], stage: embedding, noise: 8}
  - {name: "model.layers.{i}.input_layernorm", for: {i: 0..2}, dtype: float32, shape: [1, tokens, dim], stage: norm, level: 1, noise: 8}
  - {name: "model.layers.{i}.self_attn.q_proj", for: {i: 0..2}, hits: 2, dtype: float32, shape: [1, tokens, dim], stage: linear, level: 2, noise: 8}
  - {name: "model.layers.{i}", for: {i: 0..2}, dtype: float32, shape: [1, tokens, dim], noise: 8}
  - {name: tokens, dtype: int64, shape: [tokens], rtol: 0, atol: 0}
  - {name: lm_head, dtype: float32, shape: [1, tokens, vocab], stage: linear, noise: 8}
"#;
        // The order of params is that of the listing, or sorted, as serde_json was built.
        let sorted = |text: &str| {
            text.lines().filter(|line| !line.contains("params:")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(sorted(&text), sorted(expected), "{text}");
        let policies = Specs::load(Path::new("/nowhere")).policies;
        let exact = text.replace("rtol: 0, atol: 0", "rtol: 0, atol: 0, why: a test");
        let spec = parse_spec("llama/decoder", Path::new("x.yaml"), &exact, &policies).unwrap();
        assert_eq!(spec.checkpoints.len(), 1 + 6 + 2);
        assert_eq!(spec.reference.unwrap().params["name"], "a: b");
    }

    fn line(name: &str) -> FoldedLine {
        let parts = name.split('.').map(|part| match part.parse() {
            Ok(number) => NamePart::Number(number),
            Err(_) => NamePart::Text(part.to_owned()),
        });
        let tensor = ListedTensor {
            name: name.into(),
            dtype: Dtype::Float32,
            shape: vec![],
            finding: None,
            why: None,
            file: None,
        };
        FoldedLine { parts: parts.collect(), tensor, hits: 1 }
    }

    #[track_caller]
    fn check_level(name: &str, level: u8) {
        assert_eq!(Levels { shared: Some("model".into()) }.level(&line(name)), level, "{name}");
    }

    #[test]
    fn adapters_are_not_among_the_weights() {
        let tensor = |file: &str| ListedTensor { file: Some(file.to_owned()), ..line("w").tensor };
        let both = [tensor("weights.safetensors"), tensor("adapters.safetensors")];
        let text = weights(&both, &["adapters.safetensors".to_owned()]);
        assert_eq!(
            text,
            "weights: {file: weights.safetensors}  # 1 tensor\nadapters: [adapters.safetensors]\n"
        );
    }

    #[test]
    fn the_stages_of_a_training_step_are_not_those_of_its_layers() {
        for (name, wanted) in [
            ("grad.layers.0.attn.q_proj.weight", Stage::Gradient),
            ("clipped.layers.0.norm.weight", Stage::Gradient),
            ("step.1.state.layers.0.mlp.up.weight.exp_avg", Stage::Optimizer),
            ("step.1.param.embed.weight", Stage::Optimizer),
            ("step.1.layers.0.norm", Stage::Norm),
        ] {
            assert_eq!(stage(&line(name)), Some(wanted), "{name}");
        }
    }

    #[test]
    fn levels_follow_the_depth() {
        for (name, level) in [
            ("embed", 0),
            ("model.norm", 0),
            ("lm_head", 0),
            ("layers.0", 0),
            ("layers.0.out", 0),
            ("layers.0.norm1", 1),
            ("layers.0.attn.out", 1),
            ("model.layers.0.attn.q", 2),
            ("step.3.embed", 0),
            ("step.3.layers.1.out", 0),
            ("step.3.layers.1.attn.q", 2),
            ("attn.q", 1),
            ("out", 0),
        ] {
            check_level(name, level);
        }
    }
}
