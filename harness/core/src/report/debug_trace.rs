//! The trace of a debug session as text and as a page. Both say in their first line that nothing was judged.

use std::fmt::Write as _;

use super::debug_answer::{answer_text, ended_text, source_text};
use super::html::escaped;
use crate::debug::{DebugAnswer, TraceEvent, TraceLine};
use crate::spec::list::counted;
use crate::text::printable::clean;

/// The first line of every report on a session.
const BANNER: &str = "DEBUG session: a person or a program stepped through the port, so nothing was judged";

/// What the last line says about a trace that lacks its end.
const UNENDED: &str = "the trace has no end: the session goes on, or was killed";

/// Returns the trace as text: each command with its answer, in order.
pub fn trace_text(trace: &[TraceLine]) -> String {
    let mut text = format!("{BANNER}\n");
    for line in trace {
        let (head, body) = described(line);
        let _ = writeln!(text, "{}  {head}", time(&line.at));
        for line in body.lines() {
            let _ = writeln!(text, "    {line}");
        }
    }
    text + &format!("{}\n", counts(trace))
}

/// Returns the trace as one HTML page, which needs no script and no network.
pub fn trace_html(trace: &[TraceLine]) -> String {
    let mut items = String::new();
    for line in trace {
        let (head, body) = described(line);
        let class = match &line.event {
            TraceEvent::Command { .. } => "command",
            TraceEvent::Answer { answer, .. } if matches!(**answer, DebugAnswer::Stopped(_)) => "stop",
            TraceEvent::Answer { .. } => "answer",
            _ => "event",
        };
        let at = escaped(&time(&line.at));
        let body = pre(&body) + &source(&line.event);
        let _ =
            writeln!(items, "<li class=\"{class}\"><time>{at}</time> <b>{}</b>{body}</li>", escaped(&head));
    }
    let (counts, banner) = (escaped(&counts(trace)), escaped(BANNER));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>parity: DEBUG session</title>\n\
         <style>\nbody {{ font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 0 auto; padding: 1rem; }}\n\
         .banner {{ background: #b45309; color: #fff; padding: .6rem 1rem; border-radius: .4rem; }}\n\
         li {{ margin: .4rem 0; }} time {{ opacity: .7; font-variant-numeric: tabular-nums; }}\n\
         pre {{ overflow-x: auto; margin: .2rem 0 .2rem 1rem; }}\n\
         .stop > b {{ color: #b45309; }}\n@media (prefers-color-scheme: dark) {{ .stop > b {{ color: #fbbf24; }} }}\n\
         </style>\n</head>\n<body>\n<h1>parity</h1>\n<p class=\"banner\" role=\"note\">{banner}</p>\n\
         <p>{counts}</p>\n<ol>\n{items}</ol>\n</body>\n</html>\n"
    )
}

/// The lines of the port and of the reference around a stop, which a click shows.
fn source(event: &TraceEvent) -> String {
    let TraceEvent::Answer { answer, .. } = event else { return String::new() };
    let DebugAnswer::Stopped(stop) = &**answer else { return String::new() };
    let text = source_text(stop);
    if text.is_empty() {
        return text;
    }
    format!("<details><summary>source</summary>{}</details>", pre(&text))
}

fn pre(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("<pre>{}</pre>", escaped_lines(text)) }
}

/// The first line of an event, and the rest of it.
fn described(line: &TraceLine) -> (String, String) {
    match &line.event {
        TraceEvent::Session { mlx_parity, process, .. } => {
            (format!("session of mlx-parity {}, pid {process}", clean(mlx_parity)), String::new())
        }
        TraceEvent::Run { run, spec } => (format!("run {run}: `{}`", clean(spec)), String::new()),
        TraceEvent::Command { text, .. } => (format!("> {}", clean(text)), String::new()),
        TraceEvent::Answer { answer, .. } => {
            let text = answer_text(answer);
            let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
            (first.to_owned(), rest.to_owned())
        }
        TraceEvent::Ended { ended } => {
            let text = ended_text(ended);
            let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
            (first.to_owned(), rest.to_owned())
        }
    }
}

fn counts(trace: &[TraceLine]) -> String {
    let count = |is: fn(&TraceEvent) -> bool| trace.iter().filter(|line| is(&line.event)).count();
    let stops = count(
        |event| matches!(event, TraceEvent::Answer { answer, .. } if matches!(**answer, DebugAnswer::Stopped(_))),
    );
    let commands = count(|event| matches!(event, TraceEvent::Command { .. }));
    let runs = count(|event| matches!(event, TraceEvent::Run { .. }));
    // After the end of a worker, breakpoints can still be edited, and notes be taken.
    let end = trace
        .iter()
        .rev()
        .find(|line| matches!(line.event, TraceEvent::Run { .. } | TraceEvent::Ended { .. }));
    let ended = matches!(end.map(|line| &line.event), Some(TraceEvent::Ended { .. }));
    let cut = if ended { String::new() } else { format!("; {UNENDED}") };
    format!(
        "DEBUG: {}, {}, {}, no verdict{cut}",
        counted(runs, "run"),
        counted(stops, "stop"),
        counted(commands, "command")
    )
}

/// The time of the day, without the date.
fn time(at: &str) -> String {
    clean(at.split_once('T').map_or(at, |(_, time)| time)).into_owned()
}

fn escaped_lines(text: &str) -> String {
    text.lines().map(escaped).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::debug::{DebugCommand, EndKind, Ended};

    #[test]
    fn a_page_says_debug_and_escapes_everything() {
        let command = DebugCommand::Note { text: "<script>alert(1)</script>".into() };
        let event = TraceEvent::Command { number: 1, text: command.to_string(), command };
        let answer = Box::new(DebugAnswer::error("a\nb <c>"));
        let lines = [event, TraceEvent::Answer { number: 1, answer }]
            .map(|event| TraceLine { at: "2026-11-18T15:00:00.000Z".into(), event });
        let page = trace_html(&lines);
        assert!(page.contains("DEBUG session: ") && !page.contains("<script"), "{page}");
        assert!(page.contains("&lt;script&gt;") && page.contains("b &lt;c&gt;"), "{page}");
        let text = trace_text(&lines);
        assert!(
            text.starts_with("DEBUG session: ") && text.contains("15:00:00.000Z  > note <script>"),
            "{text}"
        );
        let counted = "DEBUG: 0 runs, 0 stops, 1 command, no verdict";
        assert!(text.ends_with(&format!("{counted}; {UNENDED}\n")), "{text}");
    }

    #[test]
    fn a_trace_without_an_end_says_so() {
        let at = |event| TraceLine { at: "2026-11-18T15:00:00.000Z".into(), event };
        let run = |run| at(TraceEvent::Run { run, spec: "a/b".into() });
        let answer = || at(TraceEvent::Answer { number: 1, answer: Box::new(DebugAnswer::Noted) });
        let text = "terminated".to_owned();
        let ended = Ended { how: EndKind::Terminated, text, last_tap: None, place: None, output: Vec::new() };
        let ended = || at(TraceEvent::Ended { ended: ended.clone() });
        for (lines, has_end) in [
            (vec![run(1), answer()], false),
            (vec![run(1), ended(), answer()], true),
            (vec![run(1), ended(), run(2), answer()], false),
        ] {
            assert_eq!(trace_text(&lines).contains(UNENDED), !has_end, "{lines:?}");
        }
    }
}
