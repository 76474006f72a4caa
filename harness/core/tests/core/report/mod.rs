//! Reports of run folders that are made up.

mod made_run;

use std::path::Path;

use mlx_parity_core::report::{
    against_text, annotations, chrome_trace, step_summary, write_html, write_reports,
};
use mlx_parity_core::results::{Against, ExpectedSpecs, RunResults};
use mlx_parity_core::spec::Inject;
use serde_json::Value;

use made_run::{MadeSpec, many, three_red_specs, write_run};

fn read(folder: &Path) -> RunResults {
    RunResults::read(folder, ExpectedSpecs::Everything).unwrap()
}

fn made(specs: &[MadeSpec]) -> (tempfile::TempDir, RunResults) {
    let home = tempfile::tempdir().unwrap();
    let results = read(&write_run(home.path(), "one", specs));
    (home, results)
}

fn page(results: &RunResults, against: Option<&Against<'_>>) -> String {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("page.html");
    write_html(&path, results, against).unwrap();
    std::fs::read_to_string(path).unwrap()
}

/// The results inside a page.
fn data(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

fn row<'a>(data: &'a Value, spec: &str, name: &str) -> &'a Value {
    let specs = data["specs"].as_array().unwrap();
    let rows = specs.iter().find(|found| found["id"] == spec).unwrap()["rows"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap()
}

#[test]
fn nothing_that_comes_from_a_file_can_become_markup() {
    let hostile = "</script><script>alert(1)</script><!-- \" ' & \u{202e}";
    let specs = [MadeSpec {
        about: hostile,
        ..MadeSpec::new("made/hostile", "  - {name: a, dtype: float32, noise: 8}\n", Some(0))
    }];
    let (_home, results) = made(&specs);
    let page = page(&results, None);
    assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (2, 2));
    assert!(!page.contains("<!--") && !page.contains('\u{202e}'));
    assert_eq!(data(&page)["specs"][0]["about"], hostile, "the script gets the text as it is");
    // The source that the page quotes has markup, too.
    let source = &data(&page)["specs"][0]["rows"][0]["detail"]["port"]["lines"];
    assert!(source.to_string().contains("</script><b>"), "{source}");
    assert!(page.contains("default-src 'none'"), "the page may not load anything");
}

#[test]
fn a_red_checkpoint_has_everything_that_its_details_show() {
    let (_home, results) = made(&three_red_specs());
    let data = data(&page(&results, None));
    assert_eq!(data["verdict"], "red");
    let faulty = &data["specs"][0];
    assert_eq!(
        (faulty["id"].as_str(), faulty["faulty"].as_str()),
        (Some("made/decoder"), Some("layers.4.attn.out"))
    );
    assert!(faulty["sentence"].as_str().unwrap().contains("eps 1e-5 in place of 1e-6"), "{faulty}");
    let red = row(&data, "made/decoder", "layers.4.attn.out");
    let detail = &red["detail"];
    assert_eq!((&detail["faulty"], &detail["red_on_golden_inputs"]), (&true.into(), &true.into()));
    assert!(detail["causes"][0]["next"].as_str().unwrap().contains("eps"), "{detail}");
    assert_eq!(detail["rerun"], "cargo test --test parity -- --exact made/decoder::layers.4.attn.out");
    assert_eq!(detail["reference"]["file"], "pkg/modeling_x.py");
    let map = &detail["error"]["heat_map"];
    assert_eq!((&map["rows_axis"], &map["columns_axis"]), (&1.into(), &2.into()), "{map}");
    assert_eq!(detail["error"]["histogram"]["equal"], 96);
    assert_eq!(detail["error"]["first_actual"].as_array().unwrap().len(), 32);
    assert!(
        !detail["worst"].as_array().unwrap().is_empty() && !detail["numbers"].as_array().unwrap().is_empty()
    );
    let later = row(&data, "made/decoder", "layers.3.mlp.out");
    assert_eq!(later["detail"]["red_on_golden_inputs"], false);
    assert!(later["local_used"].as_f64().unwrap() < 1.0 && later["used"].as_f64().unwrap() > 1.0);
    let pixels = row(&data, "made/picture", "pixels");
    assert!(
        pixels["detail"]["pictures"]["diff"].as_str().unwrap().starts_with("data:image/png;base64,iVBOR")
    );
    let green = row(&data, "made/decoder", "embed");
    assert!(green["detail"].is_null() && green["used"].as_f64().unwrap() < 1.0, "{green}");
}

