//! `cargo xtask diff` on files and folders of tensors.

mod recipes;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use mlx_parity_core::record::Record;
use mlx_parity_core::tensor::{Dtype, TensorView, write_npy};

use crate::command::{BINARY, check, repository};

/// A folder with tensors in it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, file: &str) -> PathBuf {
        let path = self.0.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    fn npy(&self, file: &str, shape: &[usize], values: &[f32]) {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        write_npy(self.path(file), &TensorView::new(Dtype::Float32, shape, &bytes).unwrap()).unwrap();
    }

    fn npy64(&self, file: &str, values: &[f64]) {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let view = TensorView::new(Dtype::Float64, &[values.len()], &bytes).unwrap();
        write_npy(self.path(file), &view).unwrap();
    }

    fn complex64(&self, file: &str, values: &[[f32; 2]]) {
        let bytes: Vec<u8> = values.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
        let view = TensorView::new(Dtype::Complex64, &[values.len()], &bytes).unwrap();
        write_npy(self.path(file), &view).unwrap();
    }

    /// Writes complex128 as `np.save` does.
    fn complex128(&self, file: &str, values: &[[f64; 2]]) {
        let dict = format!("{{'descr': '<c16', 'fortran_order': False, 'shape': ({},), }}\n", values.len());
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((dict.len() as u16).to_le_bytes());
        bytes.extend(dict.bytes());
        bytes.extend(values.iter().flatten().flat_map(|x| x.to_le_bytes()));
        fs::write(self.path(file), bytes).unwrap();
    }

    /// Writes a safetensors file of float32 vectors.
    fn safetensors(&self, file: &str, metadata: &str, tensors: &[(&str, &[f32])]) {
        let shapes: Vec<[usize; 1]> = tensors.iter().map(|(_, values)| [values.len()]).collect();
        let tensors: Vec<(&str, &[usize], &[f32])> =
            tensors.iter().zip(&shapes).map(|((name, values), shape)| (*name, &shape[..], *values)).collect();
        self.shaped_safetensors(file, metadata, &tensors);
    }

    /// Writes a safetensors file of float32 tensors with these shapes.
    fn shaped_safetensors(&self, file: &str, metadata: &str, tensors: &[(&str, &[usize], &[f32])]) {
        let (mut entries, mut data) = (Vec::new(), Vec::new());
        if !metadata.is_empty() {
            entries.push(format!("\"__metadata__\":{metadata}"));
        }
        for (name, shape, values) in tensors {
            let start = data.len();
            data.extend(values.iter().flat_map(|x| x.to_le_bytes()));
            let end = data.len();
            entries.push(format!(
                r#""{name}":{{"dtype":"F32","shape":{shape:?},"data_offsets":[{start},{end}]}}"#
            ));
        }
        let header = format!("{{{}}}", entries.join(","));
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
        fs::write(self.path(file), bytes).unwrap();
    }

    /// The command in this folder, with this repository as the project.
    fn diff(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(BINARY);
        command.arg("diff").args(arguments).current_dir(self.0.path());
        command.arg("--manifest-path").arg(repository().join("Cargo.toml")).output().unwrap()
    }
}

#[test]
fn two_files_are_compared_in_order_with_the_first_divergence_marked() {
    let folder = Folder::new();
    folder.safetensors("a.safetensors", "", &[("b.10", &[1., 2.]), ("b.9", &[3., 4.]), ("norm", &[5.])]);
    folder.safetensors("b.safetensors", "", &[("norm", &[5.]), ("b.9", &[3., 4.1]), ("b.10", &[1., 2.5])]);
    let text = check(
        folder.diff(&["a.safetensors", "b.safetensors", "--json", "out.jsonl"]),
        1,
        &[
            "A      a.safetensors  3 tensors\nB      b.safetensors  3 tensors\n",
            "gate   by dtype, as in torch.testing",
            "order  by name, with numbers by value",
            "<- first divergence, nothing passed before it",
            "b.9: value differs\n  tensor   float32 [2]\n  worst    [1]: expected 4, actual 4.1, off by 1.00e-1",
            "outside  1 of 2 elements; atol 1e-5, rtol 1.3e-6\n",
            "\n1 agree, 2 differ, 0 only in A, 0 only in B\n",
        ],
    );
    assert!(!text.contains('\x1b'), "{text}");
    let order: Vec<usize> = ["  value     b.9 ", "  value     b.10 ", "  ok        norm "]
        .iter()
        .map(|row| text.find(row).unwrap_or_else(|| panic!("{row}: {text}")))
        .collect();
    assert!(order.is_sorted(), "{text}");
    let lines = fs::read_to_string(folder.path("out.jsonl")).unwrap();
    let records: Vec<Record> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), 3);
    assert_eq!((records[0].spec.as_str(), records[0].checkpoint.as_str()), ("diff", "b.9"));
    check(
        folder.diff(&["a.safetensors", "a.safetensors"]),
        0,
        &["3 agree, 0 differ, 0 only in A, 0 only in B\n"],
    );
}

