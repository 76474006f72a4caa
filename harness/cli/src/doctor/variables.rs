//! Environment variables that change numbers, or what the commands do.

use std::ffi::OsString;

use super::DoctorCheck;
use crate::Project;
use mlx_parity_core::runs::request;
use mlx_parity_core::settings::names::{self, INTERNAL, REQUESTS};
use mlx_parity_core::settings::{SETTINGS, Settings};
use mlx_parity_core::spec::{Spec, Specs};

/// Prefixes of variables that change numbers, and what each changes.
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
    ("NVIDIA_TF32_OVERRIDE", "changes the precision of matrix products"),
    ("CUBLAS_", "changes kernels"),
    ("XLA_FLAGS", "changes kernels"),
    ("PYTHONHASHSEED", "hides an order that differs from run to run; references are run without it"),
    ("PYTHONHOME", "changes what Python imports"),
];

pub(super) fn checks(
    project: &Project,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Vec<DoctorCheck> {
    let specs = Specs::load(&project.spec_root()).specs;
    let mut found: Vec<DoctorCheck> = variables
        .into_iter()
        .filter_map(|(name, value)| {
            let (name, value) = (name.into_string().ok()?, value.to_string_lossy().into_owned());
            check(project, &specs, &name, &value)
        })
        .collect();
    found.sort_by(|a, b| a.subject.cmp(&b.subject));
    if found.is_empty() {
        found.push(DoctorCheck::ok("variables", "no variable is set that changes numbers or commands"));
    }
    found
}

/// A setting that makes every test and every command stop, if there is one; only the first is known.
pub(super) fn blocking_setting(project: &Project) -> Option<DoctorCheck> {
    let specs = || Specs::load(&project.spec_root()).specs.into();
    let problem = match request() {
        Err(stale) => stale.to_string(),
        Ok(_) => Settings::read(specs).err()?.to_string(),
    };
    Some(DoctorCheck::wrong(
        "settings",
        problem,
        Some("fix it first: every test and every command rejects it".into()),
    ))
}

fn check(project: &Project, specs: &[Spec], name: &str, value: &str) -> Option<DoctorCheck> {
    let unset = format!("run `unset {name}`, unless you set it on purpose");
    if let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) {
        return Some(DoctorCheck::warn(name, format!("is `{value}`: {}", setting.help), unset));
    }
    if INTERNAL.contains(&name) || REQUESTS.contains(&name) {
        return Some(DoctorCheck::warn(
            name,
            format!("is `{value}`: mlx-parity sets it for its own processes only"),
            unset,
        ));
    }
    if name.starts_with("PARITY_") && !names::is_required(name, specs) {
        let near = names::near_settings(name);
        let next = format!("run `unset {name}`: the suite and every command reject it");
        return Some(DoctorCheck::wrong(name, format!("is set, but nothing reads it{near}"), Some(next)));
    }
    if name == "PYTHONPATH" && !value.is_empty() {
        let what = match project.references_folder() {
            Some(_) => "references do not see it: they import only what their lock lists",
            None => "references import from there first",
        };
        return Some(DoctorCheck::warn(name, format!("is `{value}`: {what}"), unset));
    }
    if (name, value) == ("MLX_ENABLE_TF32", "0") {
        // Our own Cargo configuration sets this for every worker, so that float32 means float32.
        return None;
    }
    let (_, what) = NUMERIC.iter().find(|(prefix, _)| name.starts_with(prefix))?;
    Some(DoctorCheck::warn(name, format!("is `{value}`: {what}"), unset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_that_change_something_are_reported() {
        let project = Project::new("/nowhere", "specs", "fixtures");
        let check_of = |name: &str| {
            let found = checks(&project, [(name.into(), "1".into()), ("HOME".into(), "/".into())]);
            assert_eq!(found.len(), 1, "{found:?}");
            found.into_iter().next().unwrap()
        };
        assert_eq!(check_of("HOME2").subject, "variables");
        assert_eq!(check_of("MLX_ENABLE_TF32").found, "is `1`: changes how MLX computes");
        let as_we_set_it = checks(&project, [("MLX_ENABLE_TF32".into(), "0".into())]);
        assert_eq!(as_we_set_it[0].subject, "variables", "nothing to report");
        assert!(
            check_of("PARITY_LOCALIZE").found.contains("nothing reads it, did you mean `PARITY_LOCALISE`?")
        );
        assert!(check_of("PARITY_REUSE").found.contains("its own processes only"));
        assert!(check_of("PYTHONPATH").found.contains("references import from there first"));
    }
}
