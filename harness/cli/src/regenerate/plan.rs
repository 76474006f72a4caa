//! The sets that a command regenerates, and what is wrong with each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use super::error::RegenerateError;
use crate::Project;
use mlx_parity_core::golden::{ChecksumMemory, FixtureSet, Role};
use mlx_parity_core::preflight::{look_at_fixtures, missing};
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::spec::{External, Reference, Requirement, Spec, Specs};
use mlx_parity_core::text::suggest::did_you_mean;

/// A fixture set, with the specs that use it.
#[derive(Debug)]
pub(crate) struct PlannedSet<'a> {
    /// Its folder under the fixture root.
    pub(crate) folder: &'a str,
    pub(crate) reference: &'a Reference,
    specs: Vec<&'a Spec>,
}

/// Returns the sets of the specs that are named by id or by fixture folder; of all specs if no name is given.
///
/// A set that may be absent (`requires: [fixtures]`) counts only if it exists or is named.
pub(crate) fn plan<'a>(
    found: &'a Specs,
    spec_root: &Path,
    fixture_root: &Path,
    names: &[String],
) -> Result<Vec<PlannedSet<'a>>, RegenerateError> {
    let broken = || found.broken.iter().chain(&found.unreadable);
    for name in names {
        let known = found.specs.iter().flat_map(|spec| [spec.id.as_str(), &spec.fixtures]);
        if broken().any(|error| error.id == *name) {
            return Err(RegenerateError::BrokenSpecs { count: format!("spec `{name}`") });
        }
        if !known.clone().any(|other| other == name) {
            return Err(RegenerateError::NoSpec { id: name.clone(), near: did_you_mean(name, known) });
        }
    }
    if names.is_empty() && broken().next().is_some() {
        return Err(RegenerateError::BrokenSpecs { count: counted(broken().count(), "spec") });
    }
    if found.specs.is_empty() {
        return Err(RegenerateError::NoSpecs { root: spec_root.to_owned() });
    }
    let mut sets: BTreeMap<&str, PlannedSet<'a>> = BTreeMap::new();
    let is_named = |spec: &Spec| names.iter().any(|name| *name == spec.id || *name == spec.fixtures);
    for spec in &found.specs {
        let elsewhere = spec.requires.contains(&Requirement::Fixtures)
            && !fixture_root.join(&spec.fixtures).is_dir()
            && !is_named(spec);
        if elsewhere || !spec.needs_fixtures() {
            continue;
        }
        let Some(reference) = &spec.reference else {
            if names.is_empty() || is_named(spec) {
                return Err(RegenerateError::NoReference { id: spec.id.clone() });
            }
            continue;
        };
        let set = sets.entry(&spec.fixtures).or_insert_with(|| PlannedSet {
            folder: &spec.fixtures,
            reference,
            specs: Vec::new(),
        });
        // This includes the timeout and the variables, since only one of the two blocks could apply.
        if set.reference != reference {
            return Err(RegenerateError::TwoReferences {
                set: spec.fixtures.clone(),
                first: set.specs[0].id.clone(),
                second: spec.id.clone(),
            });
        }
        set.specs.push(spec);
    }
    let all = sets.into_values();
    Ok(all.filter(|set| names.is_empty() || set.specs.iter().any(|spec| is_named(spec))).collect())
}

impl PlannedSet<'_> {
    /// Everything that is wrong with the set; empty means that it is current.
    pub(crate) fn problems(&self, project: &Project, memory: &mut ChecksumMemory) -> Vec<String> {
        let mut problems = Vec::new();
        for spec in &self.specs {
            let (set, obstacles) = look_at_fixtures(spec, project.root(), &project.fixture_root(), memory);
            let mut found: Vec<String> = obstacles.into_iter().map(|obstacle| obstacle.text).collect();
            if let Some(set) = set.filter(|_| found.is_empty()) {
                found = missing(spec, &set);
            }
            problems.extend(found.into_iter().filter(|text| !problems.contains(text)).collect::<Vec<_>>());
        }
        if problems.is_empty() {
            problems.extend(self.undeclared(&project.fixture_root()));
        }
        problems
    }

    /// Goldens that no spec declares, which the suite refuses. A script's new set leaves them out.
    fn undeclared(&self, fixture_root: &Path) -> Option<String> {
        let set = FixtureSet::open(fixture_root, self.folder).ok()?;
        let declared: BTreeSet<String> =
            self.specs.iter().flat_map(|spec| spec.goldens().map(|(_, name)| name)).collect();
        let names = set.entries(Role::Golden).map(|entry| entry.name.as_str());
        let extra: Vec<&str> = names.filter(|name| !declared.contains(*name)).collect();
        let first = extra.first()?;
        Some(format!("it has {} that no spec declares, first `{first}`", counted(extra.len(), "golden")))
    }

    /// The goldens and inputs that the specs declare, for the exporter's lint. A golden's dtype is null if any is allowed.
    pub(super) fn expected(&self) -> Value {
        let mut goldens = BTreeMap::new();
        let mut inputs = Vec::new();
        for spec in &self.specs {
            for (checkpoint, name) in spec.goldens() {
                let dtype = checkpoint.golden_dtype().map(|dtype| dtype.to_string());
                goldens
                    .entry(name)
                    .and_modify(|known| {
                        // Two specs that want different dtypes cannot both be checked against one golden here.
                        if *known != dtype {
                            *known = None;
                        }
                    })
                    .or_insert(dtype);
            }
            inputs.extend(spec.inputs.iter().filter(|input| !inputs.contains(input)).collect::<Vec<_>>());
        }
        // Gradients and updated parameters have the names of weights.
        let rename = self.specs.iter().find_map(|spec| spec.weights.as_ref()).map(|weights| &weights.rename);
        json!({"goldens": goldens, "inputs": inputs, "rename": rename.cloned().unwrap_or_default()})
    }

    /// The external weights that all specs of the set share.
    ///
    /// # Errors
    /// When two specs of the set name different ones: the goldens can come from one of them only.
    pub(super) fn external(&self) -> Result<Option<&External>, RegenerateError> {
        let mut named = self.specs.iter().filter_map(|spec| Some((spec, spec.external()?)));
        let Some((first, external)) = named.next() else { return Ok(None) };
        match named.find(|(_, other)| *other != external) {
            None => Ok(Some(external)),
            Some((second, _)) => Err(RegenerateError::TwoExternal {
                set: self.folder.to_owned(),
                first: first.id.clone(),
                second: second.id.clone(),
            }),
        }
    }

    /// What the exporter's lint expects of a second reference: it may record only some of the goldens, in any dtype.
    pub(super) fn expected_of_second(&self) -> Value {
        let mut expected = self.expected();
        for (_, dtype) in expected["goldens"].as_object_mut().into_iter().flatten() {
            *dtype = Value::Null;
        }
        expected["inputs"] = json!([]);
        expected["partial"] = json!(true);
        expected
    }

    /// The rule of a checkpoint that is compared with this golden, for goldens without a floor.
    pub(super) fn rule(&self, golden: &str) -> Option<mlx_parity_core::gate::Rule> {
        self.specs.iter().find_map(|spec| {
            let (checkpoint, _) =
                spec.goldens().find(|(checkpoint, name)| name == golden && checkpoint.cast.is_none())?;
            Some(checkpoint.rule())
        })
    }
}