#[test]
fn the_order_can_be_given() {
    let folder = Folder::new();
    let tensors: &[(&str, &[f32])] = &[("first", &[1.]), ("second", &[2.]), ("a_third", &[3.])];
    let metadata = r#"{"order":"[\"second\",\"first\"]"}"#;
    folder.safetensors("a.safetensors", metadata, tensors);
    folder.safetensors("b.safetensors", "", &[("first", &[9.]), ("second", &[9.]), ("a_third", &[9.])]);
    check(
        folder.diff(&["a.safetensors", "b.safetensors"]),
        1,
        &["order  `order` in the file's metadata", "\nsecond: value differs"],
    );
    fs::write(folder.path("order.txt"), "first\n\nsecond\n").unwrap();
    check(
        folder.diff(&["a.safetensors", "b.safetensors", "--order", "order.txt"]),
        1,
        &["order  `order.txt`", "\nfirst: value differs"],
    );
    fs::write(folder.path("order.txt"), "nothing\n").unwrap();
    check(
        folder.diff(&["a.safetensors", "b.safetensors", "--order", "order.txt"]),
        2,
        &["error: `order.txt` names no tensor of `a.safetensors`"],
    );
    folder.safetensors("a.safetensors", r#"{"order":"first"}"#, tensors);
    check(
        folder.diff(&["a.safetensors", "b.safetensors"]),
        2,
        &["error: `order` in the metadata of `a.safetensors`"],
    );
}

#[test]
fn names_are_matched_by_rules_and_nearness_and_the_rest_is_red() {
    let folder = Folder::new();
    folder.npy("a/blocks/0/out.npy", &[1], &[1.]);
    folder.npy("a/nrom.npy", &[1], &[2.]);
    folder.npy("a/lonely.npy", &[2], &[3., 3.]);
    folder.npy("b/layers.0.out.npy", &[1], &[1.]);
    folder.npy("b/norm.npy", &[1], &[2.]);
    let sides = ["a", "b", "--rename", "blocks=layers"];
    check(
        folder.diff(&sides),
        1,
        &[
            "is `layers.0.out` in B\n",
            "is `norm` in B, matched by a similar name\n",
            "  only in A lonely\n",
            "2 agree, 0 differ, 1 only in A, 0 only in B\n",
        ],
    );
    check(folder.diff(&[&sides[..], &["--ignore-extra"]].concat()), 0, &["1 only in A"]);
    check(
        folder.diff(&[&sides[..], &["--exact-names"]].concat()),
        1,
        &["only in A nrom", "only in B norm", "1 agree, 0 differ, 2 only in A, 1 only in B"],
    );
    check(folder.diff(&["a", "b", "--rename", "^nrom$=norm", "--ignore-extra"]), 0, &["is `norm` in B\n"]);
    folder.npy("c/elsewhere.npy", &[3], &[0.; 3]);
    check(folder.diff(&["a", "c", "--ignore-extra"]), 1, &["0 agree, 0 differ, 3 only in A, 1 only in B"]);
}

#[test]
fn two_lone_tensors_are_a_pair_and_layouts_and_casts_are_printed() {
    let folder = Folder::new();
    folder.npy("x.npy", &[2, 3], &[0., 1., 2., 3., 4., 5.]);
    folder.npy("y.npy", &[3, 2], &[0., 3., 1., 4., 2., 5.]);
    check(
        folder.diff(&["x.npy", "y.npy"]),
        1,
        &["x: shape differs\n", "expected shape [2, 3], actual [3, 2]"],
    );
    check(folder.diff(&["x.npy", "y.npy", "--layout", "a b -> b a"]), 0, &["is `y` in B", "1 agree"]);
    check(folder.diff(&["x.npy", "y.npy", "--layout", "a b"]), 2, &["error: layout `a b` has no arrow"]);
    folder.npy64("wide.npy", &[1.0, 2.0 + 1e-9]);
    folder.npy("narrow.npy", &[2], &[1., 2.]);
    check(
        folder.diff(&["wide.npy", "narrow.npy"]),
        1,
        &["wide: dtype differs", "expected float64, actual float32"],
    );
    check(folder.diff(&["wide.npy", "narrow.npy", "--cast", "float32"]), 0, &["1 agree"]);
    check(folder.diff(&["wide.npy", "narrow.npy", "--cast", "float8"]), 2, &["expected one of bool, uint8"]);
    check(
        folder.diff(&["wide.npy", "narrow.npy", "--cast", "complex64"]),
        2,
        &["`wide` of A cannot be cast"],
    );
}

/// A rotary table is complex, and so is its run in float64.
#[test]
fn a_complex_table_has_a_float64_floor() {
    let folder = Folder::new();
    let table = [[0.6f32, 0.8], [0.28, 0.96], [-1.0, 0.0], [0.0, -1.0]];
    let off = |by: f32| table.map(|[re, im]| [re + by, im]);
    folder.complex64("a/rope.npy", &table);
    folder.complex64("near/rope.npy", &off(1e-7));
    folder.complex64("far/rope.npy", &off(1e-5));
    folder.complex128("truth/rope.npy", &table.map(|[re, im]| [f64::from(re) + 3e-8, f64::from(im) - 4e-8]));
    let words = ["gate   noise 8, by the distance of A from `truth`", "1 agree"];
    check(folder.diff(&["a", "near", "--noise", "truth"]), 0, &words);
    check(folder.diff(&["a", "far", "--noise", "truth"]), 1, &["rope: value differs", "0 agree, 1 differ"]);
    check(folder.diff(&["truth", "truth"]), 0, &["1 agree, 0 differ"]);
}

#[test]
fn files_of_mlx_are_read_and_files_of_torch_get_advice() {
    let folder = Folder::new();
    folder.safetensors("mlx.safetensors", "null", &[("norm", &[5.])]);
    folder.safetensors("other.safetensors", "", &[("norm", &[5.])]);
    check(folder.diff(&["mlx.safetensors", "other.safetensors"]), 0, &["1 agree, 0 differ"]);
    fs::write(folder.path("model.pt"), b"PK").unwrap();
    let output = folder.diff(&["model.pt", "mlx.safetensors"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    let command =
        "torch.load('model.pt', map_location='cpu', weights_only=True).items()}, 'model.safetensors')\"`";
    assert!(text.contains("`model.pt` is not a tensor file") && text.contains(command), "{text}");
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn gates_come_from_numbers_policies_and_floors() {
    let folder = Folder::new();
    let base = [1f32, 2., 3., 4.];
    folder.npy("a/x.npy", &[4], &base);
    folder.npy("near/x.npy", &[4], &base.map(|x| x + 1e-6));
    folder.npy("far/x.npy", &[4], &base.map(|x| x + 1e-4));
    folder.npy64("truth/x.npy", &base.map(|x| f64::from(x) + 3e-7));
    let words = ["gate   atol 1e-3, rtol 0e0", "1 agree"];
    check(folder.diff(&["a", "far", "--rtol", "0", "--atol", "1e-3"]), 0, &words);
    check(folder.diff(&["a", "far", "--rtol", "0"]), 2, &["--atol"]);
    check(folder.diff(&["a", "far", "--rtol", "-1", "--atol", "0"]), 2, &[]);
    check(
        folder.diff(&["a", "far", "--policy", "fp16"]),
        0,
        &["gate   policy `fp16` (atol 1e-2, rtol 1e-2)"],
    );
    check(
        folder.diff(&["a", "far", "--policy", "fp61"]),
        2,
        &["error: policy `fp61` does not exist", "did you mean `fp16`"],
    );
    let words = ["gate   noise 8, by the distance of A from `truth`", "3.18x"];
    check(folder.diff(&["a", "near", "--noise", "truth"]), 0, &words);
    check(folder.diff(&["a", "far", "--noise", "truth"]), 1, &["x: value differs", "floor    rms "]);
    check(folder.diff(&["a", "near", "--noise", "truth", "--times", "2"]), 1, &["noise 2"]);
    check(
        folder.diff(&["a", "near", "--noise", "far"]),
        2,
        &["error: cannot measure the floor of `x`", "expected float64 of the same shape"],
    );
    folder.npy64("other/y.npy", &[1.0]);
    check(
        folder.diff(&["a", "near", "--noise", "other"]),
        2,
        &["error: `other` has no tensor `x` to measure the floor with"],
    );
}

#[test]
fn nan_agrees_with_nan_only_on_request() {
    let folder = Folder::new();
    folder.npy("a.npy", &[2], &[1., f32::NAN]);
    check(folder.diff(&["a.npy", "a.npy"]), 1, &["a: NaN or infinity differs\n"]);
    check(folder.diff(&["a.npy", "a.npy", "--nan-equal"]), 0, &["1 agree"]);
}

#[test]
fn a_fixture_set_brings_its_order_and_its_floors() {
    let folder = Folder::new();
    let repository = repository();
    let set = repository.join("fixtures/gated_mlp/block");
    let (set, goldens) = (set.to_str().unwrap(), set.join("goldens.safetensors"));
    let text = check(
        folder.diff(&[set, goldens.to_str().unwrap(), "--noise", set]),
        0,
        &["fixture set, 3 goldens", "order  the manifest's sequence", "by the floors of", "3 agree"],
    );
    let order: Vec<usize> = ["ok        norm", "ok        gated", "ok        out"]
        .iter()
        .map(|row| text.find(row).unwrap())
        .collect();
    assert!(order.is_sorted(), "{text}");
}

#[test]
fn what_cannot_be_read_is_one_clear_error() {
    let folder = Folder::new();
    folder.npy("a.npy", &[1], &[1.]);
    fs::write(folder.path("a.bin"), b"").unwrap();
    fs::write(folder.path("broken.npz"), b"PK rubbish").unwrap();
    fs::create_dir(folder.path("empty")).unwrap();
    let header = r#"{"x":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}}"#;
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0]].concat();
    fs::write(folder.path("eight.safetensors"), bytes).unwrap();
    for (side, words) in [
        ("none.npy", "error: `none.npy` does not exist\n"),
        ("a.bin", "error: `a.bin` is not a tensor file"),
        ("broken.npz", "error: `broken.npz`"),
        ("empty", "error: `empty` holds no tensors"),
        ("eight.safetensors", "error: tensor `x` of `eight.safetensors` holds 8-bit floats"),
    ] {
        let text = check(folder.diff(&["a.npy", side]), 2, &[words]);
        assert_eq!(text.matches("error").count(), 1, "{text}");
    }
    check(folder.diff(&["a.npy", "a.npy", "--rename", "x"]), 2, &["error: `--rename x` is not a rule"]);
    folder.npy("twice/x/y.npy", &[1], &[1.]);
    folder.npy("twice/x.y.npy", &[1], &[1.]);
    check(folder.diff(&["twice", "a.npy"]), 2, &["both have the tensor `x.y`"]);
    check(
        folder.diff(&["a.npy", "a.npy", "--json", "no/where.jsonl"]),
        2,
        &["error: cannot write `no/where.jsonl`"],
    );
}

#[test]
fn the_first_difference_is_diagnosed() {
    let folder = Folder::new();
    let (norm, gate): (Vec<f32>, Vec<f32>) = (
        (1..=12u8).map(|i| f32::from(i).sin()).collect(),
        (1..=12u8).map(|i| f32::from(i * i).cos()).collect(),
    );
    let halves: Vec<f32> = [&gate[6..], &gate[..6]].concat();
    folder.safetensors("a.safetensors", "", &[("1.norm", &norm), ("2.gate", &gate), ("3.out", &norm)]);
    folder.safetensors("b.safetensors", "", &[("1.norm", &norm), ("2.gate", &halves), ("3.out", &gate)]);
    check(
        folder.diff(&["a.safetensors", "b.safetensors"]),
        1,
        &[
            "2.gate: value differs\n  cause    the tensor in B is the golden with parts of axis 0 (2 in all) in another order: 1 in place of 0, 0 in place of 1",
            "look at  the order in which the fused projection is split",
        ],
    );
}
