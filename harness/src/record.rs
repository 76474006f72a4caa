//! What is written about one hit of one checkpoint, and all that trials and reports go by.
//!
//! A record is one line of JSON. `docs/record.md` describes every field; a test holds the two together.

use serde::{Deserialize, Serialize};

use crate::class::Class;
use crate::compare::{Floor, Gate, Metrics, Outcome, number};
use crate::diagnose::{Cause, Fact};
use crate::tensor::{Dtype, TensorView};

/// The version of the schema that this build writes. A field may be added without a new version; one that goes or
/// changes its meaning makes a new one.
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
    /// Which hit of the tap this is, from 0.
    pub hit: u64,
    /// Which record of the run this is, from 0, in the order of taps.
    pub sequence: u64,
    /// The checkpoint's level.
    pub level: u32,
    /// The stage that the checkpoint belongs to, when the spec names one.
    pub stage: Option<String>,
    /// What came of it.
    pub verdict: Verdict,
    /// The golden's dtype and shape, as compared; absent without a golden.
    pub expected: Option<Tensor>,
    /// The actual's dtype and shape; absent when the port never produced it.
    pub actual: Option<Tensor>,
    /// The value gate as applied, a policy's numbers filled in.
    pub gate: Option<Gate>,
    /// The golden's floor.
    pub floor: Option<Floor>,
    /// What was measured.
    pub metrics: Option<Metrics>,
    /// Where the tap is in the port's source.
    pub location: Option<Location>,
    /// Milliseconds from the previous tap, or from the start of the forward pass, to this one.
    pub millis: f64,
    /// MLX's memory when the tap was met.
    pub memory: Option<Memory>,
    /// How far pixels are apart, at a stage that is an image.
    #[serde(default)]
    pub image: Option<Image>,
    /// What kind of wrong it is, best explanation first; empty unless it failed and was looked into.
    #[serde(default)]
    pub causes: Vec<Cause>,
    /// What can be seen of it where nothing explains it.
    #[serde(default)]
    pub facts: Vec<Fact>,
    /// Whether a golden was returned in place of an actual here or before.
    pub injected: bool,
}

/// What came of one hit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether it passed, failed, or was measured only.
    pub status: Status,
    /// The class of the first check that did not hold; of an ungated hit, what it would have failed with.
    pub class: Option<Class>,
    /// One line with the numbers that decided.
    pub detail: String,
}

impl Verdict {
    /// The verdict that a comparison comes to; not `gated` is measured and shown, and neither passes nor fails. What
    /// could not be compared at all, such as a missing golden, fails all the same.
    pub fn of(outcome: &Outcome, gated: bool) -> Self {
        let compared = outcome.class.is_none_or(|class| (Class::Shape..=Class::Range).contains(&class));
        let status = match (gated, outcome.class) {
            (false, _) if compared => Status::Ungated,
            (_, None) => Status::Pass,
            (_, Some(_)) => Status::Fail,
        };
        Self { status, class: outcome.class, detail: outcome.detail.clone() }
    }
}

/// Whether a hit passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Every check held.
    Pass,
    /// A check did not hold.
    Fail,
    /// The spec says `gate: false`: measured and shown, not judged.
    Ungated,
}

/// What a tensor is, without its values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tensor {
    /// Its element type.
    pub dtype: Dtype,
    /// Lengths of its axes.
    pub shape: Vec<usize>,
}

impl From<&TensorView<'_>> for Tensor {
    fn from(view: &TensorView) -> Self {
        Self { dtype: view.dtype(), shape: view.shape().to_vec() }
    }
}

/// How far two pictures are apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Image {
    /// Peak signal-to-noise ratio over all channels, in decibels; infinite when they are equal.
    #[serde(with = "number")]
    pub psnr_db: f64,
    /// Pixels of one of them.
    pub pixels: u64,
    /// Pixels that differ in any channel.
    pub mismatched_pixels: u64,
}

/// A place in source code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// The file, as the compiler names it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

/// MLX's own account of its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Bytes in use.
    pub active_bytes: u64,
    /// Most bytes in use at any time of the run so far.
    pub peak_bytes: u64,
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::compare::{Rule, compare};
    use crate::diagnose::{FactKind, Kind, Residual};

    const DOC: &str = include_str!("../../docs/record.md");

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
        let outcome = compare(&expected, &actual, &rule);
        Record {
            schema: SCHEMA,
            spec: "qwen_image/vision_block".to_owned(),
            checkpoint: "norm1".to_owned(),
            hit: 0,
            sequence: 4,
            level: 1,
            stage: Some("encoder".to_owned()),
            verdict: Verdict::of(&outcome, true),
            expected: Some((&expected).into()),
            actual: Some((&actual).into()),
            gate: rule.gate,
            floor: rule.floor,
            metrics: outcome.metrics,
            location: Some(Location { file: "tests/src/qwen_image/vision_block.rs".to_owned(), line: 41 }),
            millis: 1.25,
            memory: Some(Memory { active_bytes: 73_728, peak_bytes: 147_456 }),
            image: Some(Image { psnr_db: 41.5, pixels: 2, mismatched_pixels: 1 }),
            causes: vec![Cause {
                kind: Kind::Factor,
                text: "the golden times 1.5".to_owned(),
                residual: Residual { rms: 1.5e-7, part: 0.25, used: 0.125 },
                sampled: None,
            }],
            facts: vec![Fact {
                kind: FactKind::Uncorrelated,
                text: "the correlation with the golden is 0.010".to_owned(),
                sampled: None,
            }],
            injected: false,
        }
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
        for path in &found {
            // Both sides have the same statistics, which the page describes once.
            let path = path.replace("metrics.actual.", "metrics.expected.");
            assert!(DOC.contains(&format!("| `{path}` |")), "docs/record.md does not describe `{path}`");
        }
        let described = DOC.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        for path in described {
            assert!(
                found.iter().any(|known| known == path),
                "docs/record.md describes `{path}`, which is not written"
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
        let outcome = Outcome { class: Some(Class::Value), detail: "off".to_owned(), metrics: None };
        assert_eq!(Verdict::of(&outcome, false).status, Status::Ungated);
        assert_eq!(Verdict::of(&outcome, false).class, Some(Class::Value));
        assert_eq!(Verdict::of(&outcome, true).status, Status::Fail);
        let outcome = Outcome { class: None, ..outcome };
        assert_eq!(Verdict::of(&outcome, true).status, Status::Pass);
    }
}
