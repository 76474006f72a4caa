//! The specs that a suite looks at in this process, and whether they and its settings can be used at all.

use std::borrow::Cow;

use libtest_mimic::Arguments;

use super::Suite;
use crate::near::did_you_mean;
use crate::run::SPEC;
use crate::settings::Settings;
use crate::spec::{Spec, SpecError, Specs};

/// What was found under the spec root.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) specs: Vec<Spec>,
    pub(super) broken: Vec<SpecError>,
    pub(super) unreadable: Option<SpecError>,
    /// Whether all of it was looked at.
    pub(super) whole: bool,
}

impl Loaded {
    /// With `--exact` only the one spec is parsed, which is what keeps a process per test cheap. What is wrong with a
    /// file is known only when all are looked at, as the list was made.
    pub(super) fn of(suite: &Suite, arguments: &Arguments) -> Self {
        let one = arguments.filter.as_deref().filter(|_| arguments.exact && !arguments.list);
        match one.and_then(|name| name.split_once("::")) {
            Some((id, name)) if id != "parity" && name != SPEC => {
                let (specs, broken) = match Specs::load_one(&suite.spec_root, id) {
                    Ok(spec) => (vec![spec], Vec::new()),
                    Err(error) => (Vec::new(), vec![*error]),
                };
                Self { specs, broken, unreadable: None, whole: false }
            }
            _ => {
                let Specs { specs, broken, unreadable, .. } = Specs::load(&suite.spec_root);
                Self { specs, broken, unreadable, whole: true }
            }
        }
    }
}

impl Suite {
    /// The settings of this process, or what is wrong with one of them.
    pub(super) fn settings(&self, loaded: &Loaded) -> Result<Settings, String> {
        let all = || match loaded.whole {
            true => Cow::Borrowed(&*loaded.specs),
            false => Cow::Owned(Specs::load(&self.spec_root).specs),
        };
        let settings = Settings::read(all).map_err(|error| error.to_string())?;
        // Specs that require their fixtures would be ignored, and a slip would go unnoticed.
        if !self.own_fixtures && !self.fixture_root.is_dir() {
            let (found, root) = (self.fixture_root.display(), self.root.display());
            return Err(format!(
                "PARITY_FIXTURES names `{found}`, expected a folder that is there (a relative one is meant from `{root}`)"
            ));
        }
        Ok(settings)
    }

    /// What is wrong with a spec that only the suite can know, if anything is.
    pub(super) fn unusable(&self, spec: &Spec, level: u8) -> Option<String> {
        if !self.ports.contains_key(&spec.port) {
            let near = did_you_mean(&spec.port, self.ports.keys().map(String::as_str));
            return Some(format!("port `{}` is not registered with `Suite::port`{near}", spec.port));
        }
        let lowest = spec.checkpoints.iter().map(|checkpoint| checkpoint.level).min();
        match lowest {
            Some(lowest) if lowest <= level => None,
            Some(lowest) => Some(format!(
                "no checkpoint is looked at, so nothing is proven: the level is {level}, and the lowest of its \
                 checkpoints is {lowest}; write `level: {lowest}` in the spec, or set PARITY_LEVEL={lowest}"
            )),
            None => Some("it declares no checkpoint, so nothing is proven".to_owned()),
        }
    }
}
