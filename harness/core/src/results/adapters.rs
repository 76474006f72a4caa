//! The trial of adapters: whether every tensor of theirs was used, and whether they change the port as the reference.

use super::audit::audit_failure;
use super::run_data::RunData;
use super::trial::TrialOutcome;
use crate::gate::Class;
use crate::run_folder::{AdapterChange, AdapterRun, AdapterScale};
use crate::spec::Inject;
use crate::spec::list::counted;

/// The most stages that a failure lists.
const MOST_STAGES: usize = 12;
/// How near a factor must be to the one of a known mistake.
const NEAR: f64 = 0.02;

/// The outcome of the trial [`ADAPTERS`](super::ADAPTERS).
pub(super) fn adapters(data: &RunData) -> TrialOutcome {
    if let Some(audit) = data.adapter_audit().filter(|audit| !audit.is_clean()) {
        return audit_failure(Class::Adapters, audit);
    }
    match data.adapters() {
        Some(run) => judged(run),
        // Nothing is measured on injected goldens, and after a crash or a stop the run is judged as incomplete.
        None if data.inject() != Inject::Declared || data.is_stopped() || data.crashed() => {
            TrialOutcome::Passed
        }
        None => failed("what the adapters change was not measured".to_owned(), Vec::new()),
    }
}

fn failed(line: String, more: Vec<String>) -> TrialOutcome {
    let more = (!more.is_empty()).then(|| more.join("\n"));
    TrialOutcome::Failed { class: Class::Adapters, line, more }
}

fn judged(run: &AdapterRun) -> TrialOutcome {
    if let Some(error) = &run.error {
        return failed(format!("the port fails without adapters: {error}"), Vec::new());
    }
    if run.is_right() {
        return TrialOutcome::Passed;
    }
    if run.free.is_empty() {
        let text = "the manifest does not record what the adapters change; save them with `rec.adapters` in a reference \
                    that is a function, and make the set again";
        return failed(text.to_owned(), Vec::new());
    }
    if !run.free.iter().any(AdapterChange::shows) {
        let text = "the reference's adapters change no checkpoint of the spec by more than 8 floors, so nothing shows \
                    whether the port applies them";
        return failed(text.to_owned(), Vec::new());
    }
    let wrong = run.free.iter().find(|change| !change.is_right_without() || !change.is_right());
    if let Some(base) = wrong.filter(|change| !change.is_right_without()) {
        return base_differs(base);
    }
    let stages: Vec<Stage> = run.local.iter().filter_map(Stage::of).collect();
    let off: Vec<&Stage> = stages.iter().filter(|stage| stage.how != How::Right).collect();
    let mut more: Vec<String> = off.iter().take(MOST_STAGES).map(|stage| stage.text()).collect();
    if off.len() > MOST_STAGES {
        more.push(format!("STAGE    … and {} more", off.len() - MOST_STAGES));
    }
    let right: Vec<&str> =
        stages.iter().filter(|stage| stage.how == How::Right).map(|stage| stage.name()).collect();
    if !right.is_empty() && !off.is_empty() {
        let named = right.iter().take(MOST_STAGES).copied().collect::<Vec<_>>().join(", ");
        let others = right.len().saturating_sub(MOST_STAGES);
        let others = if others > 0 { format!(" and {others} more") } else { String::new() };
        more.push(format!("RIGHT    {named}{others}"));
    }
    if let Some(last) = run.free.iter().rev().find(|change| change.shows()) {
        let AdapterChange { name, port, reference, .. } = last;
        more.push(format!(
            "OUTPUT   {name}: the port's adapters change it by {port:.2e}, the reference's by {reference:.2e}"
        ));
    }
    failed(summary(&stages, &run.scales), more)
}

/// The port without adapters is not the reference without adapters, so nothing else can be said.
fn base_differs(change: &AdapterChange) -> TrialOutcome {
    let AdapterChange { name, without, recorded, unit, .. } = change;
    let text = match *without <= 8.0 * unit {
        true => format!(
            "`{name}` is the same with and without the tensors of `run.adapters`: the port takes its adapters from elsewhere"
        ),
        false => format!(
            "without adapters, the port is {without:.2e} from the golden `{name}`, and the reference {recorded:.2e}: the \
             port differs in more than its adapters"
        ),
    };
    failed(text, Vec::new())
}

/// How the adapters of one stage change its output, on golden inputs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum How {
    /// As in the reference.
    Right,
    /// Not at all.
    NotAtAll,
    /// By a multiple of the reference's change.
    Times(f64),
    /// In another way.
    Otherwise,
    /// The reference's adapters change nothing here.
    Extra,
}

