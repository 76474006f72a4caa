//! The record of one hit of one checkpoint. Trials and reports rest on records alone.
//!
//! A record is one line of JSON. `docs/src/record.md` describes every field; a test holds the two together.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::{Comparison, Metrics};
use crate::diagnose::{Cause, Fact, MadeFrom, RecipeUse};
use crate::files::size::words;
use crate::gate::{Class, Floor, Gate, Phase};
use crate::number;
use crate::spec::{Checkpoint, Spec};
use crate::tensor::{Dtype, TensorView};

/// The version of the schema that this build writes. Adding a field keeps the version; removing one or changing its
/// meaning increases it.
pub const SCHEMA: u32 = 1;

/// One hit of one checkpoint.
///
/// Serialised fields come in the order of declaration. A reader ignores fields it does not know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`SCHEMA`] of the build that wrote the record.
    pub schema: u32,
    /// The spec's id, e.g. `qwen_image/vision_block`.
    pub spec: String,
    /// The checkpoint's name with loops expanded, e.g. `blocks.3.out`.
    pub checkpoint: String,
    /// The number of this hit of the tap, from 0.
    pub hit: u64,
    /// The number of this record in the run, from 0, in the order of taps.
    pub sequence: u64,
    /// The checkpoint's level.
    pub level: u32,
    /// The checkpoint's stage, when the spec names one.
    pub stage: Option<String>,
    /// Whether it passed, and why.
    pub verdict: Verdict,
    /// The golden's dtype and shape, after `squeeze`, `layout` and `cast`; absent without a golden.
    pub expected: Option<TensorInfo>,
    /// The actual's dtype and shape; absent when the port never produced it.
    pub actual: Option<TensorInfo>,
    /// The value gate as applied, with the numbers of its policy.
    pub gate: Option<Gate>,
    /// The golden's floor.
    pub floor: Option<Floor>,
    /// The block of the reference in which a local floor was measured. Other records have no such field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor_block: Option<String>,
    /// The measurements.
    pub metrics: Option<Metrics>,
    /// How the slots of a cache were matched. Other records have no such field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<Slots>,
    /// The tap's place in the port's source.
    pub location: Option<Location>,
    /// Milliseconds from the previous tap, or from the start of the forward pass, to this one.
    pub millis: f64,
    /// MLX's memory at the tap.
    pub memory: Option<Memory>,
    /// The difference in pixels, at the stage `image`.
    #[serde(default)]
    pub image: Option<Image>,
    /// Explanations of a failure, best first; empty when the hit passed or was not diagnosed.
    #[serde(default)]
    pub causes: Vec<Cause>,
    /// Facts about a failure that no cause explains.
    #[serde(default)]
    pub facts: Vec<Fact>,
    /// Whether the golden's recipe was of use to the diagnosis.
    #[serde(default)]
    pub recipe: RecipeUse,
    /// The tensors that the reference made the golden of a diagnosed failure from. Other records have no such field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_from: Option<MadeFrom>,
    /// Whether the port continued with a golden here or earlier.
    pub injected: bool,
    /// Why the actual of a failure is not in the run folder. Other records have no such field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_kept: Option<String>,
    /// The approval of the picture of a failure, where a person made one. Other records have no such field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_eye: Option<ByEye>,
}

impl Record {
    /// The record of a comparison, with its verdict and its metrics.
    ///
    /// A comparison that is not `gated` is measured and neither passes nor fails. All that a comparison does not know is
    /// empty: the first hit of the first tap, level 0, without forms, gate, floor, place, memory, image or diagnosis.
    /// Callers fill in what they know by struct update, `Record { hit, ..Record::new(…) }`.
    pub fn new(spec: &str, checkpoint: &str, comparison: Comparison, gated: bool) -> Self {
        Self {
            schema: SCHEMA,
            spec: spec.to_owned(),
            checkpoint: checkpoint.to_owned(),
            hit: 0,
            sequence: 0,
            level: 0,
            stage: None,
            verdict: Verdict::of(&comparison, gated),
            expected: None,
            actual: None,
            gate: None,
            floor: None,
            floor_block: None,
            metrics: comparison.metrics,
            slots: None,
            location: None,
            millis: 0.0,
            memory: None,
            image: None,
            causes: Vec::new(),
            facts: Vec::new(),
            recipe: RecipeUse::None,
            made_from: None,
            injected: false,
            not_kept: None,
            by_eye: None,
        }
    }

