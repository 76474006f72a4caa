//! A REST server that a test started, and a client of it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::described::Described;
use crate::project::Project;

/// A server, which ends with this value.
pub(crate) struct Server {
    child: Child,
    /// Such as `127.0.0.1:41231`.
    pub(crate) address: String,
    pub(crate) token: String,
    described: Option<Described>,
}

/// The status and the JSON of a response.
pub(crate) type Response = (u16, Value);

impl Server {
    /// Starts `cargo xtask debug --serve` with a free port.
    pub(crate) fn start(project: &Project, arguments: &[&str]) -> Self {
        Self::of(project.xtask(&[&["debug", "--serve", "127.0.0.1:0"], arguments].concat()))
    }

    /// Starts a server and reads its address and its token.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut field = |start: &str| {
            let line = lines.next().expect("the server prints its address and its token").unwrap();
            line.strip_prefix(start)
                .unwrap_or_else(|| panic!("`{line}` does not start with `{start}`"))
                .to_owned()
        };
        let address = field("debug server: http://");
        let token = field("token: ");
        assert_eq!(field("end points: "), format!("http://{address}/docs?token={token}"));
        let mut server = Self { child, address, token, described: None };
        let (status, document) = server.get("/openapi.json");
        assert_eq!(status, 200, "{document}");
        server.described = Some(Described::new(document));
        server
    }

    /// The OpenAPI document of the server.
    pub(crate) fn described(&self) -> &Described {
        self.described.as_ref().unwrap()
    }

    /// Reads a response, which must be as the OpenAPI document says.
    #[track_caller]
    fn read(&self, method: &str, path: &str, mut response: ureq::http::Response<ureq::Body>) -> Response {
        let text = response.body_mut().read_to_string().unwrap();
        let json = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let status = response.status().as_u16();
        if let Some(described) = &self.described {
            described.check(method, path, status, &json);
        }
        (status, json)
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Response {
        let response = agent().get(self.url(path)).header("Authorization", self.bearer()).call();
        self.read("GET", path, response.unwrap())
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: Value) -> Response {
        let request = agent().post(self.url(path)).header("Authorization", self.bearer());
        self.read("POST", path, request.send_json(body).unwrap())
    }

    /// Expects a response with this status.
    #[track_caller]
    pub(crate) fn posts(&self, path: &str, body: Value, status: u16) -> Value {
        let (found, json) = self.post(path, body);
        assert_eq!((found, json["ok"].as_bool()), (status, Some(status < 300)), "{path}: {json}");
        json
    }

    #[track_caller]
    pub(crate) fn gets(&self, path: &str, status: u16) -> Value {
        let (found, json) = self.get(path);
        assert_eq!((found, json["ok"].as_bool()), (status, Some(status < 300)), "{path}: {json}");
        json
    }

    /// Sends bytes as they are, and returns what comes back.
    pub(crate) fn raw(&self, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // A server that refuses a long request closes the connection before it has read everything.
        let _ = stream.write_all(request);
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end and returns the exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into()
}
