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
        if let Some(own) = last_loop(line, &loops).filter(|_| is_end) {
            after_scope(&mut text, &mut open, &loops, own, line, indent);
            continue;
        }
        let shared = open.iter().zip(&loops).take_while(|(one, other)| one == other).count();
        close(&mut text, &mut open, shared, indent);
        for own in &loops[shared..] {
            enter(&mut text, &mut open, own.clone(), indent);
        }
        let inner = inner(indent, open.len());
        let name = if is_end { format!("&format!({rest:?})") } else { format!("{rest:?}") };
        tap_line(&mut text, &inner, &name, line);
    }
    close(&mut text, &mut open, 0, indent);
    text
}

fn tap_line(text: &mut String, inner: &str, name: &str, line: &FoldedLine) {
    let variable = variable(&line.parts);
    let about = format!("{} {:?}", line.tensor.dtype, line.tensor.shape);
    let times = if line.hits > 1 { format!(", {} times", line.hits) } else { String::new() };
    let _ = writeln!(text, "{inner}let {variable} = tap({name}, {variable})?;    // {about}{times}");
}

/// The loop that a name ends in, if it ends in the number of the round.
fn last_loop(line: &FoldedLine, loops: &[Loop]) -> Option<Loop> {
    let (NamePart::Axis(axis, values), before) = line.parts.split_last()? else { return None };
    let inner = before.iter().rposition(|part| matches!(part, NamePart::Axis(..))).map_or(0, |at| at + 1);
    let all_open = before.iter().filter(|part| matches!(part, NamePart::Axis(..))).count() == loops.len();
    let scope: Vec<String> = before[inner..].iter().map(NamePart::written).collect();
    (all_open && !scope.is_empty()).then(|| (scope.join("."), axis.clone(), written_values(values)))
}

/// Writes a tap whose name ends in the number of the round. It comes last in its loop, after the end of the scope.
fn after_scope(
    text: &mut String,
    open: &mut Vec<Loop>,
    outer: &[Loop],
    own: Loop,
    line: &FoldedLine,
    indent: &str,
) {
    let (scope, axis, values) = &own;
    let name = format!("&format!(\"{scope}.{{{axis}}}\")");
    if open.len() > outer.len() && open[..outer.len()] == *outer && open[outer.len()] == own {
        close(text, open, outer.len() + 1, indent);
        let inner = inner(indent, open.len());
        let _ = writeln!(text, "{inner}drop(_scope);");
        tap_line(text, &inner, &name, line);
        close(text, open, outer.len(), indent);
        return;
    }
    let shared = open.iter().zip(outer).take_while(|(one, other)| one == other).count();
    close(text, open, shared, indent);
    for (scope, axis, values) in &outer[shared..] {
        enter(text, open, (scope.clone(), axis.clone(), values.clone()), indent);
    }
    let depth = open.len();
    let _ = writeln!(text, "{}for {axis} in {values} {{", inner(indent, depth));
    tap_line(text, &inner(indent, depth + 1), &name, line);
    let _ = writeln!(text, "{}}}", inner(indent, depth));
}

/// Opens a loop with its scope.
fn enter(text: &mut String, open: &mut Vec<Loop>, own: Loop, indent: &str) {
    let inner = inner(indent, open.len());
    let _ = writeln!(text, "{inner}for {} in {} {{", own.1, own.2);
    let _ = writeln!(text, "{inner}    let _scope = scope({:?}, {});", own.0, own.1);
    open.push(own);
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

/// A variable named after the last word of the tap, with the number of the element of a tuple.
fn variable(parts: &[NamePart]) -> String {
    let mut words = parts.iter().rev().filter_map(|part| match part {
        NamePart::Text(text) => Some(text.as_str()),
        NamePart::Number(_) | NamePart::Axis(..) => None,
    });
    let is_number = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
    let word = match (words.next(), words.next()) {
        (Some(number), Some(word)) if is_number(&number) => Some(format!("{word}_{number}")),
        (word, _) => word.map(str::to_owned),
    };
    let word = word.as_deref();
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
    drop(_scope);
    let layers = tap(&format!("model.layers.{i}"), layers)?;    // float32 [1, 2]
}
let head = tap("head", head)?;    // float32 [1, 2]
"#;
        assert_eq!(taps(&fold(&goldens), ""), expected);
    }
}
