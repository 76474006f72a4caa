//! The second reference of a set: a script that computes the same in its own way.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::error::RegenerateError;
use super::make::{MadeSet, Maker, Task};
use super::plan::PlannedSet;
use super::script_call::duration;
use super::workplace::Workplace;
use crate::references::Runner;
use mlx_parity_core::compare::compare;
use mlx_parity_core::files::regular;
use mlx_parity_core::gate::{Floor, Gate, Rule};
use mlx_parity_core::golden::{Agreement, FixtureSet, MANIFEST, Role, SecondReference, TensorEntry};
use mlx_parity_core::report::multiple;
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::tensor::{Float64View, Tensor, cast};
use mlx_parity_core::text::error_chain;

/// How many floors two references may be apart, for a golden whose checkpoint has no `noise`.
const FLOORS: f64 = 8.0;
/// Magnitudes from here on are those of masks, which must be equal.
const HUGE: f64 = 1e30;
/// Below this many elements a root mean square is a matter of luck, so only the largest distance counts.
const FEW: usize = 16;
/// The most lines about goldens that disagree.
const MOST_LINES: usize = 10;

impl Maker<'_> {
    /// Runs the second script of a set with the first one's params, inputs and weights, and compares the goldens.
    pub(super) fn second(
        &self,
        set: &PlannedSet,
        runner: &Runner,
        also: &str,
        first: &MadeSet,
    ) -> Result<SecondReference, RegenerateError> {
        let mut block = set.reference.to_json();
        block["script"] = also.into();
        let task = Task {
            script: also,
            block,
            turn: "also",
            expected: set.expected_of_second(),
            reuse: Some(first.folder.clone()),
            spread: false,
        };
        let time = duration(set.reference.timeout);
        let label = format!("run {}, the second reference {also}, {time} at most", set.folder);
        let second = self.steps.step(&label, || self.run(set, runner, &task))?;
        let found = agreement(set, also, &first.set, &second.set);
        // Only what the comparison found is needed from here on.
        let _ = fs::remove_dir_all(&second.folder);
        found
    }
}

/// One line on how far two references agree.
pub(crate) fn agreement_text(second: &SecondReference) -> String {
    let count = counted(second.goldens.len(), "golden");
    let agree = if second.goldens.len() == 1 { "agrees" } else { "agree" };
    let mut text = format!("second reference {}: {count} {agree}", second.script);
    match second.furthest() {
        Some((_, 0.0)) => text += " to the bit",
        Some((name, floors)) => text += &format!(" within {} the floor, furthest `{name}`", multiple(floors)),
        None => {}
    }
    if let [one, others @ ..] = second.only_first.as_slice() {
        let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
        text += &format!("; it does not make `{one}`{more}");
    }
    text
}

/// Adds to the manifest of a set that was made how far a second reference agrees.
pub(super) fn add_to_set(
    workplace: &Workplace,
    folder: &str,
    made: MadeSet,
    second: SecondReference,
) -> Result<MadeSet, RegenerateError> {
    let path = made.folder.join(MANIFEST);
    let text =
        regular::read_text(&path, regular::TEXT).map_err(|source| RegenerateError::read(&path, source))?;
    let unusable = |problem: String| RegenerateError::Unusable { script: second.script.clone(), problem };
    let json = serde_json::to_string(&second).map_err(|error| unusable(error.to_string()))?;
    let text = with_key(&text, &json);
    fs::write(&path, text).map_err(|source| RegenerateError::write(&path, source))?;
    // The first run is in the folder of its turn.
    let root = workplace.path("first");
    let set = FixtureSet::open(&root, folder).map_err(|error| unusable(error_chain(&error)))?;
    Ok(MadeSet { set, second: Some(second), ..made })
}

