//! What the machine must have before anything is fetched: a C++20 compiler and a recent glibc.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::SetupError;
use super::pins::GLIBC;
use crate::python::Python;

/// A C++ compiler and the first line that `--version` prints, which changes when it is upgraded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Compiler {
    program: String,
    arguments: Vec<String>,
    version: String,
}

/// A short program with what mlx-c needs of the language: C++20's concepts and a half-precision type.
const PROBE: &str = "#include <concepts>\n\
    static_assert(std::integral<int>);\n_Float16 parity_half = 1;\nint main() {}\n";

impl Compiler {
    /// The first of `$CXX`, g++, c++ and clang++ that compiles C++20, or why none does.
    pub(super) fn find() -> Result<Self, SetupError> {
        let mut unfit = Vec::new();
        for candidate in candidates() {
            let Some(compiler) = Self::named(&candidate) else { continue };
            if compiler.compiles(PROBE) {
                return Ok(compiler);
            }
            unfit.push(compiler.version);
        }
        Err(if unfit.is_empty() {
            SetupError::NoCompiler { tried: candidates().join(", ") }
        } else {
            SetupError::OldCompiler { found: unfit.join("; ") }
        })
    }

    /// Whether set-up would choose this same compiler now; compiles nothing.
    pub(super) fn is_current(&self) -> bool {
        let preferred = candidates().iter().find_map(|candidate| Self::named(candidate));
        // A second choice (the first was too old) stays as long as it is itself unchanged.
        preferred.as_ref() == Some(self) || {
            let words: Vec<&str> =
                std::iter::once(&self.program).chain(&self.arguments).map(String::as_str).collect();
            candidates().contains(&words.join(" ")) && Self::named(&words.join(" ")).as_ref() == Some(self)
        }
    }

    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        command
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// The folder of the compiler's own headers (`stddef.h` and the like).
    pub(super) fn builtin_headers(&self) -> Option<String> {
        let output = self.command().arg("-print-file-name=include").output().ok()?;
        let folder = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        Path::new(&folder).is_absolute().then_some(folder)
    }

    fn named(candidate: &str) -> Option<Self> {
        let mut words = candidate.split_whitespace().map(str::to_owned);
        let (program, arguments) = (words.next()?, words.collect::<Vec<_>>());
        let output = Command::new(&program).args(&arguments).arg("--version").output().ok()?;
        let version = String::from_utf8_lossy(&output.stdout).lines().next()?.trim().to_owned();
        output.status.success().then_some(Self { program, arguments, version })
    }

    fn compiles(&self, source: &str) -> bool {
        let child = self
            .command()
            .args(["-std=c++20", "-fsyntax-only", "-x", "c++", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut child) = child else { return false };
        if let Some(mut stdin) = child.stdin.take() {
            let _ = std::io::Write::write_all(&mut stdin, source.as_bytes());
        }
        child.wait().is_ok_and(|status| status.success())
    }
}

fn candidates() -> Vec<String> {
    match std::env::var("CXX").ok().filter(|cxx| !cxx.trim().is_empty()) {
        Some(cxx) => vec![cxx],
        None => ["g++", "c++", "clang++"].map(str::to_owned).to_vec(),
    }
}

/// Rejects a C library that the wheels do not run on; pip would only report that it found no matching version.
pub(super) fn check_libc(python: &Python) -> Result<(), SetupError> {
    let wanted = format!("glibc {}.{} or newer", GLIBC.0, GLIBC.1);
    let found = match python.libc() {
        Some(("glibc", version)) => {
            let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
            if (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= GLIBC {
                return Ok(());
            }
            format!("glibc {version}")
        }
        Some((name, version)) => format!("{name} {version}"),
        None => "another C library".to_owned(),
    };
    Err(SetupError::OldLibc { found, wanted })
}