    /// [`Record::new`] with all that the spec declares about a checkpoint: its level, its stage and its gate.
    pub fn of_checkpoint(spec: &Spec, checkpoint: &Checkpoint, comparison: Comparison) -> Self {
        Self {
            level: checkpoint.level.into(),
            stage: checkpoint.stage.map(|stage| stage.name().to_owned()),
            gate: checkpoint.gate.clone(),
            ..Self::new(&spec.id, &checkpoint.name, comparison, checkpoint.gated)
        }
    }
}

impl Record {
    /// Whether the elements are ids, whose distances mean nothing.
    pub fn is_of_ids(&self) -> bool {
        self.gate.as_ref().is_some_and(Gate::is_of_ids)
    }
}

/// Whether one hit passed, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Whether it passed, failed, or was measured only.
    pub status: Status,
    /// The class of the first check that did not hold. An ungated hit has the class that it would have failed with.
    pub class: Option<Class>,
    /// The numbers that decided, in one line.
    pub detail: String,
}

impl Verdict {
    /// The verdict on a comparison. One that is not `gated` neither passes nor fails, unless nothing could be compared,
    /// as with a missing golden: that fails in any case.
    pub fn of(comparison: &Comparison, gated: bool) -> Self {
        let compared =
            comparison.class.is_none_or(|class| (Phase::Form..=Phase::Range).contains(&class.phase()));
        let status = match (gated, comparison.class) {
            (false, _) if compared => Status::Ungated,
            (_, None) => Status::Pass,
            (_, Some(_)) => Status::Fail,
        };
        Self { status, class: comparison.class, detail: comparison.detail.clone() }
    }
}

/// Whether a hit passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Every check held.
    Pass,
    /// A check did not hold.
    Fail,
    /// The spec has `gate: false`: measured and shown, but neither passed nor failed.
    Ungated,
    /// A check did not hold, and a person approved exactly this picture by eye.
    Approved,
}

/// The dtype and the shape of a tensor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TensorInfo {
    /// The element type.
    pub dtype: Dtype,
    /// Lengths of the axes.
    pub shape: Vec<usize>,
}

impl From<&TensorView<'_>> for TensorInfo {
    fn from(view: &TensorView) -> Self {
        Self { dtype: view.dtype(), shape: view.shape().to_vec() }
    }
}

/// How the slots of a cache were matched. The records of such a hit describe the rows in the golden's order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slots {
    /// The checkpoint that holds the position of each slot.
    pub positions: String,
    /// The axis with the slots.
    pub axis: usize,
    /// The position of the worst element; absent when all elements agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_position: Option<i64>,
    /// The port's slot with this position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_slot: Option<usize>,
}

/// The difference between two images.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Image {
    /// Peak signal-to-noise ratio over all channels, in decibels; infinite when the images are equal.
    #[serde(with = "number")]
    pub psnr_db: f64,
    /// Pixels per image.
    pub pixels: u64,
    /// Pixels that differ in any channel.
    pub mismatched_pixels: u64,
    /// The SHA-256 of the golden: dtype, shape and elements. Absent when golden and actual are equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub golden_sha256: Option<String>,
    /// The SHA-256 of the actual: dtype, shape and elements. Absent when golden and actual are equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual_sha256: Option<String>,
}

/// What a person said about the picture of a failed hit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByEye {
    /// Who approved the picture.
    pub by: String,
    /// Why the picture is good enough.
    pub reason: String,
    /// Why the approval does not cover this hit; absent when it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale: Option<String>,
}

/// A place in source code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Location {
    /// The file, as the compiler names it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

