//! Processes by id and time of start, since the system gives an id to another process later.

use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// How many ancestors are looked at; real trees of processes are far less deep.
const MOST_ANCESTORS: usize = 64;

/// One process, told from all others that ever had its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    id: u32,
    /// When it started, in the system's own words: two processes with the same id have different ones.
    started: String,
}

impl Process {
    /// The nearest ancestor of this process whose program is called `name`.
    ///
    /// `None` when there is none, or when the system reports nothing about processes.
    pub(super) fn ancestor(name: &str) -> Option<Self> {
        ancestors().into_iter().find(|found| found.name == name).map(|found| found.process)
    }

    /// The process that started this one.
    pub(super) fn parent() -> Option<Self> {
        look(std::os::unix::process::parent_id()).map(|found| found.process)
    }

    /// The parent, if its program is called `name`.
    pub(super) fn parent_called(name: &str) -> Option<Self> {
        let found = look(std::os::unix::process::parent_id())?;
        (found.name == name).then_some(found.process)
    }

    /// Whether the process still runs.
    pub(super) fn is_alive(&self) -> bool {
        look(self.id).is_some_and(|found| found.process == *self)
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }
}

/// What the system says of a process.
struct Found {
    process: Process,
    parent: u32,
    /// The name of its program, without its folder.
    name: String,
}

fn ancestors() -> Vec<Found> {
    let mut found = Vec::new();
    let mut id = std::os::unix::process::parent_id();
    while found.len() < MOST_ANCESTORS
        && let Some(next) = look(id)
    {
        id = next.parent;
        found.push(next);
    }
    found
}

/// Linux shows processes as files; where there are none, `ps` reports the same.
fn look(id: u32) -> Option<Found> {
    if id == 0 {
        return None;
    }
    from_proc(id).or_else(|| from_ps(id))
}

fn from_proc(id: u32) -> Option<Found> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // `id (name) state parent …`; a name may hold spaces and parentheses of its own.
    let (start, end) = (text.find('(')?, text.rfind(')')?);
    let fields: Vec<&str> = text.get(end + 1..)?.split_whitespace().collect();
    // One that has ended and was not waited for yet runs no more.
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    // Ticks are counted from the start of the system, which has an id of its own.
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    Some(Found {
        process: Process { id, started: format!("{} {}", fields.get(19)?, boot.trim()) },
        parent: fields.get(1)?.parse().ok()?,
        name: text.get(start + 1..end)?.to_owned(),
    })
}

fn from_ps(id: u32) -> Option<Found> {
    let output = Command::new("ps")
        .args(["-o", "ppid=,lstart=,comm=", "-p", &id.to_string()])
        .env("LC_ALL", "C")
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut words = text.split_whitespace();
    let parent = words.next()?.parse().ok()?;
    // `Tue Nov 17 22:10:55 2026`.
    let started: Vec<&str> = words.by_ref().take(5).collect();
    let program: Vec<&str> = words.collect();
    let program = program.join(" ");
    let name = Path::new(&program).file_name()?.to_string_lossy().into_owned();
    (started.len() == 5).then(|| Found { process: Process { id, started: started.join(" ") }, parent, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_while_it_runs_by_both_ways() {
        let own = look(std::process::id()).unwrap();
        assert!(own.process.is_alive());
        assert_eq!(own.parent, std::os::unix::process::parent_id());
        let other = Process { started: "at another time".into(), ..own.process };
        assert!(!other.is_alive(), "the same id at another time is another process");
        assert_eq!(Process::parent().unwrap().id(), own.parent);
        assert_eq!(Process::ancestor("no program is called so"), None);
        if let Some(said) = from_ps(std::process::id()) {
            assert_eq!(said.parent, own.parent);
        }
    }

    #[test]
    fn a_process_that_has_ended_is_not_alive() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let known = look(child.id()).unwrap();
        assert!(known.process.is_alive());
        assert_eq!((known.parent, known.name.as_str()), (std::process::id(), "sleep"));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!known.process.is_alive());
    }
}
