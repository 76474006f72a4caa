//! The command `status`: the progress of active runs.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::parity::ParityError;
use super::progress_text::{device_text, spec_text};
use super::{CliError, Project, say};
use mlx_parity_core::debug::PAUSED;
use mlx_parity_core::report::summary_line;
use mlx_parity_core::results::{ExpectedSpecs, RunProgress, RunResults, RunWatch, SpecState};
use mlx_parity_core::run_folder::JOB;
use mlx_parity_core::runs::{DebugHolder, DeviceHolder, KnownRun, Out};
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::text::printable::{self, clean};
use mlx_parity_core::text::program::{program, suite_command};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask status             the active runs, in any terminal\n  \
    cargo xtask status --json      one JSON object\n\n\
    A checkpoint that was not reached yet is pending, not failed. In the JSON object, `running`\n\
    lists the runs, and `debug` is the debug session. Exits with 0, even when nothing runs.")]
pub(crate) struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let out = Out::of(project.root());
    let holder = out.device_holder();
    let session = out.debug_holder();
    let runs = out.all_runs();
    let mut running = Vec::new();
    for run in runs.iter().filter(|run| run.running) {
        let progress = RunWatch::of(&run.folder).look(holder.as_ref()).map_err(ParityError::from)?;
        running.push((run, progress));
    }
    let newest = runs.first().filter(|_| running.is_empty());
    let newest = match newest {
        None => None,
        Some(run) => {
            let results =
                RunResults::read(&run.folder, ExpectedSpecs::Selected).map_err(ParityError::from)?;
            Some((run, results))
        }
    };
    if arguments.json {
        say(&format!(
            "{}\n",
            printable::json(
                &to_json(&running, newest.as_ref(), holder.as_ref(), session.as_ref()).to_string()
            )
        ));
        return Ok(ExitCode::SUCCESS);
    }
    for (run, progress) in &running {
        say(&run_text(run, progress));
    }
    if running.is_empty() {
        say(&nothing_text(newest.as_ref()));
    }
    if let Some(session) = &session {
        say(&session_text(session));
    }
    let is_shown =
        |holder: &DeviceHolder| is_of_a_run(holder, &running) || holder.debug.is_some() && session.is_some();
    if let Some(holder) = holder.filter(|holder| !is_shown(holder)) {
        say(&format!("the device is {}\n", device_text(Some(&holder))));
    }
    Ok(ExitCode::SUCCESS)
}

/// `debug session of `a/b`, pid 7: paused (target/parity/debug/…)`.
fn session_text(session: &DebugHolder) -> String {
    let DebugHolder { process, spec, folder } = session;
    let shown = clean(&folder.display().to_string()).into_owned();
    format!("DEBUG session of `{}`, pid {process}: {} ({shown})\n", clean(spec), session_state(session))
}

/// What the worker of a session does, as its folder shows.
fn session_state(session: &DebugHolder) -> &'static str {
    let folder = session.folder.join(&session.spec);
    match () {
        () if folder.join(PAUSED).exists() => "paused",
        () if folder.join(JOB).exists() => "running",
        () => "starting",
    }
}

/// Whether one of the runs holds the device, so that its lines already show it.
fn is_of_a_run(holder: &DeviceHolder, running: &[(&KnownRun, RunProgress)]) -> bool {
    let mut specs = running.iter().flat_map(|(_, progress)| &progress.specs);
    specs.any(|spec| spec.process == Some(holder.process))
}

fn run_text(run: &KnownRun, progress: &RunProgress) -> String {
    let by = run.process.map(|process| format!(", pid {process}")).unwrap_or_default();
    let mut text = format!("run {}{by}", clean(&run.name()));
    if !progress.planned {
        return text + ": no suite has started yet; Cargo builds it, or it lists its tests\n";
    }
    let [over, active, waiting] = progress.counts();
    let (done, declared) = progress.checkpoints();
    let _ = writeln!(
        text,
        ": {} done, {active} running, {waiting} waiting; {done} of {}",
        counted(over, "spec"),
        counted(declared, "checkpoint")
    );
    for spec in
        progress.specs.iter().filter(|spec| !matches!(spec.state, SpecState::Waiting | SpecState::Ignored))
    {
        let _ = writeln!(text, "  {}", spec_text(spec));
    }
    text
}

fn nothing_text(newest: Option<&(&KnownRun, RunResults)>) -> String {
    match newest {
        None => format!("nothing runs, and there is no earlier run; start one with `{}`\n", suite_command()),
        Some((run, results)) => format!(
            "nothing runs; the newest run is {}: {}{}\nsee it with `{} report`\n",
            clean(&run.name()),
            summary_line(&results.summary()),
            if results.unended.is_empty() { "" } else { ", interrupted" },
            program()
        ),
    }
}

fn to_json(
    running: &[(&KnownRun, RunProgress)],
    newest: Option<&(&KnownRun, RunResults)>,
    holder: Option<&DeviceHolder>,
    session: Option<&DebugHolder>,
) -> Value {
    let session = session.map(|session| {
        let mut json = json!(session);
        json["state"] = json!(session_state(session));
        json
    });
    let running: Vec<Value> = running
        .iter()
        .map(|(run, progress)| {
            let (mut json, [over, active, waiting]) = (json!(progress), progress.counts());
            let (done, declared) = progress.checkpoints();
            json["run"] = json!(run.name());
            json["folder"] = json!(run.folder);
            json["process"] = json!(run.process);
            json["counts"] = json!({
                "specs_done": over, "specs_running": active, "specs_waiting": waiting,
                "checkpoints_done": done, "checkpoints_declared": declared,
            });
            json
        })
        .collect();
    let newest = newest.map(|(run, results)| {
        let summary = results.summary();
        json!({
            "run": run.name(), "folder": run.folder, "passed": summary.passed, "failed": summary.failed,
            "ignored": summary.ignored, "pending": summary.pending, "interrupted": !results.unended.is_empty(),
        })
    });
    json!({"running": running, "newest": newest, "device": holder, "debug": session})
}