/// Returns the text of a manifest with the key `second_reference`: before `tensors`, as `parity_export` writes them, or
/// else at its start. Everything else stays as it was written.
fn with_key(manifest: &str, json: &str) -> String {
    const TENSORS: &str = "\n \"tensors\": [";
    // No text inside JSON has a line end, so this is the key.
    match (manifest.find(TENSORS), manifest.split_once('{')) {
        (Some(at), _) => format!("{}\n \"second_reference\": {json},{}", &manifest[..at], &manifest[at..]),
        (None, Some((before, after))) => format!("{before}{{\"second_reference\": {json},{after}"),
        (None, None) => manifest.to_owned(),
    }
}

/// Compares the goldens of both references.
///
/// # Errors
/// When an input or a weight differs, no golden has the same name in both, or one golden is too far off.
fn agreement(
    set: &PlannedSet,
    also: &str,
    first: &FixtureSet,
    second: &FixtureSet,
) -> Result<SecondReference, RegenerateError> {
    let names = || (set.reference.script.clone(), also.to_owned());
    let find = |role, name: &str| second.entries(role).find(|entry| entry.name == name);
    for role in [Role::Input, Role::Weight] {
        let differs =
            |one: &&TensorEntry| find(role, &one.name).is_some_and(|other| other.sha256 != one.sha256);
        if let Some(entry) = first.entries(role).find(differs) {
            let (first, second) = names();
            let what = format!("another {} `{}`", role.name(), entry.name);
            return Err(RegenerateError::OtherInputs { first, second, what });
        }
    }
    let (mut goldens, mut only_first, mut wrong) = (BTreeMap::new(), Vec::new(), Vec::new());
    for entry in first.entries(Role::Golden) {
        let Some(other) = find(Role::Golden, &entry.name) else {
            only_first.push(entry.name.clone());
            continue;
        };
        let rule = set.rule(&entry.name).unwrap_or_default();
        let pair = first.read(entry).and_then(|one| Ok((one, second.read(other)?)));
        let (expected, actual) = pair?;
        match apart(entry, &expected, &actual, &rule) {
            Ok(agreement) => drop(goldens.insert(entry.name.clone(), agreement)),
            Err(why) => wrong.push(format!("  {}: {why}", entry.name)),
        }
    }
    let (first_script, second_script) = names();
    if goldens.is_empty() && wrong.is_empty() {
        let made: Vec<String> =
            second.entries(Role::Golden).take(5).map(|entry| format!("`{}`", entry.name)).collect();
        let made = if made.is_empty() { "none".to_owned() } else { made.join(", ") };
        return Err(RegenerateError::NothingInCommon { first: first_script, second: second_script, made });
    }
    if !wrong.is_empty() {
        let more = wrong.len().saturating_sub(MOST_LINES);
        wrong.truncate(MOST_LINES);
        let more = (more > 0).then(|| format!("  … and {more} more"));
        wrong.extend(more);
        let findings = wrong.join("\n");
        return Err(RegenerateError::Disagree { first: first_script, second: second_script, findings });
    }
    let packages = second.manifest().provenance.get("packages").and_then(Value::as_object);
    let packages = packages.into_iter().flatten();
    let packages = packages.filter_map(|(name, version)| Some((name.clone(), version.as_str()?.to_owned())));
    Ok(SecondReference { script: second_script, packages: packages.collect(), goldens, only_first })
}

