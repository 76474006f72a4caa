//! Run folders that are made up, with the types that a worker writes: red specs with causes, details and pictures, and specs with
//! thousands of checkpoints.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use mlx_parity_core::compare::Comparison;
use mlx_parity_core::details::{Details, ErrorDetails, Excerpt};
use mlx_parity_core::diagnose::{Cause, CauseKind, RecipeUse, Residual};
use mlx_parity_core::gate::{Class, Floor};
use mlx_parity_core::record::{Image, Location, Memory, Record, Status};
use mlx_parity_core::results::SpecFile;
use mlx_parity_core::run_folder::{
    Checkout, ENVIRONMENT, EXIT, Environment, Exit, FORMAT, Folder, JOB, Job, Line, Plan, PlannedSpec,
    SPEC_FILE, Selection, SuiteEnd, SuiteFolder, Writer,
};
use mlx_parity_core::settings::Settings;
use mlx_parity_core::spec::{Inject, Spec, Specs};
use mlx_parity_core::tensor::{Dtype, Tensor};

/// A spec of a made-up run.
pub(crate) struct MadeSpec {
    pub(crate) id: &'static str,
    pub(crate) about: &'static str,
    /// The lines of `checkpoints`.
    pub(crate) checkpoints: String,
    /// The position of the first faulty stage; all later ones are red, too. `None` for a green spec.
    pub(crate) faulty: Option<usize>,
    /// Which goldens the port continued with.
    pub(crate) inject: Inject,
}

impl MadeSpec {
    pub(crate) fn new(id: &'static str, checkpoints: impl Into<String>, faulty: Option<usize>) -> Self {
        let about = "A decoder that was made up";
        Self { id, about, checkpoints: checkpoints.into(), faulty, inject: Inject::Declared }
    }

    fn spec(&self) -> Arc<Spec> {
        let home = tempfile::tempdir().unwrap();
        let text = format!(
            "version: 1\nport: p\nabout: {}\nreference: {{script: s.py, source: \"pkg:Model\"}}\ninputs: [x]\ncheckpoints:\n{}",
            serde_json::to_string(self.about).unwrap(),
            self.checkpoints
        );
        let path = home.path().join(format!("{}.yaml", self.id));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        Arc::new(Specs::load_one(home.path(), self.id).unwrap_or_else(|error| panic!("{error}")))
    }
}

/// Three red specs, as people have them: one with pictures, one with inner levels, one that differs in its shape; and a green one.
pub(crate) fn three_red_specs() -> Vec<MadeSpec> {
    let decoder = "  - {name: embed, dtype: float32, stage: embedding, noise: 8}\n  \
        - {name: \"layers.{i}.norm\", for: {i: 0..12}, dtype: float32, stage: norm, level: 1, noise: 8}\n  \
        - {name: \"layers.{i}.attn.out\", for: {i: 0..12}, dtype: float32, stage: attention, noise: 8}\n  \
        - {name: \"layers.{i}.mlp.out\", for: {i: 0..12}, dtype: float32, stage: mlp, noise: 8}\n";
    let picture = "  - {name: latents, dtype: float32, stage: scheduler, noise: 8}\n  \
        - {name: decoded, dtype: float32, stage: vae, noise: 8}\n  \
        - {name: pixels, dtype: float32, stage: image, noise: 8}\n";
    vec![
        MadeSpec::new("made/decoder", decoder, Some(17)),
        MadeSpec::new("made/picture", picture, Some(1)),
        MadeSpec::new("made/encoder", decoder.replace("mlp", "text_encoder"), Some(30)),
        MadeSpec::new("made/green", decoder, None),
    ]
}

/// One spec with ten thousand checkpoints.
pub(crate) fn many(faulty: Option<usize>) -> Vec<MadeSpec> {
    let checkpoints =
        "  - {name: \"layers.{i}.{part}\", for: {i: 0..2500, part: 0..4}, dtype: float32, noise: 8}\n";
    vec![MadeSpec::new("made/large", checkpoints, faulty)]
}