/// The memory that MLX reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Bytes in use.
    pub active_bytes: u64,
    /// The most bytes in use so far in the run.
    pub peak_bytes: u64,
    /// The most bytes in use since the previous checkpoint.
    #[serde(default)]
    pub stage_peak_bytes: u64,
    /// Bytes that MLX keeps for later use.
    #[serde(default)]
    pub cache_bytes: u64,
}

/// Prints `12 MB active, 20 MB peak in this stage, 31 MB peak so far, 2.0 MB cached`.
impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { active_bytes, peak_bytes, stage_peak_bytes, cache_bytes } = *self;
        write!(
            f,
            "{} active, {} peak in this stage, {} peak so far, {} cached",
            words(active_bytes),
            words(stage_peak_bytes),
            words(peak_bytes),
            words(cache_bytes)
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::compare::{Choices, Divergence, OtherChoice, Systematic, SystematicKind};
    use crate::diagnose::{CauseKind, FactKind, Residual};
    use crate::gate::{DistributionLimits, Rule, TopK};

    const DOC: &str = include_str!("../../../docs/src/record.md");

    fn record() -> Record {
        let expected: Vec<u8> = [0.5f32, -1.25, 2.0, 0.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let actual: Vec<u8> = [0.5f32, -1.2500001, 2.0, 1e-6].iter().flat_map(|x| x.to_le_bytes()).collect();
        let expected = TensorView::new(Dtype::Float32, &[2, 2], &expected).unwrap();
        let actual = TensorView::new(Dtype::Float32, &[2, 2], &actual).unwrap();
        let rule = Rule {
            gate: Some(Gate::Noise { k: 8.0 }),
            floor: Some(Floor { max: 2.4e-7, rms: 1.1e-7 }),
            ..Rule::default()
        };
        let mut comparison = Comparison::of(&expected, &actual, &rule);
        // Four elements are too few for a fit.
        let (kind, value) = (SystematicKind::Factor, -0.015_625);
        let systematic = Systematic { kind, value, share: 0.75, times_floor: 3.5, z: 7.0, clear: false };
        comparison.metrics.as_mut().unwrap().difference.as_mut().unwrap().systematic = Some(systematic);
        Record {
            sequence: 4,
            level: 1,
            stage: Some("text_encoder".to_owned()),
            expected: Some((&expected).into()),
            actual: Some((&actual).into()),
            gate: rule.gate,
            floor: rule.floor,
            floor_block: Some("layers.0".to_owned()),
            location: Some(Location { file: "tests/ports/qwen_image/vision_block.rs".to_owned(), line: 41 }),
            millis: 1.25,
            memory: Some(Memory {
                active_bytes: 73_728,
                peak_bytes: 147_456,
                stage_peak_bytes: 98_304,
                cache_bytes: 4_096,
            }),
            image: Some(Image {
                psnr_db: 41.5,
                pixels: 2,
                mismatched_pixels: 1,
                golden_sha256: None,
                actual_sha256: None,
            }),
            causes: vec![Cause {
                kind: CauseKind::Factor,
                also: vec![CauseKind::Constant],
                same_as: vec!["a factor of 1.5".to_owned()],
                text: "the golden times 1.5".to_owned(),
                place: Some("pkg/modeling_x.py:41".to_owned()),
                residual: Residual { rms: 1.5e-7, part: 0.25, used: 0.125 },
                sampled: None,
            }],
            facts: vec![Fact {
                kind: FactKind::Uncorrelated,
                text: "the correlation with the golden is 0.010".to_owned(),
                sampled: None,
            }],
            recipe: RecipeUse::Replayed,
            ..Record::new("qwen_image/vision_block", "norm1", comparison, true)
        }
    }

    fn choices() -> Choices {
        let other = OtherChoice {
            index: vec![1],
            expected: vec![3],
            actual: vec![-1],
            apart: Some(f64::INFINITY),
            tie: false,
        };
        Choices {
            rows: 4,
            equal: 3,
            reordered: 1,
            ties: 0,
            decided: 1,
            near: 0,
            divergence: Some(Divergence { mean: 1e-6, p99: 2e-6, max: f64::INFINITY }),
            overlap: Some(0.75),
            other: vec![other],
        }
    }

    #[test]
    fn choices_come_back_as_they_were() {
        let mut record = record();
        record.gate = Some(Gate::Set { ties: Some(8.0) });
        record.metrics.as_mut().unwrap().choices = Some(choices());
        let line = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), record);
        let text = Record { gate: Some(Gate::Text), ..record };
        assert_eq!(serde_json::from_str::<Record>(&serde_json::to_string(&text).unwrap()).unwrap(), text);
    }

    #[test]
    fn a_line_comes_back_as_it_was() {
        let record = record();
        let line = serde_json::to_string(&record).unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), record);
        let newer = line.replacen('{', "{\"not_yet_known\":[1],", 1);
        assert_eq!(
            serde_json::from_str::<Record>(&newer).unwrap(),
            record,
            "fields of a later version are ignored"
        );
    }

    /// Paths of all fields below `value`, `a.b` for nested ones.
    fn paths(value: &Value, above: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let path = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
                    found.push(path.clone());
                    paths(value, &path, found);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| paths(item, above, found)),
            _ => {}
        }
    }

    #[test]
    fn the_page_describes_every_field_that_is_written() {
        let mut found = Vec::new();
        paths(&serde_json::to_value(record()).unwrap(), "", &mut found);
        let tolerance = Gate::Tolerance { rtol: 1e-5, atol: 1e-5, policy: Some("fp32".to_owned()) };
        paths(&serde_json::to_value(tolerance).unwrap(), "gate", &mut found);
        let limits =
            DistributionLimits { topk: Some(TopK { k: 5, overlap: 0.9 }), ..DistributionLimits::default() };
        for gate in [Gate::Distribution(limits), Gate::Tokens { ties: 8.0 }, Gate::Set { ties: None }] {
            paths(&serde_json::to_value(gate).unwrap(), "gate", &mut found);
        }
        found.push("metrics.choices".to_owned());
        paths(&serde_json::to_value(choices()).unwrap(), "metrics.choices", &mut found);
        let sometimes = [
            "not_kept",
            "slots",
            "slots.positions",
            "slots.axis",
            "slots.worst_position",
            "slots.worst_slot",
            "made_from",
            "made_from.goldens",
            "made_from.inputs",
            "image.golden_sha256",
            "image.actual_sha256",
            "by_eye",
            "by_eye.by",
            "by_eye.reason",
        ];
        found.extend(sometimes.into_iter().chain(["by_eye.stale"]).map(str::to_owned));
        for path in &found {
            // Both sides have the same statistics, which the page describes once.
            let path = path.replace("metrics.actual.", "metrics.expected.");
            assert!(DOC.contains(&format!("| `{path}` |")), "docs/src/record.md does not describe `{path}`");
        }
        let described = DOC.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        for path in described {
            assert!(
                found.iter().any(|known| known == path),
                "docs/src/record.md describes `{path}`, which is not written"
            );
        }
    }

    #[test]
    fn the_example_on_the_page_is_what_this_build_writes() {
        let example = DOC.lines().find(|line| line.starts_with('{')).unwrap();
        let parsed: Record = serde_json::from_str(example).unwrap();
        assert_eq!(serde_json::to_string(&parsed).unwrap(), example);
        // A logarithm's last digit is the platform's own.
        let without_metrics = |record| Record { metrics: None, ..record };
        assert_eq!(without_metrics(parsed), without_metrics(record()));
    }

    #[test]
    fn an_ungated_hit_says_what_it_would_have_failed_with() {
        let comparison = Comparison::failed(Class::Value, "off");
        assert_eq!(Verdict::of(&comparison, false).status, Status::Ungated);
        assert_eq!(Verdict::of(&comparison, false).class, Some(Class::Value));
        assert_eq!(Verdict::of(&comparison, true).status, Status::Fail);
        let comparison = Comparison { class: None, ..comparison };
        assert_eq!(Verdict::of(&comparison, true).status, Status::Pass);
        let missing = Comparison::failed(Class::Missing, "no golden");
        assert_eq!(Verdict::of(&missing, false).status, Status::Fail, "nothing was compared");
    }
}