/// Returns how far a golden of the second reference is from that of the first.
///
/// A golden with a floor may be as many floors off as its checkpoint's `noise` allows, or 8. Without a floor, the
/// checkpoint's gate decides; without a gate, or if the golden has integers, both must be equal. The second reference may
/// compute in another dtype.
///
/// # Errors
/// Why the two disagree, in words.
fn apart(entry: &TensorEntry, expected: &Tensor, actual: &Tensor, rule: &Rule) -> Result<Agreement, String> {
    if expected.shape() != actual.shape() {
        return Err(format!("shape {:?} in the first, {:?} in the second", expected.shape(), actual.shape()));
    }
    let distance = Distance::between(expected, actual)?;
    let Some(floor) = entry.floor else {
        if distance.max == 0.0 {
            return Ok(Agreement { floors: Some(0.0), gate: None });
        }
        let gate = rule.gate.clone().filter(|gate| !gate.needs_floor());
        let Some(gate) = gate.filter(|_| expected.dtype().is_float()) else {
            return Err(format!("{}; both must be equal, because the golden has no floor", distance.text()));
        };
        let actual = cast(&actual.view(), expected.dtype()).map_err(|error| error.to_string())?;
        let rule = Rule { gate: Some(gate), nan_equal: true, ..Rule::default() };
        let outcome = compare(&expected.view(), &actual.view(), &rule);
        let used = outcome.metrics.and_then(|metrics| metrics.difference?.used);
        return match outcome.class {
            None => Ok(Agreement { floors: None, gate: Some(rounded(used.unwrap_or(0.0))) }),
            Some(_) => Err(outcome.detail),
        };
    };
    let most = match rule.gate {
        Some(Gate::Noise { k }) => k,
        _ => FLOORS,
    };
    let unit = floor.unit(&expected.view());
    let measured = Floor { max: distance.max, rms: if expected.len() < FEW { 0.0 } else { distance.rms } };
    let times = |far: f64, unit: f64| if far == 0.0 { 0.0 } else { far / unit };
    let floors = times(measured.max, unit.max).max(times(measured.rms, unit.rms));
    if floors <= most {
        return Ok(Agreement { floors: Some(rounded(floors)), gate: None });
    }
    Err(format!("{} the floor apart, at most {most} is allowed; {}", multiple(floors), distance.text()))
}

/// Three significant digits: more would only record how this machine rounds.
fn rounded(number: f64) -> f64 {
    format!("{number:.2e}").parse().unwrap_or(number)
}

/// The distance between two tensors of the same shape.
struct Distance {
    max: f64,
    rms: f64,
    /// Where the largest distance is, with both elements.
    worst: (Vec<usize>, f64, f64),
}

impl Distance {
    /// Measures over elements that are below 1e30 in magnitude on both sides. The others must be equal.
    fn between(expected: &Tensor, actual: &Tensor) -> Result<Self, String> {
        let (one, two) = (expected.view(), actual.view());
        let (left, right) = (Float64View::new(&one), Float64View::new(&two));
        // A complex element is two numbers.
        let parts = left.len().checked_div(one.len()).unwrap_or(1);
        if left.len() != right.len() {
            return Err(format!("{} in the first, {} in the second", one.dtype(), two.dtype()));
        }
        let (mut worst, mut max, mut squares, mut count) = (0, 0.0, 0.0, 0u64);
        for at in 0..left.len() {
            let (a, b) = (left.at(at), right.at(at));
            if a.abs() < HUGE && b.abs() < HUGE {
                let far = (a - b).abs();
                if far > max {
                    (worst, max) = (at, far);
                }
                squares += far * far;
                count += 1;
            } else if a != b
                && !(a.is_nan() && b.is_nan())
                && !(a.abs() >= HUGE && b.abs() >= HUGE && a * b > 0.0)
            {
                let index = one.index_of(at / parts);
                return Err(format!("{a:e} in the first, {b:e} in the second, at {index:?}"));
            }
        }
        let rms = if count == 0 { 0.0 } else { (squares / count as f64).sqrt() };
        let index = if one.is_empty() { Vec::new() } else { one.index_of(worst / parts) };
        let elements = if one.is_empty() { (0.0, 0.0) } else { (left.at(worst), right.at(worst)) };
        Ok(Self { max, rms, worst: (index, elements.0, elements.1) })
    }

