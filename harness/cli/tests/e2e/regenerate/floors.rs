//! Floors: what a run of the reference measures, against what the committed set claims.

use std::fs;

use crate::shell_project::{Project, SCRIPT, SET};

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_reference_that_is_run_must_give_the_set_within_its_floors() {
    let project = Project::new();
    project.prints(1, &["--yes"], 0, &[]);
    let before = fs::metadata(project.path("fixtures/model/part")).unwrap().modified().unwrap();
    project.prints(
        1,
        &["--check", "--run"],
        0,
        &["2 goldens reproduced, 2 of them to the bit", "1 reproduced, 0 not"],
    );
    project.prints(
        2,
        &["--check", "--run"],
        1,
        &[
            "model/part: not reproduced",
            "golden `a`: ",
            "input `x` differs from the committed one",
            "0 reproduced, 1 not",
        ],
    );
    // Another processor gives other roundings: within the floor, but not the same bits.
    project.nudge(1, 4e-6);
    project.prints(1, &["--check", "--run"], 0, &["2 goldens reproduced, 1 of them to the bit"]);
    project.nudge(1, 1e-4);
    project.prints(1, &["--check", "--run"], 1, &["golden `a`: "]);
    assert_eq!(fs::metadata(project.path("fixtures/model/part")).unwrap().modified().unwrap(), before);
    assert_eq!(project.entries(), ["model"]);
    // A stale set is not run.
    project.script("exit 9\n");
    project.prints(1, &["--check", "--run"], 1, &["are stale", "0 reproduced, 1 not"]);
}

/// Whoever can write goldens can write checksums and floors too, so a run of the reference trusts neither.
#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_set_cannot_vouch_for_itself_by_its_floors() {
    let project = Project::new();
    let set = format!("fixtures/{SET}");
    // A golden that is far off, with correct checksums and a huge floor.
    project.make(&set, 1, 0.2, 1e3);
    project.prints(1, &["--check"], 0, &["1 current, 0 not"]);
    project.prints(
        1,
        &["--check", "--run"],
        1,
        &[
            "model/part: not reproduced",
            "golden `a`: rms error ",
            "golden `a`: its floor is 1.0e9x the measured one, at most 8x is allowed: max 1.0e3 with rms 1.0e2 is committed, \
             max 1.0e-6 with rms 1.0e-7 was measured now",
            "golden `b`: its floor is ",
            "0 reproduced, 1 not",
        ],
    );
    // Every golden is the same to the bit, and only floors grew.
    project.make(&set, 1, 0.0, 1e-3);
    project.prints(1, &["--check", "--run"], 1, &["golden `a`: its floor is 1000x the measured one"]);
    // A difference that other kernels can cause is reported, and so is a floor that shrank.
    project.make(&set, 1, 0.0, 3e-6);
    let changed = "note: golden `a`: its floor changed: max 3.0e-6 with rms 3.0e-7 is committed";
    project.prints(1, &["--check", "--run"], 0, &["2 goldens reproduced, 2 of them to the bit", changed]);
    project.make(&set, 1, 0.0, 1.5e-6);
    let text = project.prints(1, &["--check", "--run"], 0, &["1 reproduced, 0 not"]);
    assert!(!text.contains("note: "), "{text}");
    project.make("made/1", 1, 0.0, 1e-5);
    project.prints(1, &["--check", "--run"], 0, &["note: golden `a`: its floor changed: max 1.5e-6"]);
    // A floor that the run did not measure counts for nothing.
    project.write(
        "strip.sh",
        "sed 's/\"floor\":{[^}]*}/\"no_floor\":\"not in float64\"/g' $1 > $1.new && mv $1.new $1\n",
    );
    project.script(&format!("{SCRIPT}sh strip.sh \"$1/manifest.json\"\n"));
    project.make(&set, 1, 0.0, 1e-6);
    project.prints(
        1,
        &["--check", "--run"],
        1,
        &["golden `a`: it has a floor, but none was measured now: not in float64"],
    );
}

#[test]
fn a_floor_that_changes_is_shown_before_anything_is_replaced() {
    let project = Project::new();
    project.make(&format!("fixtures/{SET}"), 1, 0.0, 1e-6);
    project.make("made/1", 1, 0.0, 1e-4);
    let text = [
        "3 tensors: 2 with a different floor only, 1 the same, 2 floors grew",
        "golden a  a different floor, the same elements; its floor grew 100x",
        "  1.0e-4    1.0e-5\n",
    ];
    project.prints(1, &["--force"], 1, &text);
    project.make("made/1", 1, 0.1, 1e-8);
    project.prints(
        1,
        &["--force"],
        1,
        &["differs by up to 1.00e-1, 8.4e5x its floor", "; its floor shrank 100x"],
    );
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn recipes_belong_to_the_set_and_their_constants_judge_nothing() {
    let project = Project::new();
    let set = format!("fixtures/{SET}");
    project.add_recipes("made/1", 1.0);
    project.prints(1, &["--yes"], 0, &["1 new, 0 replaced"]);
    project.prints(1, &["--check", "--run"], 0, &["2 goldens reproduced, 2 of them to the bit"]);
    // Another processor may round a constant in another way.
    project.prepare(1);
    project.add_recipes("made/1", 2.0);
    project.prints(
        1,
        &["--check", "--run"],
        0,
        &["2 goldens reproduced", "its recipes differ from the committed ones"],
    );
    project.prints(1, &["--yes", "--force"], 0, &["constant c  differs by up to"]);
    // The files of recipes are the set's own, so a set without them can take its place.
    project.prepare(1);
    project.prints(1, &["--yes", "--force"], 0, &["1 replaced"]);
    assert!(!project.path(&format!("{set}/recipes.json")).exists());
    assert!(!project.path(&format!("{set}/constant.npy")).exists());
}
