//! The prompt, REST and MCP perform the same commands with the same answers.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::client::Server;
use crate::mcp::Client;
use crate::project::{ID, Project};

/// Steps to the divergence, looks at it, repairs it and goes on.
const LINES: [&str; 14] = [
    "break failed first",
    "breaks",
    "continue",
    "location",
    "vars *gate*",
    "show golden 0, 0, :4",
    "eval d = actual - golden; abs(d).max() > 0; d.shape",
    "diagnose",
    "eval nothing",
    "note here it starts",
    "set gated actual / 1.01",
    "next",
    "clear",
    "continue",
];

#[test]
fn all_fronts_give_the_same_answers() {
    let prompt = through_prompt();
    assert_eq!(prompt.len(), LINES.len() + 1);
    assert_eq!(prompt[3]["tap"]["name"], "gated", "{}", prompt[3]);
    let (rest, mcp) = (through_rest(), through_mcp());
    for (at, line) in ["the start"].iter().chain(&LINES).enumerate() {
        assert_eq!(rest[at], prompt[at], "REST and the prompt differ after `{line}`");
        assert_eq!(mcp[at], prompt[at], "MCP and the prompt differ after `{line}`");
    }
}

fn through_prompt() -> Vec<Value> {
    let project = Project::with_port("scaled");
    let mut command = project.xtask(&["debug", ID, "--json"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let script: String = LINES.iter().map(|line| format!("{line}\n")).collect();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| plain(serde_json::from_str(line).unwrap())).collect()
}

fn through_rest() -> Vec<Value> {
    let project = Project::with_port("scaled");
    let server = Server::start(&project, &[]);
    let mut answers = vec![server.post("/debug/start?wait=120", json!({"spec": ID})).1];
    answers.extend(LINES.map(|line| server.post("/debug/command?wait=60", json!({"line": line})).1));
    answers.into_iter().map(plain).collect()
}

fn through_mcp() -> Vec<Value> {
    let project = Project::with_port("scaled");
    let client = Client::start(&project);
    let mut answers = vec![client.call("debug_start", json!({"spec": ID, "wait_seconds": 120})).data];
    answers.extend(LINES.map(|line| client.call("debug_command", json!({"line": line})).data));
    answers.into_iter().map(plain).collect()
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
