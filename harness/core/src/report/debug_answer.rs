//! The answers of a debug session as text.

use std::fmt::Write as _;

use super::localisation::cause_rows;
use super::peeks::stats_text;
use super::words::multiple;
use crate::debug::{
    Breakpoint, DebugAnswer, DebugState, DebugStatus, Diagnosed, Ended, GoesOn, ShownTensor, Stop,
    StopReason, TappedTensor, Variable, VariableKind, Variables,
};
use crate::details::Excerpt;
use crate::record::{Status, TensorInfo};
use crate::spec::hit_name;
use crate::spec::list::counted;
use crate::text::printable::{clean, indented};

/// Returns an answer as one or several lines for people, with a line end.
pub fn answer_text(answer: &DebugAnswer) -> String {
    match answer {
        DebugAnswer::Stopped(stop) => stop_text(stop),
        DebugAnswer::Running(status) | DebugAnswer::Status(status) => status_text(status),
        DebugAnswer::Ended(ended) => ended_text(ended),
        DebugAnswer::Breakpoints { breakpoints, note } => breakpoints_text(breakpoints, note.as_deref()),
        DebugAnswer::Location(stop) => location_text(stop),
        DebugAnswer::Variables(variables) => variables_text(variables),
        DebugAnswer::Tensor(shown) => tensor_text(shown),
        DebugAnswer::Values { values } => match values.as_slice() {
            [value] if value.shape.is_empty() => format!("{}\n", value.text),
            values => {
                values.iter().map(|value| format!("{} = {}\n", clean(&value.source), value.text)).collect()
            }
        },
        DebugAnswer::Changed { name, with, now: true } => {
            format!("the port goes on from `{}` with {}\n", clean(name), with_text(with))
        }
        DebugAnswer::Changed { name, with, now: false } => {
            format!("at `{}`, the port will go on with {}\n", clean(name), with_text(with))
        }
        DebugAnswer::Saved { name, file, tensor } => {
            format!(
                "wrote `{}`, {}, to `{}`\n",
                clean(name),
                info(tensor),
                clean(&file.display().to_string())
            )
        }
        DebugAnswer::Diagnosis(found) => diagnosis_text(found),
        DebugAnswer::Noted => "noted\n".to_owned(),
        DebugAnswer::Help { text, .. } => text.clone(),
        DebugAnswer::Error { message, next } => {
            let mut text = format!("error: {}\n", indented(message, 7));
            if let Some(next) = next {
                let _ = writeln!(text, "to do: {}", indented(next, 7));
            }
            text
        }
    }
}

/// The first line of a stop, without a line end: `stopped at `gated`, red: value (used 3.2x), by breakpoint 1`.
fn stop_line(stop: &Stop) -> String {
    let why = match &stop.why {
        StopReason::Start => return "DEBUG session: the port stands before its start".to_owned(),
        StopReason::Returned => {
            return format!("the port has returned after {}", counted(as_count(stop.taps), "tap"));
        }
        StopReason::Failed { error } => return format!("the port has failed: {}", clean(error)),
        StopReason::Breakpoint { numbers } => {
            let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
            format!(", by breakpoint {}", numbers.join(", "))
        }
        StopReason::Pause => ", by a pause".to_owned(),
        StopReason::Change => ", because a change could not be made".to_owned(),
        StopReason::Step => String::new(),
    };
    match &stop.tap {
        Some(tap) => format!("stopped at `{}`, {}{why}", clean(&hit_name(&tap.name, tap.hit)), verdict(tap)),
        None => format!("stopped{why}"),
    }
}

fn stop_text(stop: &Stop) -> String {
    let mut text = stop_line(stop) + "\n";
    if let Some(tap) = &stop.tap {
        if !stop.scopes.is_empty() {
            row(&mut text, "scopes", &scopes_text(stop));
        }
        rows_of_tap(&mut text, stop, tap);
    }
    note(&mut text, stop.note.as_deref());
    text
}

fn scopes_text(stop: &Stop) -> String {
    stop.scopes.join(" > ")
}

