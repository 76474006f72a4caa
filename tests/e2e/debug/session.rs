//! A session that a test drives: it writes commands to `debug --json` and reads one answer per line.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use serde_json::Value;

use crate::project::{Project, Ran, SPEC};

/// The spec that all sessions step through.
pub(crate) const ID: &str = "gated_mlp/block";

/// A running `debug --json`.
pub(crate) struct Session {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Session {
    /// Starts a session and waits until the port stands before its start.
    pub(crate) fn start(project: &Project, arguments: &[&str]) -> Self {
        let mut command = project.xtask(&[&["debug", ID, "--json"], arguments].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        Self::of(command)
    }

    fn of(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut session = Self { child, stdin, stdout };
        let started = session.answer();
        assert_eq!(
            (&started["kind"], &started["why"]["reason"]),
            (&"stopped".into(), &"start".into()),
            "{started}"
        );
        session
    }

    /// Gives a command and returns its answer.
    pub(crate) fn ask(&mut self, line: &str) -> Value {
        self.tell(line);
        self.answer()
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    pub(crate) fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let answer = serde_json::from_str(&line);
        assert!(answer.is_ok(), "`{line}` is no answer");
        answer.unwrap()
    }

    /// The tap of the stop that answers this command.
    #[track_caller]
    pub(crate) fn tap(&mut self, line: &str) -> String {
        let answer = self.ask(line);
        let name = answer["tap"]["name"].as_str();
        assert!(name.is_some(), "`{line}` stops at no tap: {answer}");
        name.unwrap().to_owned()
    }

    /// The single number that this expression gives.
    #[track_caller]
    pub(crate) fn number(&mut self, expression: &str) -> f64 {
        let answer = self.ask(&format!("eval {expression}"));
        let number = answer["values"][0]["values"][0].as_f64();
        assert!(number.is_some(), "`{expression}`: {answer}");
        number.unwrap()
    }

    /// The message of the error that this command gives.
    #[track_caller]
    pub(crate) fn error(&mut self, line: &str) -> String {
        let answer = self.ask(line);
        assert_eq!(answer["kind"], "error", "`{line}`: {answer}");
        answer["message"].as_str().unwrap().to_owned()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The process of the worker.
    pub(crate) fn worker(&mut self) -> u64 {
        self.ask("status")["worker"].as_u64().unwrap()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Closes standard input and waits for the end.
    pub(crate) fn ends(mut self) -> ExitStatus {
        drop(self.stdin.take());
        self.child.wait().unwrap()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a script through a pipe.
pub(crate) fn script(project: &Project, lines: &str, arguments: &[&str]) -> Ran {
    let mut command = project.xtask(&[&["debug", ID], arguments].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A script that ends early no longer reads.
    let _ = stdin.write_all(lines.as_bytes());
    drop(stdin);
    Ran::of(child.wait_with_output().unwrap())
}

/// A project whose port has scopes, with checkpoints in them.
pub(crate) fn scoped() -> Project {
    let project = Project::with_port("scoped");
    let text = fs::read_to_string(project.path(SPEC)).unwrap();
    let spec = text.trim_end().to_owned()
        + "\n  - {name: \"blocks.{i}.attn.q\", for: {i: 0..3}, dtype: float32, shape: [2], level: 1, range: [0, 9]}\
           \n  - {name: \"blocks.{i}.out\", for: {i: 0..3}, dtype: float32, shape: [2], range: [0, 2]}\
           \n  - {name: end, dtype: float32, shape: [2], range: [0, 9]}\n";
    fs::write(project.path(SPEC), spec).unwrap();
    project
}

/// The folder of the only session of a project.
pub(crate) fn folder(project: &Project) -> PathBuf {
    let entries =
        fs::read_dir(project.path("target/parity/debug")).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    folders.remove(0)
}

/// The name of the only session.
pub(crate) fn name(project: &Project) -> String {
    folder(project).file_name().unwrap().to_string_lossy().into_owned()
}

/// The events of the only session.
pub(crate) fn trace(project: &Project) -> Vec<Value> {
    let text = fs::read_to_string(folder(project).join("trace.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
