//! `fixtures list`, `info` and `rm`: the gated MLP of this repository, and a set that no spec uses.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::command::{CARGO_TOML, GATED_MLP, cargo_parity, check, copy_from_repository, prints};

const SPEC: &str = "parity-specs/gated_mlp/block.yaml";
const SET: &str = "fixtures/gated_mlp/block";
const ORPHAN: &str = "fixtures/gated_mlp/old";

/// The gated MLP, with a copy of its set that no spec uses.
struct Project(tempfile::TempDir);

impl Project {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        copy_from_repository(&GATED_MLP, root.path());
        fs::create_dir_all(root.path().join("tests")).unwrap();
        fs::write(root.path().join("tests/parity.rs"), "fn main() {}\n").unwrap();
        fs::write(root.path().join("Cargo.toml"), CARGO_TOML).unwrap();
        let project = Self(root);
        fs::create_dir(project.path(ORPHAN)).unwrap();
        for entry in fs::read_dir(project.path(SET)).unwrap().map(Result::unwrap) {
            fs::copy(entry.path(), project.path(ORPHAN).join(entry.file_name())).unwrap();
        }
        project
    }

    fn path(&self, file: &str) -> std::path::PathBuf {
        self.0.path().join(file)
    }

    /// Removes the line of the spec that declares this checkpoint.
    fn undeclare(&self, checkpoint: &str) {
        let text = fs::read_to_string(self.path(SPEC)).unwrap();
        let kept: Vec<&str> =
            text.lines().filter(|line| !line.contains(&format!("name: {checkpoint},"))).collect();
        assert!(kept.len() < text.lines().count());
        fs::write(self.path(SPEC), kept.join("\n")).unwrap();
    }

    #[track_caller]
    fn prints(&self, arguments: &[&str], code: i32, words: &[&str]) -> String {
        check(
            cargo_parity(self.0.path(), &[&["fixtures"], arguments].concat()).output().unwrap(),
            code,
            words,
        )
    }

    fn files(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten().map(Result::unwrap);
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

#[test]
fn the_list_has_sizes_and_states() {
    let project = Project::new();
    let text = project.prints(
        &["list"],
        1,
        &["gated_mlp/old: no spec uses it; remove it with `cargo parity fixtures rm`"],
    );
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["set", "goldens", "tensors", "size", "age", "state"]);
    assert_eq!((lines[1][0], lines[1][1], lines[1][2]), ("gated_mlp/block", "3", "9"));
    assert_eq!((lines[1].last(), lines[2].last()), (Some(&"current"), Some(&"orphan")));
    prints(&text, &["\n2 sets, ", ": 1 current, 1 orphan\n"]);
    project.prints(&["list", "block"], 0, &["\n1 set, "]);

    let script = project.path("exporter/references/gated_mlp_block.py");
    fs::write(&script, fs::read_to_string(&script).unwrap() + "# another\n").unwrap();
    fs::write(
        project.path("parity-specs/gated_mlp/far.yaml"),
        fs::read_to_string(project.path(SPEC)).unwrap(),
    )
    .unwrap();
    let text = project.prints(&["list", "--json"], 1, &[]);
    let sets: Value = serde_json::from_str(&text).unwrap();
    let states: Vec<(&str, &str)> = sets
        .as_array()
        .unwrap()
        .iter()
        .map(|set| (set["set"].as_str().unwrap(), set["state"].as_str().unwrap()))
        .collect();
    assert_eq!(
        states,
        [("gated_mlp/block", "stale"), ("gated_mlp/far", "missing"), ("gated_mlp/old", "orphan")]
    );
    assert!(
        sets[0]["problem"]
            .as_str()
            .unwrap()
            .contains("the content of `exporter/references/gated_mlp_block.py` changed")
    );

    fs::write(project.path("parity-specs/gated_mlp/far.yaml"), "version: 1\n").unwrap();
    project.prints(
        &["list", "old"],
        1,
        &["unknown", "no readable spec uses it, but some specs cannot be read"],
    );
    project.prints(
        &["rm", "gated_mlp/old", "--yes"],
        1,
        &["1 spec cannot be read, so whether one of them uses `gated_mlp/old` is unknown"],
    );
}

