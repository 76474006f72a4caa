//! Text and ids that must be equal, with the first difference as people read it.

use super::Found;
use super::ids::ids;
use crate::gate::Class;
use crate::tensor::{Dtype, TensorView};
use crate::text::printable::clean;

/// Elements that are shown before and after the first difference.
const AROUND: usize = 24;

/// Bytes of UTF-8 text as uint8, or ids of any other integer dtype.
pub(super) fn text(expected: &TensorView<'_>, actual: &TensorView<'_>) -> Found {
    let is_text = expected.dtype() == Dtype::Uint8;
    let (noun, around) = if is_text { ("byte", AROUND) } else { ("id", AROUND / 4) };
    let (expected, actual) = (ids(expected), ids(actual));
    let same = expected.iter().zip(&actual).take_while(|(expected, actual)| expected == actual).count();
    let longer = expected.len().max(actual.len());
    if same == longer {
        let noun = if longer == 1 { noun.to_owned() } else { format!("{noun}s") };
        return Found {
            used: Some(0.0),
            mismatched: Some(0),
            agreement: format!("{longer} {noun}, all equal"),
            ..Found::default()
        };
    }
    let pairs = expected.iter().zip(&actual).filter(|(expected, actual)| expected != actual).count();
    let mismatched = (pairs + expected.len().abs_diff(actual.len())) as u64;
    let shown = |ids: &[i64]| if is_text { words(ids, same, around) } else { numbers(ids, same, around) };
    let place = match expected.len() == actual.len() {
        true => {
            let differ = if mismatched == 1 { "differs" } else { "differ" };
            format!("{mismatched} of {longer} {noun}s {differ}, the first at {same}")
        }
        false => {
            format!("the first difference is at {noun} {same} of {}, actual {}", expected.len(), actual.len())
        }
    };
    let detail = format!("{place}: expected {}, actual {}", shown(&expected), shown(&actual));
    let (used, fault) = (Some(f64::INFINITY), Some((Class::Value, detail)));
    Found { used, mismatched: Some(mismatched), fault, ..Found::default() }
}

/// The text around byte `at`, from the start of a character.
fn words(bytes: &[i64], at: usize, around: usize) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|&byte| byte as u8).collect();
    let starts = |at: &usize| bytes.get(*at).is_none_or(|byte| byte & 0xc0 != 0x80);
    let from = (0..=at.saturating_sub(around)).rev().find(starts).unwrap_or(0);
    let to = (at.saturating_add(around).min(bytes.len())..=bytes.len()).find(starts).unwrap_or(bytes.len());
    let at = (from..=at.min(bytes.len())).rev().find(starts).unwrap_or(from);
    let read = |part: &[u8]| clean(&String::from_utf8_lossy(part)).into_owned();
    let (before, after) = (read(&bytes[from..at]), read(&bytes[at..to.max(at)]));
    let (open, close) = (if from > 0 { "…" } else { "" }, if to < bytes.len() { "…" } else { "" });
    format!("\"{open}{before}⟨{after}⟩{close}\"")
}

fn numbers(ids: &[i64], at: usize, around: usize) -> String {
    let (from, to) = (at.saturating_sub(around), at.saturating_add(around).min(ids.len()));
    let list: Vec<String> = (from..to.max(from))
        .map(|place| if place == at { format!("⟨{}⟩", ids[place]) } else { ids[place].to_string() })
        .collect();
    let (open, close) = (if from > 0 { "… " } else { "" }, if to < ids.len() { " …" } else { "" });
    let end = if at >= ids.len() { "⟨end⟩" } else { "" };
    let joint = if end.is_empty() || list.is_empty() { "" } else { " " };
    format!("{open}{}{joint}{end}{close}", list.join(" "))
}
