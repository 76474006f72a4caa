//! The text of a spec that is written from a reference: its lines with stage, level, shape and gate.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::fold::{FoldedLine, fold, written_values};
use super::left_out::{left_out, same_again, usable};
use super::names::{Levels, stage};
use crate::regenerate::{ListedTensor, Listing};
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

    #[test]
    fn adapters_are_not_among_the_weights() {
        let tensor =
            |file: &str| ListedTensor { file: Some(file.to_owned()), ..listing().goldens[0].clone() };
        let both = [tensor("weights.safetensors"), tensor("adapters.safetensors")];
        let text = weights(&both, &["adapters.safetensors".to_owned()]);
        assert_eq!(
            text,
            "weights: {file: weights.safetensors}  # 1 tensor\nadapters: [adapters.safetensors]\n"
        );
    }
}
