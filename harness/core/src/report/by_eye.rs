//! Words about pictures that a person approves by eye.

use crate::approval::not_a_matter_of_looks;
use crate::record::ByEye;
use crate::results::{Account, Localisation, TrialResult};
use crate::text::program::program;

/// Returns `approved by eye by Ada: one pixel of grain`.
pub(super) fn approved_words(by_eye: &ByEye) -> String {
    format!("approved by eye by {}: {}", by_eye.by, by_eye.reason)
}

/// What a person can do about a failing picture, or why its approval does not hold; `None` for all other failures.
pub(super) fn by_eye_text(account: &Account, trial: &TrialResult) -> Option<String> {
    let record = trial.record.as_deref()?;
    record.image.as_ref()?;
    let refused = not_a_matter_of_looks(record);
    // The picture will be another one when the first faulty stage is mended.
    let earlier = account.main_failure().filter(|main| main.name != trial.name);
    if let (Some(main), None) = (earlier, &refused) {
        let by = record.by_eye.as_ref().map(|by_eye| format!("{} approved another picture; ", by_eye.by));
        return Some(format!(
            "{}mend `{}` first, then look at the picture",
            by.unwrap_or_default(),
            main.name
        ));
    }
    let command =
        format!("{} accept --picture {}::{} --reason \"…\"", program(), account.spec.id, trial.name);
    let has_cause = matches!(account.localisation(), Some(Localisation::Culprit(c)) if !c.causes.is_empty());
    let stale = record.by_eye.as_ref().and_then(|by_eye| Some((&by_eye.by, by_eye.stale.as_deref()?)));
    match (stale, refused) {
        (Some((by, why)), Some(_)) => Some(format!("{by} approved this picture, but {why}")),
        (Some((by, why)), None) => Some(format!(
            "{by} approved this picture, but {why}: look at it again; if it is right: {command}"
        )),
        (None, Some(why)) => Some(format!("no approval can make this green: {why}")),
        (None, None) if has_cause => {
            Some(format!("a cause is known: mend it, or look at the pictures; if they are right: {command}"))
        }
        (None, None) => Some(format!("open: look at the pictures; if they are right: {command}")),
    }
}
