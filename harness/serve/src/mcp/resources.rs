//! The files of runs and the traces of debug sessions, as resources: `parity://runs/RUN/FILE` and `parity://debug/SESSION/FILE`.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mlx_parity_cli::Project;
use mlx_parity_cli::inspect::{self, ReadRun};
use mlx_parity_core::debug::TRACE;
use mlx_parity_core::files::regular;
use mlx_parity_core::results::TrialResult;
use mlx_parity_core::runs::Out;
use mlx_parity_core::text::printable::clean_lines;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};

use crate::failure::{Failure, FailureKind};

const SCHEME: &str = "parity://";
/// The most bytes of a text in one answer.
const MOST_TEXT: u64 = 64 << 10;
/// The most bytes of a picture.
const MOST_PICTURE: u64 = 4 << 20;
/// Resources in the list.
const LISTED: usize = 200;
/// Folders below a run that are searched for pictures and records.
const DEPTH: usize = 5;

/// The kinds of files that can be read: the end of the name, and the type.
const KINDS: [(&str, &str); 5] = [
    (".txt", "text/plain"),
    (".jsonl", "application/jsonl"),
    (".json", "application/json"),
    (".log", "text/plain"),
    (".png", "image/png"),
];

/// The report of a run.
pub(super) fn report(run: &str) -> Resource {
    resource(&["runs", run, "report.txt"], "report.txt", "The whole report of the run", "text/plain")
}

/// The pictures of a trial, if it has any.
pub(super) fn pictures(run: &ReadRun, spec: &str, trial: &TrialResult) -> Vec<Resource> {
    let (Some(folder), Some(pattern)) = (&run.folder, &trial.pictures) else { return Vec::new() };
    let name = pattern.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let made = ["golden", "actual", "diff"].into_iter().filter_map(|kind| {
        let file = name.replace("{golden,actual,diff}", kind);
        let relative = format!("{spec}/images/{file}");
        let about = format!("Picture of the {kind} at `{}`", trial.name);
        folder
            .join(&relative)
            .is_file()
            .then(|| resource(&["runs", &run.name, &relative], &file, &about, "image/png"))
    });
    made.collect()
}

/// The traces of debug sessions, newest first, and the files of the newest run: its report, the records of each spec, and the
/// pictures.
pub(super) fn list(project: &Project) -> Vec<Resource> {
    let mut all = traces(project);
    all.extend(files_of_newest_run(project));
    all.truncate(LISTED);
    all
}

fn traces(project: &Project) -> Vec<Resource> {
    let sessions = fs::read_dir(Out::of(project.root()).debug_sessions()).into_iter().flatten().flatten();
    let with_trace = sessions.filter(|session| session.path().join(TRACE).is_file());
    let mut names: Vec<String> =
        with_trace.filter_map(|session| session.file_name().into_string().ok()).collect();
    // Names start with the time.
    names.sort_unstable_by(|one, other| other.cmp(one));
    let about = "Every command and answer of a debug session, which judges nothing";
    names.iter().map(|name| resource(&["debug", name, TRACE], TRACE, about, "application/jsonl")).collect()
}

fn files_of_newest_run(project: &Project) -> Vec<Resource> {
    let runs = inspect::runs(project);
    let Some(run) = runs.first() else { return Vec::new() };
    let mut files = Vec::new();
    collect(&run.folder, DEPTH, &mut files);
    files.sort();
    let is_listed = |file: &&PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        matches!(&*name, "report.txt" | "trials.jsonl" | "records.jsonl") || name.ends_with(".png")
    };
    let listed = files.iter().filter(is_listed).filter_map(|file| {
        let relative = file.strip_prefix(&run.folder).ok()?.to_str()?;
        let kind = kind_of(relative)?;
        Some(resource(
            &["runs", &run.name(), relative],
            relative,
            &format!("`{relative}` of the newest run"),
            kind,
        ))
    });
    listed.collect()
}

/// How to name the files of any run.
pub(super) fn templates() -> Vec<ResourceTemplate> {
    let template =
        |uri: &str, name: &str, about: &str| ResourceTemplate::new(uri, name).with_description(about);
    vec![
        template(
            "parity://runs/{run}/{+file}",
            "file of a run",
            "`report.txt`, `trials.jsonl`, `SPEC/records.jsonl`, `SPEC/output.log`, `SPEC/images/NAME.diff.png`. list_runs \
             lists the runs; `latest` is the newest. A long text is cut; add `?from=BYTES` for the rest",
        ),
        template(
            "parity://debug/{session}/trace.jsonl",
            "trace of a debug session",
            "Every command and answer of a session. The status of a session has its folder, whose last part is its name",
        ),
    ]
}