#[test]
fn rows_are_the_declared_trials_and_the_counts_add_up() {
    let (_home, results) = made(&three_red_specs());
    let data = data(&page(&results, None));
    let rows: usize =
        data["specs"].as_array().unwrap().iter().map(|spec| spec["rows"].as_array().unwrap().len()).sum();
    let count = |name: &str| data["counts"][name].as_u64().unwrap() as usize;
    assert_eq!(rows, count("declared"));
    let parts = ["passed", "failed", "ignored", "pending", "not_gated"];
    assert_eq!(parts.iter().map(|part| count(part)).sum::<usize>(), rows);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_page_of_ten_thousand_red_checkpoints_stays_small() {
    let (_home, results) = made(&many(Some(3)));
    let page = page(&results, None);
    assert!(page.len() < 8 << 20, "{} bytes", page.len());
    let data = data(&page);
    assert_eq!(data["specs"][0]["rows"].as_array().unwrap().len(), 10_001, "with the trial of the fixtures");
    assert!(data["without_details"].as_u64().unwrap() > 9000);
    assert!(
        !row(&data, "made/large", "layers.0.3")["detail"].is_null(),
        "the first faulty stage has its details"
    );
}

#[test]
fn an_injected_run_says_so_on_its_page_and_in_the_summary() {
    let mut specs = three_red_specs();
    specs[3].inject = Inject::All;
    let (_home, results) = made(&specs);
    assert_eq!(data(&page(&results, None))["injected"], true);
    assert!(step_summary(&results).contains("**INJECTED**"));
}

#[test]
fn one_run_against_another_lists_what_turned_red_first() {
    let home = tempfile::tempdir().unwrap();
    let mut specs = three_red_specs();
    specs[0].faulty = None;
    let before = read(&write_run(home.path(), "before", &specs));
    let now = read(&write_run(home.path(), "now", &three_red_specs()));
    let against = Against { name: "before", before: &before, now: &now };
    let text = against_text(&against, false);
    let first = text.lines().find(|line| line.starts_with("  now red")).unwrap();
    assert!(first.contains("made/decoder::"), "{text}");
    assert!(text.contains("outcome ok -> value, used ") && text.contains("peak memory"), "{text}");
    assert_eq!(text.matches("revision 0123456789ab, with changes").count(), 2, "both environments: {text}");
    let data = data(&page(&now, Some(&against)));
    assert_eq!(data["against"]["name"], "before");
    let changed = row(&data, "made/decoder", "layers.4.attn.out");
    assert_eq!(
        (changed["before"]["status"].as_str(), changed["status"].as_str()),
        (Some("pass"), Some("fail"))
    );
    let same = Against { name: "itself", before: &now, now: &now };
    assert!(against_text(&same, false).contains("the same outcome and the same numbers"));
}

#[test]
fn a_trace_has_the_shape_that_perfetto_reads() {
    let (_home, results) = made(&three_red_specs());
    let trace: Value = serde_json::from_str(&chrome_trace(&results).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let slices: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X" && event["tid"] == 1).collect();
    assert_eq!(slices.len(), 37, "one slice per checkpoint of the first spec");
    for pair in slices.windows(2) {
        let end = pair[0]["ts"].as_f64().unwrap() + pair[0]["dur"].as_f64().unwrap();
        assert!((end - pair[1]["ts"].as_f64().unwrap()).abs() < 1e-6, "slices follow each other");
    }
    assert_eq!(slices[0]["dur"], 250.0, "in microseconds");
    assert!(events.iter().any(|event| event["ph"] == "M" && event["args"]["name"] == "made/decoder"));
    assert!(events.iter().any(|event| event["ph"] == "C" && event["args"]["active"] == 1 << 20));
}

#[test]
fn github_gets_one_annotation_per_red_spec_and_folded_ladders() {
    let (_home, results) = made(&three_red_specs());
    let lines = annotations(&results, |file| Some(format!("port/{file}")));
    assert_eq!(lines.len(), 3, "{lines:#?}");
    assert!(
        lines[0].starts_with("::error file=port/src/model.rs,line=57,title=made/decoder%3A%3Alayers.4.attn.out%3A value differs::the first"),
        "{}",
        lines[0]
    );
    let unknown = annotations(&results, |_| None);
    assert!(unknown[0].starts_with("::error title=made/decoder"), "{}", unknown[0]);
    let summary = step_summary(&results);
    assert_eq!((summary.matches("<details>").count(), summary.matches("</details>").count()), (4, 4));
    let (red, green) =
        (summary.find("❌ <code>made/decoder").unwrap(), summary.find("✅ <code>made/green").unwrap());
    assert!(red < green, "{summary}");
    let specs: Vec<MadeSpec> =
        ["a/a", "a/b", "a/c", "a/d", "a/e", "a/f", "a/g", "a/h", "a/i", "a/j", "a/k", "a/l"]
            .iter()
            .map(|id| MadeSpec::new(id, "  - {name: a, dtype: float32, noise: 8}\n", Some(0)))
            .collect();
    let (_home, results) = made(&specs);
    let lines = annotations(&results, |_| None);
    assert_eq!(lines.len(), 11);
    assert!(lines[10].contains("2 more problems"), "{}", lines[10]);
}

#[test]
fn backwards_is_from_the_pixels_to_the_text() {
    let (_home, mut results) = made(&three_red_specs());
    results.backwards();
    let ids: Vec<&str> = results.specs.iter().map(|spec| spec.id.as_str()).collect();
    assert_eq!(ids, ["made/picture", "made/green", "made/decoder", "made/encoder"]);
}

#[test]
fn every_report_of_a_run_is_written_and_junit_has_files() {
    let (home, results) = made(&three_red_specs());
    let folder = home.path().join("runs/one");
    write_reports(&folder, &results).unwrap();
    for file in ["report.txt", "report.html", "junit.xml", "trials.jsonl"] {
        assert!(folder.join(file).is_file(), "{file}");
    }
    let junit = std::fs::read_to_string(folder.join("junit.xml")).unwrap();
    let case = junit.lines().find(|line| line.contains("name=\"layers.4.attn.out\"")).unwrap();
    for attribute in ["classname=\"made/decoder\"", "file=\"src/model.rs\"", "line=\"57\"", "time=\""] {
        assert!(case.contains(attribute), "{case} has no {attribute}");
    }
}

#[test]
#[ignore = "tests/browser/run starts it, with a folder for the pages in PARITY_PAGES"]
fn pages_for_the_browser() {
    let folder = std::path::PathBuf::from(std::env::var_os("PARITY_PAGES").unwrap());
    let home = tempfile::tempdir().unwrap();
    let mut earlier = three_red_specs();
    earlier[0].faulty = None;
    let before = read(&write_run(home.path(), "before", &earlier));
    let now = read(&write_run(home.path(), "now", &three_red_specs()));
    write_html(&folder.join("red.html"), &now, None).unwrap();
    let against = Against { name: "before", before: &before, now: &now };
    write_html(&folder.join("against.html"), &now, Some(&against)).unwrap();
    let large = read(&write_run(home.path(), "large", &many(Some(6000))));
    write_html(&folder.join("large.html"), &large, None).unwrap();
    let green = read(&write_run(home.path(), "green", &many(None)));
    write_html(&folder.join("green.html"), &green, None).unwrap();
}
