//! The live lines of a run: one per spec that runs or waits for the device. Only a terminal shows them.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::progress_text::spec_text;
use mlx_parity_core::results::{RunProgress, RunWatch, SpecProgress, SpecState};
use mlx_parity_core::runs::{Going, Out};
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::text::printable::clean;

/// How long a run shows nothing: most runs end before.
const SILENT: Duration = Duration::from_secs(2);
/// Time between two looks at the run folder.
const PAUSE: Duration = Duration::from_millis(200);

/// A thread that draws the live lines until this value is dropped.
pub(crate) struct LiveLines {
    /// Closed when the lines are no longer wanted.
    wanted: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl LiveLines {
    /// Starts to draw the run's progress, two seconds after its suite has started; never where stderr is no terminal.
    pub(crate) fn of(out: Out, going: &Going) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { wanted: None, thread: None };
        }
        let (wanted, closed) = channel();
        let mut watch = RunWatch::of(&going.folder);
        let thread = std::thread::spawn(move || {
            let mut lines: Option<Lines> = None;
            let mut planned = None;
            while closed.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                // A file that cannot be read now is read at the next look, and the report says what is damaged.
                let Ok(progress) = watch.look(out.device_holder().as_ref()) else { continue };
                // Until the suite starts, Cargo draws its own progress.
                if !progress.planned || planned.get_or_insert_with(Instant::now).elapsed() < SILENT {
                    continue;
                }
                lines.get_or_insert_with(Lines::new).draw(&progress);
            }
            if let Some(lines) = lines {
                lines.clear();
            }
        });
        Self { wanted: Some(wanted), thread: Some(thread) }
    }
}

impl Drop for LiveLines {
    fn drop(&mut self) {
        drop(self.wanted.take());
        if let Some(thread) = self.thread.take() {
            // A panic while drawing does not concern the run.
            let _ = thread.join();
        }
    }
}

struct Lines {
    all: MultiProgress,
    run: ProgressBar,
    specs: BTreeMap<String, ProgressBar>,
}

impl Lines {
    fn new() -> Self {
        let all = MultiProgress::new();
        let run = all.add(bar());
        Self { all, run, specs: BTreeMap::new() }
    }

    fn draw(&mut self, progress: &RunProgress) {
        self.run.set_message(run_text(progress));
        self.run.tick();
        let shown: Vec<&SpecProgress> =
            progress.specs.iter().filter(|spec| is_shown(spec, progress)).collect();
        self.specs.retain(|id, bar| {
            let stays = shown.iter().any(|spec| spec.spec == *id);
            if !stays {
                bar.finish_and_clear();
                self.all.remove(bar);
            }
            stays
        });
        for spec in shown {
            let bar = self.specs.entry(spec.spec.clone()).or_insert_with(|| self.all.add(bar()));
            bar.set_message(spec_text(spec));
            bar.tick();
        }
    }

    fn clear(self) {
        for bar in self.specs.values().chain([&self.run]) {
            bar.finish_and_clear();
        }
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
        bar.set_style(style);
    }
    bar
}

/// Whether a spec has a line: it runs, or it waits for a device that another run holds.
fn is_shown(spec: &SpecProgress, progress: &RunProgress) -> bool {
    match &spec.state {
        SpecState::WaitingForDevice { holder: Some(holder) } => !progress
            .specs
            .iter()
            .any(|other| other.state.is_running() && other.process == Some(holder.process)),
        SpecState::WaitingForDevice { holder: None } => false,
        state => state.is_running(),
    }
}

fn run_text(progress: &RunProgress) -> String {
    let ([over, _, _], (done, declared)) = (progress.counts(), progress.checkpoints());
    let text = format!(
        "{over} of {} done, {done} of {}",
        counted(progress.specs.len(), "spec"),
        counted(declared, "checkpoint")
    );
    clean(&text).into_owned()
}