fn rows_of_tap(text: &mut String, stop: &Stop, tap: &TappedTensor) {
    row(text, "actual", &sided(Some(&tap.actual), tap.actual_stats.as_ref().map(stats_text).as_deref()));
    if tap.expected.is_some() {
        row(
            text,
            "golden",
            &sided(tap.expected.as_ref(), tap.expected_stats.as_ref().map(stats_text).as_deref()),
        );
    }
    if tap.status == Some(Status::Fail) && !tap.detail.is_empty() {
        row(text, "detail", &tap.detail);
    }
    if let Some(place) = &stop.place {
        row(text, "port", &format!("{}:{}", place.file, place.line));
    }
    if stop.goes_on != GoesOn::Actual {
        row(text, "goes on", &format!("with {}", with_text(&stop.goes_on)));
    } else if stop.altered {
        row(text, "altered", "an earlier tap went on with another tensor than the port's own");
    }
}

fn location_text(stop: &Stop) -> String {
    let mut text = stop_line(stop) + "\n";
    row(&mut text, "taps", &format!("{} reached", counted(as_count(stop.taps), "tap")));
    let scopes = if stop.scopes.is_empty() { "none".to_owned() } else { scopes_text(stop) };
    row(&mut text, "scopes", &scopes);
    if let Some(tap) = &stop.tap {
        rows_of_tap(&mut text, stop, tap);
    }
    text += &source_text(stop);
    note(&mut text, stop.note.as_deref());
    text
}

/// The lines of the port and of the reference around a stop.
pub(super) fn source_text(stop: &Stop) -> String {
    let mut text = String::new();
    excerpt(&mut text, stop.source.as_ref());
    if let Some(place) = &stop.reference_place {
        row(&mut text, "made by", place);
    }
    excerpt(&mut text, stop.reference.as_ref());
    text
}

/// The lines of an excerpt, with a mark at the line that matters.
fn excerpt(text: &mut String, excerpt: Option<&Excerpt>) {
    let Some(excerpt) = excerpt else { return };
    let last = excerpt.first as usize + excerpt.lines.len();
    let width = last.to_string().len();
    for (number, line) in (excerpt.first..).zip(&excerpt.lines) {
        let mark = if number == excerpt.line { '>' } else { ' ' };
        let _ = writeln!(text, "{}", format!("  {mark} {number:>width$} | {}", clean(line)).trim_end());
    }
}

fn verdict(tap: &TappedTensor) -> String {
    let used = tap.used.map(|used| format!(", {} its tolerance", multiple(used))).unwrap_or_default();
    match (tap.status, tap.class) {
        (None, _) if !tap.checked => "not checked".to_owned(),
        (Some(Status::Fail), Some(class)) => format!("red: {class}{used}"),
        (Some(Status::Fail), None) => format!("red{used}"),
        (Some(Status::Approved), _) => format!("red, approved by eye{used}"),
        (Some(Status::Ungated), _) => format!("not gated{used}"),
        _ => format!("green{used}"),
    }
}

fn variables_text(found: &Variables) -> String {
    if found.variables.is_empty() {
        return "no tensor has such a name\n".to_owned();
    }
    let width = found.variables.iter().map(|one| clean(&one.name).chars().count()).max().unwrap_or(0).min(48);
    let mut text: String = found.variables.iter().map(|one| variable_line(one, width)).collect();
    if found.left_out > 0 {
        let _ = writeln!(text, "and {} more; name a pattern, such as `vars blocks.0.*`", found.left_out);
    }
    text
}

fn variable_line(one: &Variable, width: usize) -> String {
    let kind = match one.kind {
        VariableKind::Input => "input",
        VariableKind::Weight => "weight",
        VariableKind::Tap => match one.status {
            Some(Status::Fail) => "red",
            Some(Status::Pass) => "green",
            Some(Status::Approved) => "by eye",
            Some(Status::Ungated) => "ungated",
            None => "tap",
        },
    };
    let stats = one.stats.as_ref().map(|stats| {
        let text = stats_text(stats);
        format!("  {}", text.split(", first ").next().unwrap_or_default())
    });
    format!("{kind:7}  {:width$}  {}{}\n", clean(&one.name), info(&one.tensor), stats.unwrap_or_default())
}

