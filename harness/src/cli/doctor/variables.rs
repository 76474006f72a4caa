//! Environment variables that change what is computed, or what the commands do.

use std::ffi::OsString;

use super::Check;
use crate::cli::Project;
use crate::run::request;
use crate::settings::Settings;
use crate::settings::names::{self, INTERNAL, REQUESTS, SETTINGS};
use crate::spec::{Spec, Specs};

/// Prefixes of variables that change numbers, and whose.
const NUMERIC: &[(&str, &str)] = &[
    ("MLX_", "changes how MLX computes"),
    ("OMP_", "changes how sums are split over threads, so that references may give other bytes"),
    ("OPENBLAS_", "changes NumPy's kernels or threads"),
    ("MKL_", "changes torch's kernels or threads"),
    ("VECLIB_", "changes NumPy's threads"),
    ("ATEN_CPU_CAPABILITY", "changes torch's kernels"),
    ("ONEDNN_", "changes torch's kernels"),
    ("DNNL_", "changes torch's kernels"),
    ("PYTORCH_", "changes how torch computes"),
    ("TORCH_", "changes how torch computes"),
    ("NVIDIA_TF32_OVERRIDE", "changes the precision of products"),
    ("CUBLAS_", "changes kernels"),
    ("XLA_FLAGS", "changes kernels"),
    ("PYTHONHASHSEED", "hides an order that differs from run to run; references are run without it"),
    ("PYTHONHOME", "changes what Python imports"),
];

pub(super) fn checks(
    project: &Project,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Vec<Check> {
    let specs = Specs::load(&project.spec_root()).specs;
    let mut found: Vec<Check> = variables
        .into_iter()
        .filter_map(|(name, value)| {
            let (name, value) = (name.into_string().ok()?, value.to_string_lossy().into_owned());
            check(project, &specs, &name, &value)
        })
        .collect();
    found.sort_by(|a, b| a.subject.cmp(&b.subject));
    if found.is_empty() {
        found.push(Check::ok("variables", "none is set that changes numbers or the commands"));
    }
    found
}

/// What no test and no command would go on with, if anything: one line, since the first is all that is looked at.
pub(super) fn refused(project: &Project) -> Option<Check> {
    let specs = || Specs::load(&project.spec_root()).specs.into();
    let problem = match request() {
        Err(stale) => stale.to_string(),
        Ok(_) => Settings::read(specs).err()?.to_string(),
    };
    Some(Check::wrong(
        "settings",
        problem,
        Some("mend it first: every test and every command refuses it".into()),
    ))
}

fn check(project: &Project, specs: &[Spec], name: &str, value: &str) -> Option<Check> {
    let unset = format!("run `unset {name}`, unless it is meant");
    if let Some((_, what)) = SETTINGS.iter().find(|(known, _)| *known == name) {
        return Some(Check::warn(name, format!("is `{value}`: {what}"), unset));
    }
    if INTERNAL.contains(&name) || REQUESTS.contains(&name) {
        return Some(Check::warn(name, format!("is `{value}`: only our own processes set it"), unset));
    }
    if name.starts_with("PARITY_") && !names::is_required(name, specs) {
        let near = names::near_settings(name);
        let next = format!("run `unset {name}`: the suite and every command refuse it");
        return Some(Check::wrong(name, format!("is set, but nothing reads it{near}"), Some(next)));
    }
    if name == "PYTHONPATH" && !value.is_empty() {
        let what = match project.references_folder() {
            Some(_) => "references do not see it: they import what their lock has",
            None => "references import from there first",
        };
        return Some(Check::warn(name, format!("is `{value}`: {what}"), unset));
    }
    if (name, value) == ("MLX_ENABLE_TF32", "0") {
        // What our own Cargo configuration sets, and every worker has: float32 means float32.
        return None;
    }
    let (_, what) = NUMERIC.iter().find(|(prefix, _)| name.starts_with(prefix))?;
    Some(Check::warn(name, format!("is `{value}`: {what}"), unset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changes_something_is_told() {
        let project = Project::new("/nowhere", "specs", "fixtures");
        let told = |name: &str| {
            let found = checks(&project, [(name.into(), "1".into()), ("HOME".into(), "/".into())]);
            assert_eq!(found.len(), 1, "{found:?}");
            found.into_iter().next().unwrap()
        };
        assert_eq!(told("HOME2").subject, "variables");
        assert_eq!(told("MLX_ENABLE_TF32").found, "is `1`: changes how MLX computes");
        let as_we_set_it = checks(&project, [("MLX_ENABLE_TF32".into(), "0".into())]);
        assert_eq!(as_we_set_it[0].subject, "variables", "nothing to tell");
        assert!(told("PARITY_LOCALIZE").found.contains("nothing reads it, did you mean `PARITY_LOCALISE`?"));
        assert!(told("PARITY_REUSE").found.contains("only our own processes"));
        assert!(told("PYTHONPATH").found.contains("references import from there first"));
    }
}
