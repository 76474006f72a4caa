//! How specs and policies are found below a root, and how a broken one is printed.

use std::fs;
use std::path::Path;

use mlx_parity_core::spec::{Policies, PoliciesState, Specs};
use tempfile::TempDir;

const POLICIES: &str = include_str!("../../data/spec/root/policies.yaml");
const SPEC: &str = "version: 1\nport: p\ncheckpoints: [{name: x, shape: [2]}]\n";

fn root(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn ids(specs: &Specs) -> Vec<&str> {
    specs.specs.iter().map(|spec| spec.id.as_str()).collect()
}

fn broken(specs: &Specs) -> Vec<String> {
    specs.broken.iter().map(|error| format!("{}: {}", error.id, error.problems[0])).collect()
}

#[test]
fn specs_are_found_by_path_in_order() {
    let root = root(&[
        ("b/two.yaml", SPEC),
        ("b/one.yaml", SPEC),
        ("a/deep/er.yaml", SPEC),
        ("policies.yaml", POLICIES),
        ("schema.json", "{}"),
        ("README.md", "text"),
        ("b/notes.txt", "text"),
    ]);
    let specs = Specs::load(root.path());
    assert_eq!(ids(&specs), ["a/deep/er", "b/one", "b/two"]);
    assert_eq!(broken(&specs), [""; 0]);
    assert_eq!(specs.unreadable, None);
    let empty = tempfile::tempdir().unwrap();
    let specs = Specs::load(empty.path());
    assert!(specs.specs.is_empty() && specs.broken.is_empty() && specs.unreadable.is_none());
}

#[test]
fn files_in_the_wrong_place_or_under_the_wrong_name_are_reported() {
    let root = root(&[
        ("a/b.yml", SPEC),
        ("a/c.YAML", SPEC),
        ("a/d.yaml.bak", SPEC),
        ("a/e.Yaml~", SPEC),
        ("a/.f.yaml.swp", SPEC),
        ("a/yaml", SPEC),
        ("a/yaml.txt", SPEC),
        ("top.yaml", SPEC),
        ("a/with space.yaml", SPEC),
        ("a/.hidden.yaml", SPEC),
        ("1/2/3/4/5/6/7/8/9.yaml", SPEC),
        ("a/good.yaml", SPEC),
        ("a/bad.yaml", "version: 1"),
    ]);
    let specs = Specs::load(root.path());
    assert_eq!(ids(&specs), ["a/good"]);
    let layout = "expected `<model>/<component>.yaml`, of letters, digits, `_`, `-` and `.`";
    let characters = "the path has characters that a trial's name cannot have";
    let none = "it looks like a spec, but a spec's file name ends in `.yaml`: rename it to \
                `<component>.yaml`, or move it out of the spec root";
    let expected = [
        format!("1/2/3/4/5/6/7/8/9.yaml: the path is more than 8 folders deep: {layout}"),
        format!("a/.hidden.yaml: {characters}: {layout}"),
        format!("a/b.yml: {none}"),
        "a/bad: 1:1: key `port` is missing in a spec".to_owned(),
        format!("a/c.YAML: {none}"),
        format!("a/d.yaml.bak: {none}"),
        format!("a/e.Yaml~: {none}"),
        format!("a/with space.yaml: {characters}: {layout}"),
        format!("top.yaml: a spec must be in the folder of its model: {layout}"),
    ];
    assert_eq!(broken(&specs), expected);
}

#[test]
fn a_root_that_is_not_there_is_unreadable() {
    let root = tempfile::tempdir().unwrap();
    let specs = Specs::load(&root.path().join("none"));
    let error = specs.unreadable.unwrap();
    assert!(error.problems[0].message.starts_with("the spec root cannot be searched: "), "{error}");
}

#[test]
fn one_spec_is_read_without_the_others() {
    let root = root(&[("a/good.yaml", SPEC), ("a/bad.yaml", "version: ["), ("policies.yaml", POLICIES)]);
    assert_eq!(Specs::load_one(root.path(), "a/good").unwrap().id, "a/good");
    let refused = |id: &str| Specs::load_one(root.path(), id).unwrap_err().problems[0].to_string();
    assert_eq!(refused("a/goood"), "spec `a/goood` does not exist, did you mean `a/good`?");
    let name = "the path has characters that a trial's name cannot have: expected `model/component`";
    for id in ["../a/good", "a/../a/good", "/a/good", "a//good", "a/good/"] {
        assert_eq!(refused(id), format!("`{id}` cannot be a spec's name: {name}"));
    }
}

#[cfg(unix)]
#[test]
fn links_that_leave_the_root_are_refused() {
    use std::os::unix::fs::symlink;
    let outside = root(&[("x/spec.yaml", SPEC)]);
    let root = root(&[("a/good.yaml", SPEC)]);
    symlink(outside.path().join("x/spec.yaml"), root.path().join("a/out.yaml")).unwrap();
    symlink(root.path().join("a/good.yaml"), root.path().join("a/in.yaml")).unwrap();
    symlink(outside.path().join("x"), root.path().join("folder")).unwrap();
    symlink(root.path().join("nowhere"), root.path().join("a/gone.yaml")).unwrap();
    let specs = Specs::load(root.path());
    assert_eq!(ids(&specs), ["a/good", "a/in"]);
    let expected = [
        "a/gone: spec `a/gone` does not exist, did you mean `a/good`?",
        "a/out: the file is outside the spec root: expected no link to a place outside",
        "folder: the folder is a symbolic link, which is not followed: put the specs here",
    ];
    assert_eq!(broken(&specs), expected);
    assert!(Specs::load_one(root.path(), "folder/spec").is_err());
    assert!(Specs::load_one(root.path(), "a/out").is_err());
}

const GATED: &str = "version: 1
port: p
reference: {script: s.py}
checkpoints:
- {name: x, dtype: float32, policy: fp32}
- {name: y, dtype: float32, rtol: 1e-6, atol: 0}
- {name: z, dtype: float32, noise: 8}
";

#[test]
fn without_policies_nothing_is_assumed() {
    let root = root(&[("a/b.yaml", GATED)]);
    let file = root.path().join("policies.yaml");
    let problems: Vec<String> =
        Specs::load(root.path()).broken[0].problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            format!(
                "5:37: policy `fp32` is used, but `{}` does not exist: write policies.yaml, or give `rtol` and `atol` here",
                file.display()
            ),
            format!(
                "6:35: nothing bounds this tolerance: `{}` does not exist: expected a tighter gate, or the reason in `why`",
                file.display()
            ),
        ]
    );
}

