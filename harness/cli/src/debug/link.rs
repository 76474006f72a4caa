//! The thread that attends a worker: waits for its connection, reads its messages, and reports how it ended.

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::state::Shared;
use super::suite::{Door, SuiteProcess};
use mlx_parity_core::debug::{EndKind, Ended, FromWorker, MOST_MESSAGE};
use mlx_parity_core::results::{exit_text, last_output};
use mlx_parity_core::run_folder::{EXIT, Exit, Folder};

/// Time between two looks at the socket and the process.
const PAUSE: Duration = Duration::from_millis(10);
/// How long a suite may take to end after its worker.
const ENDING: Duration = Duration::from_secs(10);

/// A suite that was started, and the door for its worker.
pub(super) struct Attended {
    pub(super) door: Door,
    pub(super) process: SuiteProcess,
}

/// Attends one worker to its end.
pub(super) fn attend(shared: &Shared, attended: Attended) {
    let Attended { door, mut process } = attended;
    let stream = accept(&door, &mut process);
    let connected = stream.is_some();
    if let Some(stream) = stream {
        read(shared, stream);
    }
    let deadline = Instant::now() + ENDING;
    while !process.has_ended() && Instant::now() < deadline {
        std::thread::sleep(PAUSE);
    }
    let output = process.finish();
    let ended = ended(shared, connected, output);
    shared.state().finish(ended);
    shared.notify();
}

/// Waits for the worker; `None` if the suite ends without one.
fn accept(door: &Door, process: &mut SuiteProcess) -> Option<UnixStream> {
    loop {
        match door.listener().accept() {
            Ok((stream, _)) => return stream.set_nonblocking(false).ok().map(|()| stream),
            Err(_) if process.has_ended() => return None,
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Reads messages until the connection closes.
fn read(shared: &Shared, stream: UnixStream) {
    let Ok(writer) = stream.try_clone() else { return };
    shared.state().connect(writer);
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        match reader.by_ref().take(MOST_MESSAGE as u64).read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return,
        }
        // A message that is too long or unknown comes from another version: nothing that follows could be trusted.
        let Ok(message) = serde_json::from_slice::<FromWorker>(&line) else {
            shared.state().end(EndKind::Crashed);
            return;
        };
        shared.state().receive(message);
        shared.notify();
    }
}

/// How the worker ended, from what it said, what its suite wrote, and what Cargo printed.
fn ended(shared: &Shared, connected: bool, output: Vec<String>) -> Ended {
    let state = shared.state();
    let last = match &state.last_tap {
        Some(tap) => format!("after tap `{tap}`"),
        None => "before any tap".to_owned(),
    };
    let folder = Folder::at(shared.folder.join(&state.spec));
    match state.ending {
        Some(how @ EndKind::Terminated) => state.ended_as(how, "terminated".to_owned()),
        Some(how @ EndKind::Idle) => {
            state.ended_as(how, "no command came for the idle limit, so the worker has ended".to_owned())
        }
        Some(how @ EndKind::Finished) => state.ended_as(how, "the port has run to its end".to_owned()),
        _ if connected => {
            let exit: Option<Exit> = folder.read_json(EXIT).ok().flatten();
            let how = exit.as_ref().and_then(exit_text).unwrap_or_else(|| "ended without a word".to_owned());
            let ended = state.ended_as(EndKind::Crashed, format!("the worker {how} {last}"));
            Ended { output: last_output(&folder), ..ended }
        }
        _ => {
            let problem = std::fs::read_to_string(shared.folder.join(super::suite::PROBLEM)).ok();
            let text = problem.unwrap_or_else(|| "Cargo could not build or start the suite".to_owned());
            let worker = last_output(&folder);
            let output = if output.is_empty() { worker } else { output };
            Ended { output, ..state.ended_as(EndKind::NotStarted, text.trim().to_owned()) }
        }
    }
}
