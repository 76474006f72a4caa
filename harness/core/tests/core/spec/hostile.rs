//! Hostile YAML, and text that is no YAML: one clear problem, bounded work, no panic.

use std::fs;
use std::path::Path;

use mlx_parity_core::spec::{Policies, PoliciesState, Spec, SpecError, Specs, bounds, parse_spec};
use proptest::prelude::*;

fn policies() -> Policies {
    Policies {
        path: "policies.yaml".into(),
        named: Default::default(),
        bounds: Default::default(),
        state: PoliciesState::Missing,
    }
}

fn parse(source: &str) -> Result<Spec, SpecError> {
    parse_spec("model/part", Path::new("part.yaml"), source, &policies())
}

#[track_caller]
fn check(source: &str, expected: &str) {
    let error = parse(source).expect_err("it is refused");
    let found: Vec<String> = error.problems.iter().map(ToString::to_string).collect();
    assert_eq!(found, [expected]);
    assert!(error.render(true).len() < 20_000, "a message stays readable");
}

#[test]
fn syntax_errors_have_their_place() {
    check("version: [1", "1:10: unclosed bracket '['");
    check("version: 1\n\tport: x", "1:10: while scanning a plain scalar, found a tab");
    check("version: 1\nversion: 1", "2:1: key `version` appears twice: expected each key once in a mapping");
    check(
        "version: 1\n---\nversion: 1",
        "2:1: a second YAML document starts here: expected one document per file",
    );
    check("version: *nowhere", "1:10: alias references unknown anchor");
    check(
        "\u{feff}version: 1",
        "the file starts with a byte-order mark: save it as UTF-8 without a byte-order mark",
    );
    check("version: 1\nport: \"a\0b\"", "2:9: control character U+0000: remove it");
    check("version: 1\nport: a\u{1b}[31mb", "2:8: control character U+001B: remove it");
    check("version: !!python/object:os.system 1", "1:36: unsupported tag `!!python/object:os.system`");
    check("a: &a {x: 1}\nb: {<<: *a}", "2:5: found the merge key `<<`: expected the keys themselves");
    check("? [a, b]\n: 1", "1:3: found a list or a mapping as a key: expected text as a key");
    check("{{a: 1}: 2}", "1:2: found a list or a mapping as a key: expected text as a key");
    check(": : :", "1:1: found a key without text: expected text as a key");
    check("port: 'open", "1:7: unclosed quote");
}

#[test]
fn depth_is_bounded() {
    check(
        &"[".repeat(100_000),
        "1:256: lists and mappings are nested too deeply: expected at most 32 levels",
    );
    check(
        &format!("a: {}", "{a: ".repeat(100_000)),
        "1:128: lists and mappings are nested too deeply: expected at most 32 levels",
    );
    check(
        &"- ".repeat(100_000),
        "1:65: lists and mappings are nested too deeply: expected at most 32 levels",
    );
    let blocks: String = (0..1_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    check(&blocks, "33:33: lists and mappings are nested too deeply: expected at most 32 levels");
}

#[test]
fn alias_bombs_are_bounded() {
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let last = format!("*a{}", level - 1);
        laughs += &format!("a{level}: &a{level} [{}]\n", [last.as_str(); 10].join(", "));
    }
    check(&laughs, "5:10: aliases repeat too much: write the repeated part as a `for` loop");
    let flat = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), ["*a"; 900].join(", "));
    check(&flat, "2:165: the file has too much text: expected at most 4194304 bytes with aliases");
    check(
        &format!("a: &a x\nb: [{}]\n", ["*a"; 2_000].join(", ")),
        "2:4005: too many aliases or anchors: expected at most 1000",
    );
    check("a: &a [*a]", "1:8: the alias is inside the text that it repeats");
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn size_is_bounded() {
    check(
        &format!("a: [{}]", "1,".repeat(bounds::YAML_NODES + 1)),
        "1:399999: the file has too many values: expected at most 200000",
    );
    check(
        &format!(
            "about: {}\nversion: 1\nport: p\ncheckpoints: [{{name: x, shape: []}}]",
            "x".repeat(1 << 20)
        ),
        "1:8: found a text of 1048576 characters: expected at most 4000",
    );
    check(&format!("{}: 1", "k".repeat(5_000)), "1:5001: mapping values are not allowed in this context");
}

