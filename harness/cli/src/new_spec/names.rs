//! What the names of tensors say of them: their level, and the stage of the computation.

use super::fold::{FoldedLine, NamePart, is_step};
use mlx_parity_core::spec::Stage;

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
pub(super) fn stage(line: &FoldedLine) -> Option<Stage> {
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
    use super::*;
    use crate::regenerate::ListedTensor;
    use mlx_parity_core::tensor::Dtype;

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
