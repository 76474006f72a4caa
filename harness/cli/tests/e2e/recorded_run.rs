//! A project with the gated MLP and one recorded run of it, made without MLX.

use std::fs;
use std::path::PathBuf;
use std::process::Output;
use std::sync::Arc;

use crate::command::{EMPTY_WORKSPACE, GATED_MLP, cargo_parity, copy_from_repository};
use mlx_parity_core::compare::Comparison;
use mlx_parity_core::gate::{Gate, Rule};
use mlx_parity_core::golden::FixtureSet;
use mlx_parity_core::record::{Location, Memory, Record, Status};
use mlx_parity_core::results::SpecFile;
use mlx_parity_core::run_folder::{EXIT, Exit, Folder, Line, Writer};
use mlx_parity_core::spec::Specs;
use mlx_parity_core::tensor::{Dtype, Tensor, write_npy};

/// The only spec of the project.
pub(crate) const BLOCK: &str = "gated_mlp/block";

/// The project. Its run is called `one`.
pub(crate) struct RecordedRun(tempfile::TempDir);

impl RecordedRun {
    /// Records a run in which element 5 of `gated` is off by a half. Only this actual is kept.
    pub(crate) fn new() -> Self {
        let project = Self(tempfile::tempdir().unwrap());
        copy_from_repository(&GATED_MLP, project.0.path());
        fs::write(project.path("Cargo.toml"), EMPTY_WORKSPACE).unwrap();
        let folder = Folder::create(project.path("target/parity/runs/one").join(BLOCK)).unwrap();
        let spec = Arc::new(Specs::load_one(&project.path("parity-specs"), BLOCK).unwrap());
        let set = FixtureSet::open(&project.path("fixtures"), BLOCK).unwrap();
        folder.write_json("spec.json", &SpecFile::of(&spec)).unwrap();
        let mut writer = Writer::create(&folder).unwrap();
        for (sequence, checkpoint) in spec.checkpoints.iter().enumerate() {
            let golden = set.golden(&checkpoint.name).unwrap().tensor;
            let mut bytes = golden.view().row_major_bytes().unwrap().to_vec();
            if checkpoint.name == "gated" {
                let fifth: [u8; 4] = bytes[20..24].try_into().unwrap();
                bytes[20..24].copy_from_slice(&(f32::from_le_bytes(fifth) + 0.5).to_le_bytes());
            }
            let actual = Tensor::from_vec(Dtype::Float32, golden.shape().to_vec(), bytes).unwrap();
            let gate = Some(Gate::Tolerance { rtol: 1e-5, atol: 1e-5, policy: None });
            let rule = Rule { gate, ..Rule::default() };
            let comparison = Comparison::of(&golden.view(), &actual.view(), &rule);
            let record = Record {
                sequence: sequence as u64,
                expected: Some((&golden.view()).into()),
                actual: Some((&actual.view()).into()),
                location: Some(Location { file: "src/port.rs".into(), line: 7 }),
                memory: Some(Memory {
                    active_bytes: 1000,
                    peak_bytes: 3000,
                    stage_peak_bytes: 2000,
                    cache_bytes: 10,
                }),
                millis: 1.5,
                ..Record::of_checkpoint(&spec, checkpoint, comparison)
            };
            if record.verdict.status == Status::Fail {
                let path = folder.actual(&checkpoint.name, 0);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                write_npy(&path, &actual.view()).unwrap();
            }
            writer.write(&Line::Checkpoint(record.into())).unwrap();
        }
        writer.write(&Line::End(Box::default())).unwrap();
        folder.write_json(EXIT, &Exit::Done).unwrap();
        fs::write(folder.output(), "loading\n-- tap norm\nhalf way\n-- tap gated\n-- tap out\n").unwrap();
        std::os::unix::fs::symlink("one", project.path("target/parity/runs/latest")).unwrap();
        let source: String = (1..=12).map(|line| format!("// line {line}\n")).collect();
        fs::create_dir_all(project.path("src")).unwrap();
        fs::write(project.path("src/port.rs"), source).unwrap();
        project
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    /// Runs a command in the project.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        cargo_parity(self.0.path(), arguments).output().unwrap()
    }
}
