//! The port's side of a spec: the taps to add, by name, with a scope per loop.

use std::fmt::Write as _;

use super::fold::{FoldedLine, NamePart, written_values};

/// A loop around taps: the name of its scope, its axis, and its values.
type Loop = (String, String, String);

/// Returns Rust lines with every tap in call order. `indent` is put before each line.
pub(super) fn taps(lines: &[FoldedLine], indent: &str) -> String {
    let mut text = String::new();
    let mut open: Vec<Loop> = Vec::new();
    for line in lines {
        let (loops, rest, is_end) = split(line);
        let shared = open.iter().zip(&loops).take_while(|(one, other)| one == other).count();
        close(&mut text, &mut open, shared, indent);
        for (scope, axis, values) in &loops[shared..] {
            let inner = inner(indent, open.len());
            let _ = writeln!(text, "{inner}for {axis} in {values} {{");
            let _ = writeln!(text, "{inner}    let _scope = scope({scope:?}, {axis});");
            open.push((scope.clone(), axis.clone(), values.clone()));
        }
        let inner = inner(indent, open.len());
        let name = variable(&line.parts);
        let about = format!("{} {:?}", line.tensor.dtype, line.tensor.shape);
        let times = if line.hits > 1 { format!(", {} times", line.hits) } else { String::new() };
        let call = match is_end {
            // The name ends in the number of the round, so no scope can hold it.
            true => format!("tap(&format!({rest:?}), {name})?"),
            false => format!("tap({rest:?}, {name})?"),
        };
        let place = if is_end { ", in the loop, outside its scope" } else { "" };
        let _ = writeln!(text, "{inner}let {name} = {call};    // {about}{times}{place}");
    }
    close(&mut text, &mut open, 0, indent);
    text
}

fn inner(indent: &str, depth: usize) -> String {
    format!("{indent}{}", "    ".repeat(depth))
}

fn close(text: &mut String, open: &mut Vec<Loop>, keep: usize, indent: &str) {
    while open.len() > keep {
        open.pop();
        let _ = writeln!(text, "{}}}", inner(indent, open.len()));
    }
}

/// Returns the loops around a tap, the name that is left for the tap, and whether that name has a placeholder itself.
fn split(line: &FoldedLine) -> (Vec<Loop>, String, bool) {
    let mut loops = Vec::new();
    let mut rest: Vec<String> = Vec::new();
    for (index, part) in line.parts.iter().enumerate() {
        match part {
            NamePart::Axis(axis, values) if index + 1 < line.parts.len() && !rest.is_empty() => {
                loops.push((std::mem::take(&mut rest).join("."), axis.clone(), written_values(values)));
            }
            part => rest.push(part.written()),
        }
    }
    let is_end = rest.iter().any(|part| part.starts_with('{'));
    (loops, rest.join("."), is_end)
}

/// A variable named after the last word of the tap.
fn variable(parts: &[NamePart]) -> String {
    let word = parts.iter().rev().find_map(|part| match part {
        NamePart::Text(text) => Some(text.as_str()),
        NamePart::Number(_) | NamePart::Axis(..) => None,
    });
    let plain: String = word
        .unwrap_or("x")
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' })
        .collect();
    match plain.chars().next() {
        Some(first) if !first.is_ascii_digit() && !super::files::RESERVED.contains(&plain.as_str()) => plain,
        _ => "x".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fold::fold;
    use super::*;
    use crate::regenerate::ListedTensor;
    use mlx_parity_core::tensor::Dtype;

    #[test]
    fn loops_become_scopes() {
        let names = [
            "embed",
            "model.layers.0.norm",
            "model.layers.0.attn.q",
            "model.layers.0",
            "model.layers.1.norm",
            "model.layers.1.attn.q",
            "model.layers.1",
            "head",
        ];
        let goldens: Vec<ListedTensor> = names
            .iter()
            .map(|name| ListedTensor {
                name: (*name).to_owned(),
                dtype: Dtype::Float32,
                shape: vec![1, 2],
                finding: None,
                why: None,
                file: None,
            })
            .collect();
        let expected = r#"let embed = tap("embed", embed)?;    // float32 [1, 2]
for i in 0..2 {
    let _scope = scope("model.layers", i);
    let norm = tap("norm", norm)?;    // float32 [1, 2]
    let q = tap("attn.q", q)?;    // float32 [1, 2]
}
let layers = tap(&format!("model.layers.{i}"), layers)?;    // float32 [1, 2], in the loop, outside its scope
let head = tap("head", head)?;    // float32 [1, 2]
"#;
        assert_eq!(taps(&fold(&goldens), ""), expected);
    }
}
