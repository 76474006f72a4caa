//! The lists of faults of a bench, and the results of each list.

use std::path::{Path, PathBuf};

use super::file::{Fault, Faults};
use super::score::{Found, Row, Score, alarms};
use super::{BenchError, FREE, Home, LOCAL, load_one, specs};
use crate::Project;
use crate::project::Bench;
use mlx_parity_core::spec::Spec;

/// The known faults, and those that no search for causes was tuned to.
pub(super) struct Lists {
    lists: Vec<(&'static str, PathBuf, Faults)>,
}

/// The results of one list.
pub(super) struct ListResult<'a> {
    name: &'static str,
    /// The file of the list, from the root.
    pub(super) file: &'a Path,
    pub(super) faults: &'a Faults,
    pub(super) rows: Vec<Row>,
    pub(super) alarms: Vec<String>,
    pub(super) score: Score,
}

impl ListResult<'_> {
    /// The name of the list in front of its score, if there are several lists.
    pub(super) fn label(&self, lists: usize) -> String {
        if lists > 1 { format!("{:<8}", self.name) } else { String::new() }
    }

    /// The name of the list.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }
}

impl Lists {
    /// Reads the files of the bench and checks them against the specs.
    pub(super) fn read(project: &Project, bench: &Bench, all: &[Spec]) -> Result<Self, BenchError> {
        let files = [("known", Some(&bench.file)), ("unseen", bench.unseen.as_ref())];
        let files = files.into_iter().filter_map(|(name, file)| Some((name, file?)));
        let read = |(name, file): (&'static str, &PathBuf)| {
            let faults = Faults::read(&project.root().join(file), all)?;
            Ok((name, file.clone(), faults))
        };
        Ok(Self { lists: files.map(read).collect::<Result<_, BenchError>>()? })
    }

    /// The specs that have ports with `filter` in their names, each with the names of those ports.
    pub(super) fn select<'a>(
        &'a self,
        all: &'a [Spec],
        filter: Option<&str>,
    ) -> Result<Vec<(&'a Spec, Vec<&'a str>)>, BenchError> {
        let filter = filter.unwrap_or_default();
        let of = |spec: &'a Spec| {
            let names = self.lists.iter().flat_map(|(_, _, faults)| faults.names(&spec.id));
            let names = names.filter(|name| format!("{}/{name}", spec.id).contains(filter));
            (spec, names.collect::<Vec<_>>())
        };
        let selected: Vec<_> = all.iter().map(of).filter(|(_, names)| !names.is_empty()).collect();
        if selected.is_empty() {
            return Err(BenchError::NothingSelected { filter: filter.to_owned() });
        }
        Ok(selected)
    }

    /// Reads the result of each selected fault, and the false alarms for ports that are right.
    pub(super) fn results(
        &self,
        home: &Home,
        selected: &[(&Spec, Vec<&str>)],
    ) -> Result<Vec<ListResult<'_>>, BenchError> {
        let mut results = Vec::new();
        for (index, (name, file, faults)) in self.lists.iter().enumerate() {
            let (mut rows, mut found) = (Vec::new(), Vec::new());
            for (spec, names) in selected {
                // The right ports are the same for every list; their alarms count once.
                if index == 0 {
                    found.extend(right_alarms(home, spec)?);
                }
                for rewrite in
                    faults.harmless(&spec.id).iter().filter(|rewrite| names.contains(&&*rewrite.name))
                {
                    let port = load_one(&home.specs(), &specs::id_of(spec, &rewrite.name))?;
                    let what = format!("in the harmless rewrite `{}`", rewrite.name);
                    let alarms = alarms(&home.account(FREE, &port)?, &what);
                    found.extend(alarms.into_iter().map(|alarm| format!("{}: {alarm}", spec.id)));
                }
                let own = faults.of(&spec.id).iter().filter(|fault| names.contains(&&*fault.name));
                rows.extend(own.map(|fault| row(home, spec, fault)).collect::<Result<Vec<_>, _>>()?);
            }
            if rows.is_empty() && found.is_empty() && index > 0 {
                continue;
            }
            let score = Score::of(&rows, found.len());
            results.push(ListResult { name, file, faults, rows, alarms: found, score });
        }
        Ok(results)
    }
}

/// The false alarms of the port without a fault.
fn right_alarms(home: &Home, spec: &Spec) -> Result<Vec<String>, BenchError> {
    let right = load_one(&home.specs(), &spec.id)?;
    let mut found = Vec::new();
    let passes =
        [(FREE, "in the port without a fault"), (LOCAL, "in the port without a fault, on golden inputs")];
    // A twin does not run where goldens are injected.
    let count = if spec.twin.is_some() { 1 } else { passes.len() };
    for (key, port) in passes.into_iter().take(count) {
        let alarms = alarms(&home.account(key, &right)?, port);
        found.extend(alarms.into_iter().map(|alarm| format!("{}: {alarm}", spec.id)));
    }
    Ok(found)
}

/// The result of one fault.
fn row(home: &Home, spec: &Spec, fault: &Fault) -> Result<Row, BenchError> {
    let faulty = load_one(&home.specs(), &specs::id_of(spec, &fault.name))?;
    let account = home.account(FREE, &faulty)?;
    let found = Found::of(&account, account.localisation());
    Ok(Row { spec: spec.id.clone(), fault: fault.clone(), found })
}