/// Writes into the manifest that the floor of `gated` was measured in one block.
pub(crate) fn make_local(project: &Path) {
    let path = project.join(SET).join("manifest.json");
    let text = fs::read_to_string(&path).unwrap();
    let at = text.find("\"name\": \"gated\", \"role\": \"golden\"").unwrap();
    let (before, golden) = text.split_at(at);
    fs::write(
        &path,
        before.to_owned() + &golden.replacen("\"floor\":", "\"floor_block\": \"mlp\", \"floor\":", 1),
    )
    .unwrap();
}

#[test]
fn a_local_floor_is_shown_with_its_block() {
    let project = Project::new();
    make_local(project.0.path());
    let text = project.prints(&["info", "gated_mlp/block"], 0, &["(floor of `mlp` alone) "]);
    assert_eq!(text.matches("alone)").count(), 1, "{text}");
    let text = project.prints(&["info", "gated_mlp/block", "--json"], 0, &[]);
    let set: Value = serde_json::from_str(&text).unwrap();
    let golden = set["tensors"].as_array().unwrap().iter().find(|one| one["name"] == "gated").unwrap();
    assert_eq!(golden["floor_block"], "mlp");
}

#[test]
fn a_set_is_described_with_statistics_and_what_made_it() {
    let project = Project::new();
    let text = project.prints(
        &["info", "gated_mlp/block"],
        0,
        &[
            "gated_mlp/block  current\n",
            "  used by   gated_mlp/block\n",
            "  made by   exporter/references/gated_mlp_block.py\n",
            "  versions  Python 3.11.7, numpy 2.4.6, safetensors 0.8.0 on linux x86_64\n",
            "  passes    native, float64, other draws\n",
            "  tensors   3 goldens, 1 input, 5 weights\n",
        ],
    );
    let out = text.lines().find(|line| line.starts_with("  golden    out ")).unwrap();
    prints(
        out,
        &[
            "float32 [1, 6, 32]",
            " 768 bytes ",
            "4.2e-7",
            "exporter/references/gated_mlp_block.py:reference:29",
        ],
    );
    assert!(!out.contains(" - "), "every statistic is known: {out}");
    let text = project.prints(
        &["info", "gated_mlp/old", "norm", "--no-stats"],
        0,
        &["gated_mlp/old  orphan\n", "(undeclared)"],
    );
    assert!(!text.contains("gate.weight"), "{text}");
    let text = project.prints(&["info", "gated_mlp/block", "--json"], 0, &[]);
    let set: Value = serde_json::from_str(&text).unwrap();
    let golden = &set["tensors"].as_array().unwrap().iter().find(|one| one["name"] == "out").unwrap();
    assert_eq!((&golden["bytes"], &golden["declared"]), (&768.into(), &true.into()));
    assert!(golden["stats"]["min"].as_f64().unwrap() < golden["stats"]["max"].as_f64().unwrap());
    project.prints(
        &["info", "gated_mlp/blok"],
        1,
        &["no spec and no fixture set is called `gated_mlp/blok`", "gated_mlp/block"],
    );
}

#[test]
fn executed_files_are_ranked_by_calls() {
    let project = Project::new();
    let path = project.path(SET).join("manifest.json");
    let mut manifest: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    manifest["provenance"]["executed"] = serde_json::json!({"pkg/a.py": 3, "pkg/b.py": 40, "pkg/c.py": 3});
    manifest["provenance"]["sources"] = serde_json::json!({"pkg/c.py": {"hooked": ["Block", "norm"]}});
    fs::write(&path, manifest.to_string()).unwrap();
    let text = project.prints(&["info", "gated_mlp/block"], 0, &[]);
    let ranked =
        "most calls first\n       40  pkg/b.py\n        3  pkg/a.py\n        3  pkg/c.py  Block, norm\n";
    assert!(text.ends_with(ranked), "{text}");
}