struct Stage<'a> {
    change: &'a AdapterChange,
    how: How,
}

impl<'a> Stage<'a> {
    /// Returns the stage, or `None` if no adapter changes it, neither in the reference nor in the port.
    fn of(change: &'a AdapterChange) -> Option<Self> {
        let AdapterChange { reference, port, unit, factor, rest, .. } = *change;
        let how = match change.is_touched() {
            false if port > 8.0 * unit => How::Extra,
            false => return None,
            true if change.is_right() => How::Right,
            true if port <= 0.01 * reference => How::NotAtAll,
            true if rest <= (0.1 * port).max(8.0 * unit) => How::Times(factor),
            true => How::Otherwise,
        };
        Some(Self { change, how })
    }

    fn name(&self) -> &str {
        &self.change.name
    }

    fn text(&self) -> String {
        let AdapterChange { name, reference, port, rest, .. } = self.change;
        match self.how {
            How::Right => format!("STAGE    {name}: as in the reference"),
            How::NotAtAll => format!("STAGE    {name}: no change, the reference's is {reference:.2e}"),
            How::Times(factor) => format!("STAGE    {name}: {factor:.3} times the reference's change"),
            How::Otherwise => format!(
                "STAGE    {name}: another change; {:.0} % of it is no multiple of the reference's",
                100.0 * rest / port.max(f64::MIN_POSITIVE)
            ),
            How::Extra => format!(
                "STAGE    {name}: a change of {port:.2e}, where the reference's adapters change nothing"
            ),
        }
    }
}

/// What is wrong, in one line.
fn summary(stages: &[Stage], scales: &[AdapterScale]) -> String {
    let touched: Vec<&Stage> = stages.iter().filter(|stage| stage.how != How::Extra).collect();
    let count = |how: fn(&How) -> bool| touched.iter().filter(|stage| how(&stage.how)).count();
    let (all, right) = (touched.len(), count(|how| *how == How::Right));
    let idle = count(|how| *how == How::NotAtAll);
    let factors: Vec<f64> = touched
        .iter()
        .filter_map(|stage| match stage.how {
            How::Times(factor) => Some(factor),
            _ => None,
        })
        .collect();
    let of_all = counted(all, "stage");
    if all > 0 && idle == all {
        return format!(
            "the adapters have no effect: none of {of_all} changes that they change in the reference"
        );
    }
    if let [first, ..] = factors[..]
        && factors.len() + right == all
        && factors.iter().all(|factor| (factor - first).abs() <= NEAR * first.abs())
    {
        let known = mistakes(first, scales);
        let known = if known.is_empty() { String::new() } else { format!(": {}", known.join(", or ")) };
        return format!(
            "the adapters change {} of {of_all} {first:.3} times as much as in the reference{known}",
            factors.len()
        );
    }
    if idle > 0 && idle + right == all {
        return format!("the adapters change only {right} of {of_all} that they change in the reference");
    }
    let extra = stages.len() - all;
    match all - right {
        0 if extra > 0 => format!(
            "the adapters change {} that they do not change in the reference",
            counted(extra, "stage")
        ),
        0 => "the adapters are right on golden inputs, but not in the free run".to_owned(),
        wrong => format!(
            "the adapters change {wrong} of {of_all} in another way than in the reference; A and B may be exchanged, \
             transposed, or those of another layer"
        ),
    }
}

/// The mistakes that multiply a change by this factor.
fn mistakes(factor: f64, scales: &[AdapterScale]) -> Vec<String> {
    let near = |wanted: f64| (factor - wanted).abs() <= NEAR * wanted.abs();
    let mut found = Vec::new();
    let mut check = |wanted: f64, text: String| {
        if near(wanted) && !near_one(wanted) {
            found.push(text);
        }
    };
    check(2.0, "they are applied twice".to_owned());
    check(-1.0, "they are subtracted".to_owned());
    if let [AdapterScale { rank: Some(rank), alpha }] = scales {
        let rank = f64::from(*rank);
        if let Some(alpha) = alpha {
            let scale = alpha / rank;
            check(1.0 / scale, format!("the factor alpha / rank = {alpha} / {rank} is missing"));
            check(scale, format!("the factor alpha / rank = {alpha} / {rank} is applied twice"));
            check(1.0 / alpha, format!("the factor is 1 / rank, not alpha / rank = {alpha} / {rank}"));
            check(
                1.0 / (scale * scale),
                format!("the factor is rank / alpha = {rank} / {alpha}, not alpha / rank"),
            );
        }
        check(rank, format!("alpha is not divided by the rank {rank}"));
        check(rank.sqrt(), format!("alpha is divided by the square root of the rank {rank}"));
    }
    found
}