/// Writes the run folder `runs/<name>` below `root`, and returns its path.
pub(crate) fn write_run(root: &Path, name: &str, specs: &[MadeSpec]) -> std::path::PathBuf {
    let folder = root.join("runs").join(name);
    let suite = SuiteFolder::create(&folder, "parity").unwrap();
    let mut planned = Vec::new();
    for made in specs {
        let spec = made.spec();
        write_spec(&Folder::create(folder.join(made.id)).unwrap(), made, &spec);
        let trials = spec.checkpoints.iter().map(|checkpoint| checkpoint.name.clone()).collect();
        let (id, digest) = (spec.id.clone(), spec.digest());
        planned.push(PlannedSpec { id, digest, trials, inject: made.inject.clone(), unmet: None });
    }
    let plan = Plan {
        format: FORMAT,
        mlx_parity: "0.1.0".into(),
        target: "parity".into(),
        started: "2026-11-18T10:00:00.000Z".into(),
        folder: Path::new("target/parity/runs").join(name),
        checkout: Some(Checkout { revision: "0123456789abcdef0123456789abcdef01234567".into(), dirty: true }),
        settings: Settings::default(),
        selections: vec![Selection::default()],
        specs: planned,
        broken: Vec::new(),
        refused: None,
    };
    suite.plan(|| plan, &Selection::default()).unwrap();
    let end = SuiteEnd { ended: "now".into(), passed: 0, failed: 0, ignored: 0, filtered: 0, problem: None };
    suite.end(&end).unwrap();
    folder
}

fn write_spec(folder: &Folder, made: &MadeSpec, spec: &Arc<Spec>) {
    folder.write_json(SPEC_FILE, &SpecFile::of(spec)).unwrap();
    folder.write_json(EXIT, &Exit::Done).unwrap();
    folder.write_json(ENVIRONMENT, &environment(&spec.id)).unwrap();
    write_pass(folder, made, spec, made.inject.clone());
    if made.faulty.is_some() {
        write_pass(&Folder::local(folder).unwrap(), made, spec, Inject::All);
    }
}

fn write_pass(folder: &Folder, made: &MadeSpec, spec: &Arc<Spec>, inject: Inject) {
    let local = inject == Inject::All;
    let job = serde_json::json!({
        "spec": spec.id, "spec_root": "parity-specs", "fixture_root": "fixtures", "folder": folder, "level": 9,
        "until": null, "inject": inject, "times": 0,
    });
    let job: Job = serde_json::from_value(job).unwrap();
    folder.write_json(JOB, &job).unwrap();
    let mut writer = Writer::create(folder).unwrap();
    let shape = [2, 6, 16];
    let golden = tensor(&shape, |at| (at as f32 * 0.37).sin());
    let mut compared: HashMap<(bool, usize), (Tensor, Comparison)> = HashMap::new();
    for (position, checkpoint) in spec.checkpoints.iter().enumerate() {
        let is_red =
            made.faulty.is_some_and(|faulty| if local { position == faulty } else { position >= faulty });
        let size = if is_red { 4e-3 } else { 1e-7 * (1.0 + (position % 7) as f32 / 7.0) };
        // The second half of the features is wrong, and later tokens more so.
        let error =
            |at: usize| if is_red && at % 16 < 8 { 0.0 } else { size * (1 + at / 16 % 6) as f32 * wave(at) };
        let mut rule = checkpoint.rule();
        rule.floor = Some(Floor { max: 4e-7, rms: 1.5e-7 });
        // All checkpoints have the same gate, so few comparisons serve thousands of them.
        let (actual, comparison) = compared.entry((is_red, position % 7)).or_insert_with(|| {
            let actual = tensor(&shape, |at| (at as f32 * 0.37).sin() + error(at));
            let comparison = Comparison::of(&golden.view(), &actual.view(), &rule);
            (actual, comparison)
        });
        let mut record = Record {
            sequence: position as u64,
            expected: Some((&golden.view()).into()),
            actual: Some((&actual.view()).into()),
            floor: rule.floor,
            location: Some(Location { file: "src/model.rs".into(), line: 40 + position as u32 % 50 }),
            millis: 0.25 + (position % 11) as f64 * 0.05,
            memory: Some(memory(position as u64)),
            injected: local,
            ..Record::of_checkpoint(spec, checkpoint, comparison.clone())
        };
        if record.stage.as_deref() == Some("image") {
            record.image = Some(Image {
                psnr_db: 31.5,
                pixels: 384,
                mismatched_pixels: 192,
                golden_sha256: None,
                actual_sha256: None,
            });
            std::fs::create_dir_all(folder.file("images")).unwrap();
            for kind in ["golden", "actual", "diff"] {
                let png = crate::data(&format!("page/{kind}.png"));
                std::fs::copy(png, folder.picture(&checkpoint.name, 0, kind)).unwrap();
            }
        }
        if local && is_red {
            record.causes = vec![cause()];
            record.recipe = RecipeUse::Replayed;
        }
        if record.verdict.status == Status::Fail && position < made.faulty.unwrap_or(0) + 40 {
            let error = ErrorDetails::of(&golden.view(), &actual.view());
            let port = Some(excerpt("src/model.rs", record.location.as_ref().unwrap().line));
            let reference = Some(excerpt("pkg/modeling_x.py", 61));
            folder.write_details(&checkpoint.name, 0, &Details { error, port, reference }).unwrap();
        }
        assert_eq!(record.verdict.class, is_red.then_some(Class::Value), "{} at {position}", spec.id);
        writer.write(&Line::Checkpoint(Arc::new(record))).unwrap();
    }
    writer.write(&Line::End(Box::default())).unwrap();
}