#[test]
fn only_an_orphan_is_removed_and_only_with_consent() {
    let project = Project::new();
    project.prints(
        &["rm", "gated_mlp/block", "--yes"],
        1,
        &["spec `gated_mlp/block` uses the fixtures `gated_mlp/block`"],
    );
    project.prints(
        &["rm", "gated_mlp/old"],
        1,
        &["there is no terminal to ask on; nothing was removed", "--yes"],
    );
    project.prints(
        &["rm", "gated_mlp/old", "--dry-run"],
        0,
        &["would remove fixtures `gated_mlp/old`, ", " in 5 files\n"],
    );
    assert_eq!(project.files(ORPHAN).len(), 5);
    for (file, shown) in
        [("notes.txt", "`notes.txt`"), (".hidden", "`.hidden`"), ("deep/mine.npy", "`deep/`")]
    {
        let path = project.path(ORPHAN).join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "mine").unwrap();
        let words = format!("contains files that are not part of the set and would be lost: {shown}");
        project.prints(&["rm", "gated_mlp/old", "--yes"], 1, &[&words, "nothing was changed"]);
        fs::remove_file(&path).unwrap();
    }
    fs::remove_dir(project.path(ORPHAN).join("deep")).unwrap();
    project.prints(&["rm", "gated_mlp/old", "--yes"], 0, &["removed fixtures `gated_mlp/old`, "]);
    assert_eq!(project.files("fixtures"), ["gated_mlp"]);
    assert_eq!(project.files("fixtures/gated_mlp"), ["block"]);
    project.prints(&["list"], 0, &["1 set, ", ": 1 current\n"]);
}

#[test]
fn the_folder_of_a_model_goes_with_its_last_set() {
    let project = Project::new();
    fs::create_dir(project.path("fixtures/other")).unwrap();
    fs::rename(project.path(ORPHAN), project.path("fixtures/other/set")).unwrap();
    project.prints(&["rm", "other/set", "--yes"], 0, &["removed fixtures `other/set`"]);
    assert_eq!(project.files("fixtures"), ["gated_mlp"]);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn tensors_that_no_spec_declares_are_removed_and_the_rest_stays_whole() {
    let project = Project::new();
    let remove = ["rm", "gated_mlp/block", "gated", "--yes"];
    project.prints(&remove, 1, &["spec `gated_mlp/block` declares `gated`"]);
    project.undeclare("gated");
    project.prints(&["list", "block"], 0, &["current, 1 golden undeclared"]);
    let lines = |project: &Project, file: &str| -> Vec<String> {
        let text = fs::read_to_string(project.path(SET).join(file)).unwrap();
        text.lines().map(|line| line.trim_end_matches(',').to_owned()).collect()
    };
    let (manifest, recipes) = (lines(&project, "manifest.json"), lines(&project, "recipes.json"));
    project.prints(
        &["rm", "gated_mlp/block", "gatd", "--yes"],
        1,
        &["`gated_mlp/block` has no golden and no input `gatd`", "gated"],
    );
    project.prints(
        &["rm", "gated_mlp/block", "gated", "--dry-run"],
        0,
        &["would remove golden `gated` from fixtures `gated_mlp/block`"],
    );
    project.prints(&remove, 0, &["removed golden `gated` from fixtures `gated_mlp/block`\n"]);
    project.prints(&["list", "block"], 0, &["1 current\n"]);
    let text = project.prints(&["info", "gated_mlp/block"], 0, &["2 goldens, 1 input, 5 weights"]);
    assert!(!text.contains("gated "), "{text}");
    // The lines of the other tensors are as they were.
    let gone = |before: &[String], after: &[String]| -> Vec<String> {
        before.iter().filter(|line| !after.contains(line)).cloned().collect()
    };
    let gone_recipes = gone(&recipes, &lines(&project, "recipes.json"));
    assert_eq!(gone_recipes, ["  \"gated\": 18"]);
    let gone_manifest = gone(&manifest, &lines(&project, "manifest.json"));
    assert_eq!(gone_manifest.len(), 2, "the tensor, and the checksum of the recipes: {gone_manifest:?}");
    assert_eq!(project.files("fixtures"), ["gated_mlp"], "nothing is left beside the sets");
    check(
        cargo_parity(project.0.path(), &["lint"]).output().unwrap(),
        1,
        &["no spec uses the fixtures `gated_mlp/old`", ": 1 error\n"],
    );
}

#[test]
fn an_input_that_the_recipe_uses_stays() {
    let project = Project::new();
    let text = fs::read_to_string(project.path(SPEC)).unwrap().replace("inputs: [x]\n", "");
    fs::write(project.path(SPEC), text).unwrap();
    project.prints(
        &["rm", "gated_mlp/block", "x", "--yes"],
        1,
        &["the recipe of `gated_mlp/block` uses the input `x`"],
    );
    assert!(Path::new(&project.path(SET)).join("inputs.safetensors").exists());
}
