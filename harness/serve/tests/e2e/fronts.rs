//! The three fronts of a debug session: the prompt in a pseudo-terminal, REST and MCP.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::thread;
use std::time::Duration;

use mlx_parity_cli::debug::Command;
use serde_json::{Value, json};

use crate::client::Server;
use crate::mcp::Client;
use crate::processes::in_terminal;
use crate::project::{ID, Project};

/// A session that has started.
pub(crate) trait Front {
    /// Performs a command of the prompt, and returns its answer in the form of the prompt.
    fn perform(&mut self, line: &str) -> Value;
}

/// A front, and the stop before the port starts.
pub(crate) type Opened = (Box<dyn Front>, Value);

/// The prompt, at which the keys are typed. It prints JSON.
pub(crate) fn through_prompt(project: &Project) -> Opened {
    let mut command = in_terminal(&project.xtask(&["debug", ID, "--json"]));
    command.current_dir(project.path("")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let shown = BufReader::new(child.stdout.take().unwrap());
    let mut terminal = Terminal { child, shown };
    let start = terminal.answer();
    (Box::new(terminal), start)
}

/// The REST server, by the end point of each command.
pub(crate) fn through_rest(project: &Project) -> Opened {
    let server = Server::start(project, &[]);
    let start = server.posts("/debug/start?wait=120", json!({"spec": ID}), 200);
    (Box::new(Rest(server)), plain(start))
}

/// The MCP server.
pub(crate) fn through_mcp(project: &Project) -> Opened {
    let client = Client::start(project);
    let start = client.tells("debug_start", json!({"spec": ID, "wait_seconds": 120}));
    (Box::new(client), plain(start))
}

struct Terminal {
    child: Child,
    shown: BufReader<ChildStdout>,
}

impl Terminal {
    /// The next answer that the terminal shows, after the line that was typed.
    fn answer(&mut self) -> Value {
        let mut seen = String::new();
        loop {
            let mut line = Vec::new();
            let count = self.shown.read_until(b'\n', &mut line).unwrap();
            let line = String::from_utf8_lossy(&line);
            seen += &line;
            assert!(count > 0, "the terminal closed: {seen}");
            if let Some(start) = line.find("{\"kind\"") {
                return serde_json::from_str(line[start..].trim_end()).unwrap();
            }
        }
    }
}

impl Front for Terminal {
    fn perform(&mut self, line: &str) -> Value {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\r").as_bytes()).unwrap();
        stdin.flush().unwrap();
        self.answer()
    }
}

impl Drop for Terminal {
    /// Ends the session by the end of the input. The terminal drops this key if it comes before the prompt, so it is typed
    /// until the session has ended.
    fn drop(&mut self) {
        for _ in 0..600 {
            let stdin = self.child.stdin.as_mut().unwrap();
            let _ = stdin.write_all(b"\x04").and_then(|()| stdin.flush());
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        assert!(thread::panicking(), "the session did not end with its input");
    }
}

struct Rest(Server);

impl Front for Rest {
    fn perform(&mut self, line: &str) -> Value {
        let command = Command::parse(line).unwrap().unwrap();
        let Value::Object(mut fields) = serde_json::to_value(command).unwrap() else { unreachable!() };
        fields.retain(|_, value| !value.is_null());
        let name = fields.remove("command").unwrap();
        let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
        let (server, body) = (&self.0, || Value::Object(fields.clone()));
        let (_, answer) = match name.as_str().unwrap() {
            "break" => server.post("/debug/breakpoint", body()),
            "breaks" => server.get("/debug/breakpoints"),
            "remove" => server.post("/debug/breakpoint/remove", body()),
            "clear" => server.post("/debug/breakpoints/clear", json!({})),
            "continue" => return self.stop_after("/debug/continue_async"),
            "next" => return self.stop_after("/debug/step/over"),
            "into" => return self.stop_after("/debug/step/into"),
            "out" => return self.stop_after("/debug/step/out"),
            "restart" => return self.stop_after("/debug/restart"),
            "location" => server.get("/debug/location"),
            "vars" => server.get(&format!("/debug/variables?pattern={}", escaped(text("pattern")))),
            "show" => {
                let (name, slice) = (escaped(text("name")), escaped(text("slice")));
                let query = if slice.is_empty() { slice } else { format!("?slice={slice}") };
                server.get(&format!("/debug/tensors/{name}{query}"))
            }
            "eval" => server.post("/debug/evaluate", body()),
            "terminate" => server.post("/debug/terminate", json!({})),
            _ => server.post("/debug/command", json!({"line": line})),
        };
        plain(answer)
    }
}

impl Rest {
    /// Lets the port go on, polls until it stands, and asks where.
    fn stop_after(&self, path: &str) -> Value {
        let (status, going) = self.0.post(path, json!({}));
        assert!(status < 300, "{path}: {going}");
        let status = loop {
            let status = self.0.gets("/debug/status?wait=5", 200);
            if status["state"] != "starting" && status["state"] != "running" {
                break status;
            }
        };
        assert_eq!(status["state"], "paused", "{status}");
        let mut location = plain(self.0.gets("/debug/location", 200));
        location["kind"] = "stopped".into();
        location
    }
}

impl Front for Client {
    fn perform(&mut self, line: &str) -> Value {
        plain(self.call("debug_command", json!({"line": line, "wait_seconds": 120})).data)
    }
}

/// An answer in the form of the prompt: servers mark success, and have another form for errors.
fn plain(mut answer: Value) -> Value {
    let Some(fields) = answer.as_object_mut() else { return answer };
    match fields.remove("ok") {
        Some(Value::Bool(false)) => {
            json!({"kind": "error", "message": fields["error"], "next": fields["next"]})
        }
        _ => answer,
    }
}

/// A text as a part of an address.
fn escaped(text: &str) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    text.as_bytes()
        .iter()
        .map(|byte| if is_plain(byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