    fn text(&self) -> String {
        let (index, first, second) = &self.worst;
        format!("off by {:.3e} at {index:?}: {first} in the first, {second} in the second", self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlx_parity_core::tensor::Dtype;

    fn floats(values: &[f32]) -> Tensor {
        let bytes = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        Tensor::from_vec(Dtype::Float32, vec![values.len()], bytes).unwrap()
    }

    fn doubles(values: &[f64]) -> Tensor {
        let bytes = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        Tensor::from_vec(Dtype::Float64, vec![values.len()], bytes).unwrap()
    }

    fn entry(floor: Option<Floor>) -> TensorEntry {
        let mut entry: TensorEntry = serde_json::from_value(serde_json::json!({
            "name": "x", "role": "golden", "file": "x.npy", "dtype": "float32", "shape": [2], "sha256": "", "sequence": 0
        }))
        .unwrap();
        entry.floor = floor;
        entry
    }

    const FLOOR: Option<Floor> = Some(Floor { max: 1e-6, rms: 1e-6 });

    #[track_caller]
    fn refused(expected: &Tensor, actual: &Tensor, floor: Option<Floor>, rule: &Rule, words: &str) {
        let text = apart(&entry(floor), expected, actual, rule).unwrap_err();
        assert!(text.contains(words), "{text}");
    }

    #[test]
    fn floors_decide_where_a_golden_has_one() {
        let golden = floats(&[1.0, 2.0]);
        let near = apart(&entry(FLOOR), &golden, &doubles(&[1.0, 2.000_003]), &Rule::default()).unwrap();
        assert!((2.9..3.1).contains(&near.floors.unwrap()), "{near:?}");
        let far = doubles(&[1.0, 2.000_02]);
        refused(
            &golden,
            &far,
            FLOOR,
            &Rule::default(),
            "20.0x the floor apart, at most 8 is allowed; off by 2.000e-5 at [1]",
        );
        let wide = Rule { gate: Some(Gate::Noise { k: 32.0 }), ..Rule::default() };
        assert!(apart(&entry(FLOOR), &golden, &far, &wide).is_ok());
    }

    #[test]
    fn without_a_floor_the_gate_of_the_checkpoint_decides() {
        let (golden, near) = (floats(&[1.0, 2.0]), floats(&[1.0, 2.001]));
        refused(
            &golden,
            &near,
            None,
            &Rule::default(),
            "both must be equal, because the golden has no floor",
        );
        let gate = Gate::Tolerance { rtol: 0.0, atol: 0.002, policy: None };
        let rule = Rule { gate: Some(gate), ..Rule::default() };
        let agreement = apart(&entry(None), &golden, &near, &rule).unwrap();
        assert!((0.49..0.51).contains(&agreement.gate.unwrap()), "{agreement:?}");
        refused(&golden, &floats(&[1.0, 2.1]), None, &rule, "");
        assert_eq!(apart(&entry(None), &golden, &golden, &Rule::default()).unwrap().floors, Some(0.0));
    }

    #[test]
    fn shapes_and_infinities_must_be_equal() {
        let golden = floats(&[f32::NEG_INFINITY, 2.0]);
        assert!(apart(&entry(FLOOR), &golden, &doubles(&[f64::NEG_INFINITY, 2.0]), &Rule::default()).is_ok());
        refused(
            &golden,
            &floats(&[0.0, 2.0]),
            FLOOR,
            &Rule::default(),
            "-inf in the first, 0e0 in the second, at [0]",
        );
        refused(
            &golden,
            &floats(&[0.0]),
            FLOOR,
            &Rule::default(),
            "shape [2] in the first, [1] in the second",
        );
    }

    #[test]
    fn the_agreement_is_added_before_the_tensors() {
        let manifest = "{\n \"format\": 1,\n \"tensors\": [\n  {}\n ]\n}\n";
        let added = with_key(manifest, "{\"script\":\"b.py\"}");
        assert_eq!(
            added,
            "{\n \"format\": 1,\n \"second_reference\": {\"script\":\"b.py\"},\n \"tensors\": [\n  {}\n ]\n}\n"
        );
        assert_eq!(with_key("{\"format\":1}", "{}"), "{\"second_reference\": {},\"format\":1}");
    }
}
