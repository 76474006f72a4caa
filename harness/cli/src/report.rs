//! `cargo xtask report`: reports a run from its folder, whether `cargo test`, nextest or a command made it, and whether it
//! finished or was interrupted. It also reads a zipped run folder from another machine.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use thiserror::Error;

use super::find_run::{FoundRun, RunsError, find_earlier, find_with_sessions};
use super::merge::merge;
use super::pack::{PackError, pack};
use super::parity::{ParityError, finish};
use super::{CliError, Project, say};
use crate::error::CommandError;
use mlx_parity_core::debug::{Trace, TraceError};
use mlx_parity_core::files::atomic::write_atomically;
use mlx_parity_core::report::{
    Detail, ReportError, against_text, chrome_trace, environments, failures, run_resources, run_text,
    summary_line, trace_html, trace_text, write_html,
};
use mlx_parity_core::results::{Against, ExpectedSpecs, RunResults};
use mlx_parity_core::runs::{KeepError, Out, is_debug_session};
use mlx_parity_core::text::printable::clean_lines;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo nextest run; cargo xtask report     the last nextest run, spec by spec\n  \
    cargo xtask report --all                  with every checkpoint\n  \
    cargo xtask report --failures             with the text of every failing test\n  \
    cargo xtask report 20261116T044352647Z-12751\n  \
    cargo xtask report run.zip --html         a zipped run folder, from any machine, as a page\n  \
    cargo xtask report --against main         what changed since the newest run at `main`\n  \
    cargo xtask report --keep before-bump     pins the run, so that no newer one removes it\n  \
    cargo xtask report --merge parts/*        one run of the parts that several machines ran\n\n\
    For a debug session, the command prints the trace; --html and --pack work as for a run.\n\
    For a run, it writes report.html, report.txt, junit.xml and trials.jsonl into the run folder.\n\
    It never changes a zip file. --merge makes a new run. It is red if a trial was judged by no\n\
    part or by two, or if the parts do not belong together; the report names each reason.\n\
    Exits with 1 when the run is red, incomplete, still running or a debug session, and with 0 otherwise.")]
pub(crate) struct Arguments {
    /// A folder in target/parity/runs or target/parity/debug, or the path of a run folder or zip file [default: newest]
    run: Option<String>,
    /// Merge the parts of a split suite into a new run, and report it: names, run folders or zip files
    #[arg(long, value_name = "RUN", num_args = 1.., conflicts_with = "run")]
    merge: Vec<String>,
    /// Print every checkpoint of every spec
    #[arg(long)]
    all: bool,
    /// Also print the text of each failing test
    #[arg(long)]
    failures: bool,
    /// Order of specs and checkpoints: `run` is specs by name and checkpoints in execution order, `backwards` from pixels back to text encoders
    #[arg(long, value_enum, default_value_t = Order::Run)]
    order: Order,
    /// Also print what changed since another run, or since the newest run at a commit
    #[arg(long, value_name = "RUN|COMMIT")]
    against: Option<String>,
    /// Write the report as one HTML page [default: report.html in the run folder, RUN.html for a zip file]
    #[arg(long, value_name = "FILE", require_equals = true, num_args = 0..=1)]
    html: Option<Option<PathBuf>>,
    /// Write the times of all stages as a Chrome trace, which ui.perfetto.dev opens [default: trace.json]
    #[arg(long, value_name = "FILE", require_equals = true, num_args = 0..=1)]
    trace: Option<Option<PathBuf>>,
    /// Pack the run folder into one zip file, for a report on any machine
    #[arg(long, value_name = "FILE.zip")]
    pack: Option<PathBuf>,
    /// Keep the run under this name
    #[arg(long, value_name = "NAME")]
    keep: Option<String>,
}

/// The order of specs and checkpoints in a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Order {
    Run,
    Backwards,
}

/// Why a file of a report could not be written.
#[derive(Debug, Error)]
pub(crate) enum ReportFileError {
    #[error("cannot write `{path}`")]
    Trace { path: PathBuf, source: std::io::Error },
    #[error("cannot write the trace as JSON")]
    Json(#[from] serde_json::Error),
    #[error("a zip file cannot be kept")]
    KeptZip,
    #[error("a zip file is packed already")]
    PackedZip,
    #[error(transparent)]
    Session(#[from] TraceError),
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error(transparent)]
    Pack(#[from] PackError),
    #[error(transparent)]
    Keep(#[from] KeepError),
}

impl CommandError for ReportFileError {
    fn next(&self) -> Option<String> {
        match self {
            Self::KeptZip | Self::PackedZip => Some("copy the zip file".into()),
            Self::Pack(PackError::Name { file }) => Some(format!("use `--pack {}.zip`", file.display())),
            Self::Keep(KeepError::Taken { .. }) => {
                Some("choose another name, or remove that run folder first".into())
            }
            Self::Keep(KeepError::Running { .. }) => Some("wait until the run has ended".into()),
            _ => None,
        }
    }
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let mut run = match arguments.merge.as_slice() {
        [] => find_with_sessions(project, arguments.run.as_deref())?,
        parts => FoundRun::Folder(merge(project, parts)?),
    };
    if is_debug_session(run.folder()) {
        return report_session(&run, arguments);
    }
    if let Some(name) = &arguments.keep {
        let FoundRun::Folder(folder) = &run else { return Err(ReportFileError::KeptZip.into()) };
        run = FoundRun::Folder(Out::of(project.root()).keep(folder, name).map_err(ReportFileError::from)?);
    }
    let results = read(&run, arguments.order)?;
    let earlier = arguments.against.as_deref().map(|name| -> Result<_, CliError> {
        let earlier = find_earlier(project, name, run.folder())?;
        let results = read(&earlier, arguments.order)?;
        Ok((name, results))
    });
    let earlier = earlier.transpose()?;
    let against = earlier.as_ref().map(|(name, before)| Against { name, before, now: &results });
    say(&run_text(&results, if arguments.all { Detail::All } else { Detail::Brief }, true));
    if arguments.failures {
        say(&failures(&results));
    }
    match &run {
        FoundRun::Folder(folder) => finish(project, folder, &results)?,
        FoundRun::Zip { .. } => {
            let lines = environments(&results).into_iter().chain(run_resources(&results));
            lines.for_each(|line| say(&format!("{line}\n")));
            say(&format!("{}\n", summary_line(&results.summary())));
        }
    }
    if let Some(against) = &against {
        say(&format!("\n{}", against_text(against, true)));
    }
    write_files(arguments, &run, &results, against.as_ref())?;
    let summary = results.summary();
    let complete = summary.not_run + summary.pending == 0 && results.unended.is_empty();
    Ok(if summary.failed == 0 && complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the trace of a debug session, and writes it as text and as a page into the session's folder; a zip file is only
/// read.
fn report_session(session: &FoundRun, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let trace = Trace::read(session.folder()).map_err(ReportFileError::from)?;
    let text = trace_text(&trace);
    say(&text);
    let folder = match session {
        FoundRun::Folder(folder) => Some(folder),
        FoundRun::Zip { .. } => None,
    };
    let mut files: Vec<(PathBuf, String)> = Vec::new();
    files.extend(folder.map(|folder| (folder.join("report.txt"), clean_lines(&text).into_owned())));
    let page = page_file(arguments, session).or_else(|| folder.map(|folder| folder.join("report.html")));
    files.extend(page.clone().map(|page| (page, trace_html(&trace))));
    for (path, content) in files {
        write_atomically(&path, |out| out.write_all(content.as_bytes()))
            .map_err(|source| ReportFileError::Trace { path: path.clone(), source })?;
    }
    if let Some(page) = page {
        println!("page: {}", page.display());
    }
    match (&arguments.pack, folder) {
        (Some(file), Some(folder)) => {
            pack(folder, file).map_err(ReportFileError::from)?;
            println!("packed: {}", file.display());
        }
        (Some(_), None) => return Err(ReportFileError::PackedZip.into()),
        (None, _) => {}
    }
    // Only a green run is a success, and a session proves nothing.
    Ok(ExitCode::FAILURE)
}

/// The file of the page that was asked for.
fn page_file(arguments: &Arguments, run: &FoundRun) -> Option<PathBuf> {
    match (arguments.html.as_ref()?, run) {
        (Some(file), _) => Some(file.clone()),
        (None, FoundRun::Folder(folder)) => Some(folder.join("report.html")),
        (None, FoundRun::Zip { file, .. }) => {
            Some(PathBuf::from(file.file_stem().unwrap_or_default()).with_extension("html"))
        }
    }
}

/// Reads the results of a run that has some.
pub(crate) fn read(run: &FoundRun, order: Order) -> Result<RunResults, CliError> {
    let mut results = RunResults::read(run.folder(), ExpectedSpecs::Everything).map_err(ParityError::from)?;
    if results.target.is_empty() {
        return Err(RunsError::NoSuites { run: run.named().to_owned() }.into());
    }
    if results.is_empty() {
        return Err(RunsError::Empty { run: run.named().to_owned() }.into());
    }
    if order == Order::Backwards {
        results.backwards();
    }
    Ok(results)
}

/// Writes the files that were asked for, and prints where they are.
fn write_files(
    arguments: &Arguments,
    run: &FoundRun,
    results: &RunResults,
    against: Option<&Against<'_>>,
) -> Result<(), ReportFileError> {
    let page = page_file(arguments, run).or_else(|| match run {
        // With another run, the page in the run folder gets the column against it.
        FoundRun::Folder(folder) if against.is_some() => Some(folder.join("report.html")),
        _ => None,
    });
    if let Some(path) = page {
        write_html(&path, results, against)?;
        println!("page: {}", path.display());
    }
    if let Some(file) = &arguments.trace {
        let path = file.as_deref().unwrap_or(Path::new("trace.json"));
        let trace = chrome_trace(results)?;
        write_atomically(path, |out| out.write_all(trace.as_bytes()))
            .map_err(|source| ReportFileError::Trace { path: path.to_owned(), source })?;
        println!("trace: {}; open it at https://ui.perfetto.dev", path.display());
    }
    if let Some(file) = &arguments.pack {
        let FoundRun::Folder(folder) = run else { return Err(ReportFileError::PackedZip) };
        pack(folder, file)?;
        println!("packed: {}", file.display());
    }
    Ok(())
}