#[test]
fn broken_policies_are_reported_once_and_by_every_spec_that_needs_them() {
    let root = root(&[("a/b.yaml", GATED), ("a/c.yaml", SPEC), ("policies.yaml", "version: 1\npolicies: [")]);
    let specs = Specs::load(root.path());
    assert_eq!(specs.policies.state, PoliciesState::Broken);
    assert_eq!(ids(&specs), ["a/c"]);
    let file = root.path().join("policies.yaml");
    let expected = [
        "policies: 2:11: unclosed bracket '['".to_owned(),
        format!(
            "a/b: 5:37: policy `fp32` cannot be looked up: `{}` has problems of its own, fix it first",
            file.display()
        ),
    ];
    assert_eq!(broken(&specs), expected);
    assert_eq!(specs.broken[1].problems.len(), 1);
}

#[test]
fn policies_have_rules_of_their_own() {
    let check = |text: &str, expected: &[&str]| {
        let root = root(&[("policies.yaml", text)]);
        let (_, error) = Policies::load(root.path());
        let found: Vec<String> =
            error.map_or_else(Vec::new, |error| error.problems.iter().map(ToString::to_string).collect());
        assert_eq!(found, expected, "{text}");
    };
    check("version: 1\npolicies: {}", &[]);
    check("version: 2\npolicies: {}", &["1:10: found version 2: expected 1"]);
    check("version: 1", &["1:1: key `policies` is missing in a policy file"]);
    check("version: 1\npolicies: {a: {rtol: 0, atol: 0}}", &["2:15: key `dtypes` is missing in a policy"]);
    check(
        "version: 1\npolicies: {a: {rtol: -1, atol: .nan, dtypes: []}}",
        &[
            "2:22: found -1: expected a finite number, 0 or more",
            "2:32: found NaN: expected a finite number, 0 or more",
        ],
    );
    check(
        "version: 1\npolicies: {a-b: {rtol: 0, atol: 0, dtypes: []}}",
        &["2:12: policy `a-b` is not a valid name: expected letters, digits and `_`, and no digit first"],
    );
    check(
        "version: 1\npolicies: {a: {rtol: 0, atol: 0, dtypes: [], abuot: x}}",
        &[
            "2:46: unknown key `abuot` in a policy, did you mean `about`? expected one of `rtol`, `atol`, `dtypes`, `about`",
        ],
    );
    check(
        "version: 1\nbounds: {float32: fp23, float3: x}\npolicies: {fp32: {rtol: 0, atol: 0, dtypes: []}}",
        &[
            "2:25: unknown dtype `float3`, did you mean `float32` or `float16` or `float64`? expected one of `bool`, \
         `uint8`, `uint16`, `uint32`, `uint64`, `int8`, `int16`, `int32`, `int64`, `float16`, `bfloat16`, `float32`, \
         `float64`, `complex64`",
        ],
    );
    check(
        "version: 1\nbounds: {float32: fp23}\npolicies: {fp32: {rtol: 0, atol: 0, dtypes: []}}",
        &["2:19: unknown policy `fp23`, did you mean `fp32`? expected one of those under `policies`"],
    );
}

