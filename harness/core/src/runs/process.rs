//! Identifies processes by id and start time, because the system reuses ids.

use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// How many ancestors are searched. Real process trees are far less deep.
const MOST_ANCESTORS: usize = 64;

/// One process, distinct from every other that ever had the same id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Process {
    id: u32,
    /// The start time as the system prints it. Two processes with the same id differ in it.
    started: String,
}

impl Process {
    /// Returns the nearest ancestor of this process whose program is called `name`.
    ///
    /// `None` when no ancestor has this name, or when the system does not report processes.
    pub(super) fn ancestor(name: &str) -> Option<Self> {
        ancestors().into_iter().find(|found| found.name == name).map(|found| found.process)
    }

    /// Returns the process that started this one.
    pub(super) fn parent() -> Option<Self> {
        look(std::os::unix::process::parent_id()).map(|found| found.process)
    }

    /// Returns the parent, if its program is called `name`.
    pub(super) fn parent_called(name: &str) -> Option<Self> {
        let found = look(std::os::unix::process::parent_id())?;
        (found.name == name).then_some(found.process)
    }

    /// Returns whether the process is still running.
    pub(super) fn is_alive(&self) -> bool {
        look(self.id).is_some_and(|found| found.process == *self)
    }

    /// Returns the process id.
    pub(super) fn id(&self) -> u32 {
        self.id
    }
}

/// The data that the system reports about a process.
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

/// Looks a process up in `/proc`, or with `ps` on systems without it.
fn look(id: u32) -> Option<Found> {
    if id == 0 {
        return None;
    }
    from_proc(id).or_else(|| from_ps(id))
}

fn from_proc(id: u32) -> Option<Found> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // `id (name) state parent …`; a name can contain spaces and parentheses.
    let (start, end) = (text.find('(')?, text.rfind(')')?);
    let fields: Vec<&str> = text.get(end + 1..)?.split_whitespace().collect();
    // A zombie has ended, although its parent has not waited for it.
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    // The start time counts from boot, so the boot id makes it unique.
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
    fn a_running_process_is_found_by_both_ways() {
        let own = look(std::process::id()).unwrap();
        assert!(own.process.is_alive());
        assert_eq!(own.parent, std::os::unix::process::parent_id());
        let other = Process { started: "at another time".into(), ..own.process };
        assert!(!other.is_alive(), "the same id at another time is another process");
        assert_eq!(Process::parent().unwrap().id(), own.parent);
        assert_eq!(Process::ancestor("no program is called so"), None);
        if let Some(found) = from_ps(std::process::id()) {
            assert_eq!(found.parent, own.parent);
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
