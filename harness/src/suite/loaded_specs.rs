//! The specs that this process reads, and the checks of specs and settings before any trial runs.

use std::borrow::Cow;

use libtest_mimic::Arguments;

use super::Suite;
use mlx_parity_core::results::SPEC;
use mlx_parity_core::settings::Settings;
use mlx_parity_core::spec::{Devices, Spec, SpecError, Specs};
use mlx_parity_core::text::suggest::did_you_mean;

/// The specs below the spec root, each with its twins, and the files that are not valid specs.
#[derive(Default)]
pub(super) struct LoadedSpecs {
    pub(super) specs: Vec<Spec>,
    pub(super) broken: Vec<SpecError>,
    pub(super) unreadable: Option<SpecError>,
    /// Whether every file below the spec root was read.
    pub(super) whole: bool,
}

impl LoadedSpecs {
    /// Reads all specs, or with `--exact` only the spec of the named trial, which keeps one process per test cheap. The
    /// trials `parity::…` and `<spec>::spec` always need all specs.
    pub(super) fn of(suite: &Suite, arguments: &Arguments) -> Self {
        // A wrong setting is reported once all trials are known.
        let devices = Settings::of_process().map_or(Devices::Declared, |settings| settings.devices);
        let one = arguments.filter.as_deref().filter(|_| arguments.exact && !arguments.list);
        match one.and_then(|name| name.split_once("::")) {
            Some((id, name)) if id != "parity" && name != SPEC => {
                // A twin needs the run that it is compared with.
                let main = id.split_once('+').map_or(id, |(main, _)| main);
                let (specs, broken) = match Specs::load_one(&suite.spec_root, main) {
                    Ok(spec) => (with_twins(vec![spec], devices), Vec::new()),
                    Err(error) => (Vec::new(), vec![*error]),
                };
                Self { specs, broken, unreadable: None, whole: false }
            }
            _ => {
                let Specs { specs, broken, unreadable, .. } = Specs::load(&suite.spec_root);
                Self { specs: with_twins(specs, devices), broken, unreadable, whole: true }
            }
        }
    }
}

/// Returns the specs as they run on these devices, each followed by its twins.
pub(super) fn with_twins(specs: Vec<Spec>, devices: Devices) -> Vec<Spec> {
    let mut all = Vec::with_capacity(specs.len());
    for spec in specs {
        let spec = devices.apply(spec);
        let twins: Vec<Spec> = spec.twin_specs().collect();
        all.push(spec);
        all.extend(twins);
    }
    all
}

impl Suite {
    /// Returns the settings of this process, or the error of a wrong setting.
    pub(super) fn settings(&self, loaded: &LoadedSpecs) -> Result<Settings, String> {
        let all = || match loaded.whole {
            true => Cow::Borrowed(&*loaded.specs),
            false => Cow::Owned(Specs::load(&self.spec_root).specs),
        };
        let settings = Settings::read(all).map_err(|error| error.to_string())?;
        // Without this check, a typo would make every spec that requires its fixtures ignored.
        if !self.own_fixtures && !self.fixture_root.is_dir() {
            let (found, root) = (self.fixture_root.display(), self.root.display());
            return Err(format!(
                "PARITY_FIXTURES is `{found}`, expected an existing folder (relative paths start at `{root}`)"
            ));
        }
        Ok(settings)
    }

    /// Returns why this suite cannot run the spec at `level`, or `None` if it can.
    pub(super) fn unusable(&self, spec: &Spec, level: u8) -> Option<String> {
        let ports: Vec<String> = self.ports.keys().cloned().collect();
        unusable(&ports, spec, level)
    }
}

/// Returns why a suite with these ports cannot run the spec at `level`, or `None` if it can.
pub(super) fn unusable(ports: &[String], spec: &Spec, level: u8) -> Option<String> {
    if !ports.contains(&spec.port) {
        if let Some((port, twin)) = spec.port.split_once('+') {
            let prefix = format!("{port}+");
            let near = did_you_mean(twin, ports.iter().filter_map(|name| name.strip_prefix(&prefix)));
            return Some(format!(
                "twin `{twin}` of port `{port}` is not registered with `Suite::twin`{near}"
            ));
        }
        let near = did_you_mean(&spec.port, ports.iter().map(String::as_str));
        return Some(format!("port `{}` is not registered with `Suite::port`{near}", spec.port));
    }
    let lowest = spec.checkpoints.iter().map(|checkpoint| checkpoint.level).min();
    match lowest {
        Some(lowest) if lowest <= level => None,
        Some(lowest) => Some(format!(
            "no checkpoint is checked, so nothing is proven: the level is {level}, but the lowest level of a checkpoint \
             is {lowest}; write `level: {lowest}` in the spec, or set PARITY_LEVEL={lowest}"
        )),
        None => Some("the spec declares no checkpoint, so nothing is proven".to_owned()),
    }
}