fn tensor_text(shown: &ShownTensor) -> String {
    let mut text = format!("{}: {}\n", clean(&shown.name), info(&shown.tensor));
    if let Some(stats) = &shown.stats {
        let stats = stats_text(stats);
        row(&mut text, "stats", stats.split(", first ").next().unwrap_or_default());
    }
    let _ = writeln!(text, "{}", shown.value.text);
    text
}

fn breakpoints_text(breakpoints: &[Breakpoint], remark: Option<&str>) -> String {
    let mut text = String::new();
    if breakpoints.is_empty() {
        text += "no breakpoints\n";
    }
    for one in breakpoints {
        let hits =
            if one.hits == 0 { String::new() } else { format!("  ({})", counted(as_count(one.hits), "hit")) };
        let _ = writeln!(text, "{:>3}  {}{hits}", one.number, clean(&one.text));
    }
    note(&mut text, remark);
    text
}

fn diagnosis_text(found: &Diagnosed) -> String {
    let mut text = String::new();
    let name = &found.name;
    cause_rows(&found.causes, &found.facts, "", &mut |label, line| {
        let _ = writeln!(text, "  {label:8} {}", indented(line, 11));
    });
    if found.causes.is_empty() && found.facts.is_empty() {
        let _ = writeln!(text, "nothing explains `{}`", clean(name));
    }
    note(&mut text, found.note.as_deref());
    text
}

fn status_text(status: &DebugStatus) -> String {
    let state = match status.state {
        DebugState::Starting => "starting",
        DebugState::Paused => "paused",
        DebugState::Running => "running",
        DebugState::Ended => "ended",
    };
    let mut text =
        format!("DEBUG `{}`: {state}, {}", clean(&status.spec), counted(as_count(status.taps), "tap"));
    if let Some(last) = &status.last_tap {
        let _ = write!(text, ", last `{}`", clean(last));
    }
    if status.failed > 0 {
        let _ = write!(text, ", {} red", status.failed);
    }
    let _ = writeln!(text, ", {}", counted(status.breakpoints, "breakpoint"));
    if let Some(device) = &status.device {
        row(&mut text, "device", device);
    }
    if let Some(ended) = &status.ended {
        text += &ended_text(ended);
    }
    text
}

pub(super) fn ended_text(ended: &Ended) -> String {
    let mut text = format!("ended: {}\n", clean(&ended.text));
    if let (Some(tap), Some(place)) = (&ended.last_tap, &ended.place)
        && ended.how.is_failure()
    {
        row(&mut text, "last tap", &format!("`{tap}` at {}:{}", place.file, place.line));
    }
    for line in &ended.output {
        let _ = writeln!(text, "  | {}", clean(line));
    }
    text
}

fn with_text(goes_on: &GoesOn) -> String {
    match goes_on {
        GoesOn::Actual => "its own tensor".to_owned(),
        GoesOn::Golden => "the golden".to_owned(),
        GoesOn::Set { expression } => format!("`{}`", clean(expression)),
    }
}

fn sided(tensor: Option<&TensorInfo>, stats: Option<&str>) -> String {
    let form = tensor.map(info).unwrap_or_default();
    let stats = stats.map(|stats| stats.split(", first ").next().unwrap_or_default());
    format!("{form}  {}", stats.unwrap_or("not evaluated"))
}

fn info(tensor: &TensorInfo) -> String {
    format!("{} {:?}", tensor.dtype, tensor.shape)
}

fn row(text: &mut String, label: &str, line: &str) {
    let _ = writeln!(text, "  {label:8} {}", clean(line));
}

fn note(text: &mut String, note: Option<&str>) {
    if let Some(note) = note {
        let _ = writeln!(text, "note: {}", indented(note, 6));
    }
}

fn as_count(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