/// Reads a resource.
pub(super) fn read(project: &Project, uri: &str) -> Result<ReadResourceResult, Failure> {
    let not_found = |message: String| {
        Failure::new(FailureKind::NotFound, message)
            .with_next("resources are listed, and named by two templates")
    };
    let place = uri
        .strip_prefix(SCHEME)
        .ok_or_else(|| not_found(format!("`{uri}` does not start with `{SCHEME}`")))?;
    let (place, from) = match place.split_once('?') {
        None => (place, 0),
        Some((place, query)) => {
            let from = query.strip_prefix("from=").and_then(|from| from.parse().ok());
            (place, from.ok_or_else(|| not_found(format!("`{query}` is no query; allowed is `from=BYTES`")))?)
        }
    };
    let place = decoded(place).ok_or_else(|| not_found(format!("`{uri}` has a wrong escape")))?;
    let out = Out::of(project.root());
    let (root, file) = match place.split_once('/') {
        Some(("runs", file)) => (out.path().join("runs"), file),
        Some(("debug", file)) => (out.debug_sessions(), file),
        _ => return Err(not_found(format!("`{uri}` is neither of a run nor of a debug session"))),
    };
    let kind = kind_of(file).ok_or_else(|| {
        let kinds: Vec<&str> = KINDS.iter().map(|(end, _)| *end).collect();
        not_found(format!("`{file}` cannot be read; names end with {}", kinds.join(", ")))
    })?;
    let path = inside(&root, file).ok_or_else(|| not_found(format!("there is no file `{file}`")))?;
    let failed = |error: std::io::Error| not_found(format!("cannot read `{file}`: {error}"));
    let contents = match kind {
        "image/png" => {
            let bytes = regular::read(&path, MOST_PICTURE).map_err(failed)?;
            ResourceContents::blob(STANDARD.encode(bytes), uri).with_mime_type(kind)
        }
        _ => ResourceContents::text(part(&path, from).map_err(failed)?, uri).with_mime_type(kind),
    };
    Ok(ReadResourceResult::new(vec![contents]))
}

/// A part of a text, and how to get the rest.
fn part(path: &Path, from: u64) -> std::io::Result<String> {
    let mut file = regular::open(path)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(MOST_TEXT).read_to_end(&mut bytes)?;
    let mut end = from + bytes.len() as u64;
    if end < size {
        // Whole lines, if there are any.
        if let Some(at) = bytes.iter().rposition(|&byte| byte == b'\n') {
            bytes.truncate(at + 1);
            end = from + bytes.len() as u64;
        }
    }
    let mut text = clean_lines(&String::from_utf8_lossy(&bytes)).into_owned();
    if end < size {
        text += &format!("[{} of {size} bytes follow; read them with ?from={end}]\n", size - end);
    }
    Ok(text)
}

/// The path of a file below `root`, if it is there, and no link leads out. The first folder may be a link: `latest`.
fn inside(root: &Path, file: &str) -> Option<PathBuf> {
    let relative = Path::new(file);
    let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
    let root = root.canonicalize().ok()?;
    let path = root.join(relative).canonicalize().ok()?;
    (plain && path.starts_with(&root)).then_some(path)
}

fn kind_of(file: &str) -> Option<&'static str> {
    KINDS.iter().find(|(end, _)| file.ends_with(end)).map(|(_, kind)| *kind)
}

fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 0 => collect(&entry.path(), depth - 1, files),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
}

fn resource(parts: &[&str], name: &str, about: &str, kind: &str) -> Resource {
    let uri = format!("{SCHEME}{}", encoded(&parts.join("/")));
    Resource::new(uri, name).with_description(about).with_mime_type(kind)
}

/// Escapes everything that a path of a URI cannot have.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' | b'@' => {
                encoded.push(char::from(byte));
            }
            _ => encoded += &format!("%{byte:02X}"),
        }
    }
    encoded
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_survives_its_escapes() {
        for name in ["runs/a/block/images/blocks.0@1.diff.png", "runs/ü ä/%.txt"] {
            assert_eq!(decoded(&encoded(name)).as_deref(), Some(name));
        }
        assert_eq!(decoded("%4"), None);
        assert_eq!(decoded("%zz"), None);
    }

    #[test]
    fn no_path_leads_out_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("runs");
        fs::create_dir_all(root.join("one")).unwrap();
        fs::write(root.join("one/report.txt"), "text").unwrap();
        fs::write(folder.path().join("secret.txt"), "secret").unwrap();
        std::os::unix::fs::symlink(root.join("one"), root.join("latest")).unwrap();
        std::os::unix::fs::symlink(folder.path(), root.join("out")).unwrap();
        assert!(inside(&root, "one/report.txt").is_some() && inside(&root, "latest/report.txt").is_some());
        for wrong in
            ["../secret.txt", "one/../../secret.txt", "out/secret.txt", "/etc/passwd", "none/report.txt"]
        {
            assert!(inside(&root, wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_long_text_is_read_in_parts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.txt");
        let line = format!("{}\n", "x".repeat(99));
        fs::write(&path, line.repeat(1000)).unwrap();
        let first = part(&path, 0).unwrap();
        assert!(
            first.ends_with("[34500 of 100000 bytes follow; read them with ?from=65500]\n"),
            "{}",
            &first[65_000..]
        );
        assert_eq!(part(&path, 65_500).unwrap(), line.repeat(345));
        assert_eq!(part(&path, 1 << 40).unwrap(), "");
    }
}