fn near_one(number: f64) -> bool {
    (number - 1.0).abs() <= NEAR
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(name: &str, reference: f64, port: f64, factor: f64, rest: f64) -> AdapterChange {
        let off = ((1.0 - factor) * reference).hypot(rest);
        let (recorded, without) = (reference, reference);
        AdapterChange {
            name: name.to_owned(),
            unit: 1e-7,
            recorded,
            without,
            reference,
            port,
            off,
            factor,
            rest,
        }
    }

    fn run(changes: &[AdapterChange]) -> AdapterRun {
        let scales = vec![AdapterScale { rank: Some(8), alpha: Some(12.0) }];
        AdapterRun { error: None, scales, free: changes.to_vec(), local: changes.to_vec() }
    }

    #[track_caller]
    fn check(changes: &[AdapterChange], words: &[&str]) {
        let TrialOutcome::Failed { class, line, more } = judged(&run(changes)) else { panic!("it passed") };
        let text = format!("{line}\n{}", more.unwrap_or_default());
        assert_eq!(class, Class::Adapters);
        for words in words {
            assert!(text.contains(words), "{text}");
        }
    }

    fn times(name: &str, factor: f64) -> AdapterChange {
        change(name, 0.3, 0.3 * factor.abs(), factor, 0.0)
    }

    #[test]
    fn a_right_port_passes() {
        assert_eq!(
            judged(&run(&[times("q", 1.0), change("embed", 0.0, 0.0, 0.0, 0.0)])),
            TrialOutcome::Passed
        );
    }

    #[test]
    fn each_known_factor_has_its_mistake() {
        let line = "the adapters change 2 of 2 stages 2.000 times as much as in the reference: they are applied twice";
        check(&[times("q", 2.0), times("v", 2.0)], &[line, "STAGE    q: 2.000 times the reference's change"]);
        check(&[times("q", 2.0 / 3.0)], &["0.667 times", ": the factor alpha / rank = 12 / 8 is missing"]);
        check(&[times("q", 1.5)], &["the factor alpha / rank = 12 / 8 is applied twice"]);
        check(&[times("q", 8.0)], &["alpha is not divided by the rank 8"]);
        check(&[times("q", 8f64.sqrt())], &["alpha is divided by the square root of the rank 8"]);
        check(&[times("q", 1.0 / 12.0)], &["the factor is 1 / rank, not alpha / rank = 12 / 8"]);
        check(&[times("q", -1.0)], &["they are subtracted"]);
        check(&[times("q", 0.77)], &["0.770 times as much as in the reference\n"]);
    }

    #[test]
    fn stages_without_their_adapters_are_named() {
        let none = |name| change(name, 0.3, 0.0, 0.0, 0.0);
        check(
            &[none("q"), none("v")],
            &["the adapters have no effect: none of 2 stages", "STAGE    v: no change"],
        );
        check(&[times("q", 1.0), none("v")], &["the adapters change only 1 of 2 stages", "RIGHT    q"]);
        let extra = change("k", 0.0, 0.2, 0.0, 0.0);
        let extra = AdapterChange { off: 0.2, ..extra };
        check(
            &[times("q", 1.0), extra],
            &["1 stage that they do not change", "STAGE    k: a change of 2.00e-1, where"],
        );
        check(
            &[change("q", 0.3, 0.3, 0.1, 0.29)],
            &["in another way", "STAGE    q: another change; 97 % of it"],
        );
    }

    #[test]
    fn a_port_that_differs_without_adapters_is_not_blamed_on_them() {
        let base = AdapterChange { without: 0.5, ..times("q", 1.0) };
        check(
            &[base],
            &["without adapters, the port is 5.00e-1 from the golden `q`, and the reference 3.00e-1"],
        );
        let elsewhere = AdapterChange { without: 0.0, ..times("q", 1.0) };
        check(&[elsewhere], &["the port takes its adapters from elsewhere"]);
        let error = AdapterRun { error: Some("boom".to_owned()), ..run(&[times("q", 1.0)]) };
        assert!(
            matches!(judged(&error), TrialOutcome::Failed { line, .. } if line.ends_with("without adapters: boom"))
        );
    }

    #[test]
    fn nothing_measured_proves_nothing() {
        let small = AdapterChange { unit: 1.0, ..times("q", 1.0) };
        check(&[small], &["change no checkpoint of the spec by more than 8 floors"]);
        let TrialOutcome::Failed { line, .. } = judged(&run(&[])) else { panic!("it passed") };
        assert!(line.contains("save them with `rec.adapters`"), "{line}");
    }
}