#[test]
fn files_that_are_no_specs() {
    let root = tempfile::tempdir().unwrap();
    let model = root.path().join("model");
    fs::create_dir(&model).unwrap();
    let check = |bytes: &[u8], expected: &str| {
        fs::write(model.join("part.yaml"), bytes).unwrap();
        let error = Specs::load_one(root.path(), "model/part").unwrap_err();
        let found: Vec<String> = error.problems.iter().map(ToString::to_string).collect();
        assert_eq!(found, [expected]);
        assert_eq!(Specs::load(root.path()).broken, [*error]);
    };
    check(b"version: 1\nport: \xff\xfe", "2:7: byte 0xff is not UTF-8: save the file as UTF-8");
    check(
        &vec![b'#'; bounds::FILE_BYTES + 1],
        "the file has more than 4194304 bytes: split the spec, or write \
        repeated checkpoints as `for` loops",
    );
    check(&b"\x00".repeat(100), "1:1: control character U+0000: remove it");
    check(b"", "1:1: found nothing: expected a spec, which is a mapping");
    fs::remove_file(model.join("part.yaml")).unwrap();
    fs::create_dir(model.join("part.yaml")).unwrap();
    let error = Specs::load_one(root.path(), "model/part").unwrap_err();
    assert_eq!(
        error.problems[0].to_string(),
        "the file cannot be read: it is a folder, expected a regular file"
    );
}

/// Pieces of specs, so that random texts get past the first line.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("version: 1\n"),
        Just("port: p\n"),
        Just("checkpoints:\n"),
        Just("  - name: x\n"),
        Just("    dtype: float32\n"),
        Just("    noise: 8\n"),
        Just("    for: {i: 0..3}\n"),
        Just("    when: "),
        Just("i % 2 == 0\n"),
        Just("  - {name: 'a.{i}', for: {i: [0, 7]}, shape: [n, 2]}\n"),
        Just("{i}"),
        Just("\""),
        Just("    layout: n c -> c n\n"),
        Just("&a "),
        Just("*a "),
        Just("- "),
        Just("  "),
        Just("\n"),
        Just("["),
        Just("]"),
        Just("{"),
        Just("}"),
        Just(": "),
        Just("#"),
        Just("|\n"),
        Just("1e999"),
        Just("-"),
        Just("é"),
        Just("\t"),
        Just("\r\n"),
        Just("!!str "),
        Just("<<: "),
        Just("..."),
        Just("---\n"),
        Just("99999999999999999999"),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Any text is read or refused, every position lies in the text, and every problem can be printed.
fn answers(source: &str) {
    match parse(source) {
        Ok(spec) => {
            assert!(!spec.checkpoints.is_empty());
            assert!(spec.checkpoints.iter().all(|checkpoint| checkpoint.line >= 1));
        }
        Err(error) => {
            assert!(!error.problems.is_empty());
            for place in error.problems.iter().filter_map(|problem| problem.place.as_ref()) {
                assert!(place.line <= source.lines().count() + 1, "{place:?}");
            }
            assert!(!error.render(source.len().is_multiple_of(2)).is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_text_gets_an_answer(source in any::<String>()) {
        answers(&source);
    }

    #[test]
    fn anything_like_a_spec_gets_an_answer(source in pieces()) {
        answers(&source);
    }

    #[test]
    fn any_condition_gets_an_answer(when in "[i0-9 ()!=<>&|+*/%-]{0,40}") {
        answers(&format!("version: 1\nport: p\ncheckpoints:\n- {{name: 'x.{{i}}', for: {{i: -3..3}}, shape: [], when: '{when}'}}"));
    }
}