#[test]
fn the_bundled_policies_are_the_seeds_and_torchs() {
    let root = crate::repository().join("parity-specs");
    let (policies, error) = Policies::load(&root);
    assert_eq!(error, None);
    let expected = [
        ("exact", 0.0, 0.0),
        ("fp32", 1e-5, 1e-5),
        ("fp16", 1e-2, 1e-2),
        ("bf16", 1e-2, 1e-2),
        ("quantized", 1e-2, 1e-10),
        ("torch_float16", 1e-3, 1e-5),
        ("torch_bfloat16", 1.6e-2, 1e-5),
        ("torch_float32", 1.3e-6, 1e-5),
        ("torch_float64", 1e-7, 1e-7),
        ("torch_complex64", 1.3e-6, 1e-5),
    ];
    for (name, rtol, atol) in expected {
        let policy = &policies.named[name];
        assert_eq!((policy.rtol, policy.atol), (rtol, atol), "{name}");
    }
    assert_eq!(policies.named.len(), expected.len());
    for dtype in mlx_parity_core::tensor::Dtype::ALL {
        let (name, policy) = policies.bound(dtype).unwrap_or_else(|| panic!("{dtype} has a bound"));
        assert!(policy.dtypes.contains(&dtype), "{dtype} is bounded by {name}, which is not meant for it");
    }
}

#[test]
fn a_broken_spec_is_shown_with_its_lines_and_pointers() {
    let text = "version: 1\nport: p\ncheckpoints:\n  - name: x\n    dtype: float32\n    rtoll: 1e-5\n  - name: x\n    shape: [2]\n";
    let (policies, _) = Policies::load(Path::new("none"));
    let error =
        mlx_parity_core::spec::parse_spec("a/b", Path::new("specs/a/b.yaml"), text, &policies).unwrap_err();
    assert_eq!(error.to_string(), include_str!("../../data/spec/shown.txt").trim_end());
    let coloured = error.render(true);
    assert!(coloured.contains("\x1b["));
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some(at) = rest.find('\x1b') {
        plain += &rest[..at];
        rest = rest[at..].split_once('m').unwrap().1;
    }
    assert_eq!(plain + rest, error.to_string(), "colour changes nothing else");
}

#[test]
fn long_lines_and_long_lists_of_problems_are_cut() {
    let (policies, _) = Policies::load(Path::new("none"));
    let show = |text: &str| {
        mlx_parity_core::spec::parse_spec("a/b", Path::new("b.yaml"), text, &policies)
            .unwrap_err()
            .to_string()
    };
    let entries: String = (0..5_000).map(|n| format!("{{name: x{n}, range: [0, 1], why: é}}, ")).collect();
    let long = format!("version: 1\nport: p\ncheckpoints: [{entries}{{name: y, shape: [2], shap: 1}}]");
    let shown = show(&long);
    assert!(shown.contains("unknown key `shap`") && shown.len() < 2_000, "{shown}");
    let column = long.lines().last().unwrap().chars().count() - "shap: 1}]".len() + 1;
    assert!(shown.contains(&format!("--> b.yaml:3:{column}")), "{shown}");
    let many = format!(
        "version: 1\nport: p\n{}checkpoints: [{{name: x, shape: []}}]",
        (0..50).map(|n| format!("k{n}: 1\n")).collect::<String>()
    );
    let shown = show(&many);
    assert_eq!(shown.matches("error: ").count(), 20);
    assert!(shown.ends_with("note: 30 more problems in `b.yaml`"), "{shown}");
}