/// The memory at a tap, from JSON, which later fields do not break.
fn memory(position: u64) -> Memory {
    let peak = (2 << 20) + (position << 12);
    serde_json::from_value(serde_json::json!({"active_bytes": 1 << 20, "peak_bytes": peak})).unwrap()
}

/// Something between -1 and 1 without a pattern along any axis.
fn wave(at: usize) -> f32 {
    ((at * 7919 + 13) as f32).sin()
}

fn tensor(shape: &[usize], value: impl Fn(usize) -> f32) -> Tensor {
    let count = shape.iter().product();
    Tensor::from_vec(
        Dtype::Float32,
        shape.to_vec(),
        (0..count).flat_map(|at| value(at).to_le_bytes()).collect(),
    )
    .unwrap()
}

fn cause() -> Cause {
    Cause {
        kind: CauseKind::NormEps,
        also: Vec::new(),
        same_as: Vec::new(),
        text: "the reference's with eps 1e-5 in place of 1e-6 in `rms_norm`".into(),
        place: Some("pkg/modeling_x.py:61".into()),
        residual: Residual { rms: 1e-8, part: 0.0004, used: 0.01 },
        sampled: None,
    }
}

fn excerpt(file: &str, line: u32) -> Excerpt {
    let first = line.saturating_sub(5).max(1);
    let text = |number: u32| match number {
        number if number == line => {
            "        let x = tap(\"</script><b>norm</b>\", self.norm.forward(&x)?)?;".to_owned()
        }
        number => format!("        // line {number}"),
    };
    Excerpt { file: file.to_owned(), line, first, lines: (first..=line + 5).map(text).collect() }
}

fn environment(spec: &str) -> Environment {
    Environment {
        spec: spec.to_owned(),
        level: 9,
        device: "cpu".into(),
        mlx: "0.32.2".into(),
        mlx_parity: "0.1.0".into(),
        chip: "a chip".into(),
        cores: 2,
        os: "linux".into(),
        os_version: "6".into(),
        arch: "x86_64".into(),
        optimised: false,
        started: "2026-11-18T10:00:01.000Z".into(),
        variables: [("MLX_ENABLE_TF32".to_owned(), "0".to_owned())].into(),
    }
}
