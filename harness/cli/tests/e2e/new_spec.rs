//! `cargo xtask new-spec` writes specs that can be read, and Python scripts that name what to fill in.

use std::fs;
use std::process::Command;

use mlx_parity_core::spec::Specs;

use crate::command::{ended, prints};
use crate::shell_project::Project;

const TEMPLATES: [&str; 10] = [
    "vae",
    "transformer",
    "llm",
    "text_encoder",
    "scheduler",
    "log_mel",
    "stft",
    "image",
    "tokenizer",
    "blank",
];

#[track_caller]
fn new_spec(project: &Project, arguments: &[&str], code: i32, words: &[&str]) {
    let (found, text) = ended(project.command(&["new-spec"]).args(arguments).output().unwrap());
    assert_eq!(found, code, "{text}");
    prints(&text, words);
}

/// A parity_export that only calls the function, so that no NumPy is needed.
const EXPORTER: &str =
    "import inspect, sys\ndef main(reference, **options):\n    reference(None)\n    sys.exit(0)\n";

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn every_template_can_be_read_and_says_what_to_fill_in() {
    let project = Project::new();
    project.write("exporter/parity_export.py", EXPORTER);
    for template in TEMPLATES {
        let id = format!("new/{template}");
        new_spec(
            &project,
            &[&id, "--template", template],
            0,
            &[
                &format!("wrote parity-specs/{id}.yaml"),
                &format!("wrote exporter/references/new_{template}.py"),
                &format!("wrote src/{id}.rs"),
                "left to do:",
                &format!(".port(\"new::{template}\", |run| {{"),
                &format!("cargo parity regenerate-fixtures {id}"),
            ],
        );
        let found = Specs::load(&project.path("parity-specs"));
        assert!(found.broken.is_empty() && found.unreadable.is_none(), "{:?}", found.broken);
        let spec = found.specs.iter().find(|spec| spec.id == id).unwrap();
        assert_eq!(spec.port, format!("new::{template}"));
        assert!(spec.about.as_ref().unwrap().starts_with("fill in: "));

        let script = project.path(&format!("exporter/references/new_{template}.py"));
        let output = Command::new("python3")
            .arg(&script)
            .env("PYTHONPATH", project.path("exporter"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .unwrap();
        let (code, text) = ended(output);
        let words = format!(
            "NotImplementedError: fill in: the reference of {id} in exporter/references/new_{template}.py"
        );
        assert!(code == 1 && text.contains(&words), "{text}");

        let port = fs::read_to_string(project.path(&format!("src/{id}.rs"))).unwrap();
        assert!(
            port.contains(&format!("fill in: the port in `src/{id}.rs`")) && !port.contains("{{"),
            "{port}"
        );
    }
    // The first component creates the model's module. People add the others to it.
    assert_eq!(
        fs::read_to_string(project.path("src/new.rs")).unwrap(),
        "//! new, one module per component.\n\npub mod vae;\n"
    );
    new_spec(
        &project,
        &["new/other"],
        0,
        &["add to `src/lib.rs`: `pub mod new;`", "add to `src/new.rs`: `pub mod other;`"],
    );
}

/// The spec of a template passes the parameters that its script takes.
#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn regenerating_what_is_not_filled_in_quotes_it() {
    let project = Project::new();
    project.write(
        "exporter/parity_export.py",
        &EXPORTER.replace(
            "reference(None)",
            "import json, os; \
        reference(None, **json.loads(os.environ['PARITY_REFERENCE']).get('params', {}))",
        ),
    );
    for template in TEMPLATES {
        let id = format!("new/{template}");
        new_spec(&project, &[&id, "--template", template], 0, &[]);
        let mut command = project.command(&["regenerate-fixtures", "--yes", &id]);
        let (code, text) = ended(command.env_remove("PARITY_PYTHON").output().unwrap());
        assert_eq!(code, 1, "{text}");
        assert!(text.contains(&format!("NotImplementedError: fill in: the reference of {id}")), "{text}");
    }
}

#[test]
fn a_pipeline_is_four_specs() {
    let project = Project::new();
    project.write("src/lib.rs", "pub mod flux;\n");
    new_spec(
        &project,
        &["flux", "--pipeline", "--port-dir", "src"],
        0,
        &["wrote parity-specs/flux/text_encoder.yaml", "wrote src/flux.rs"],
    );
    let found = Specs::load(&project.path("parity-specs"));
    assert_eq!(found.specs.iter().filter(|spec| spec.id.starts_with("flux/")).count(), 4);
    let module = fs::read_to_string(project.path("src/flux.rs")).unwrap();
    assert!(
        module.ends_with("pub mod scheduler;\npub mod text_encoder;\npub mod transformer;\npub mod vae;\n"),
        "{module}"
    );
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn nothing_is_overwritten_and_names_are_checked() {
    let project = Project::new();
    project.write("exporter/references/new_part.py", "mine\n");
    new_spec(
        &project,
        &["new/part"],
        1,
        &["`exporter/references/new_part.py` already exists", "choose another name"],
    );
    assert!(!project.path("parity-specs/new").exists(), "something was written all the same");
    assert_eq!(fs::read_to_string(project.path("exporter/references/new_part.py")).unwrap(), "mine\n");
    for (name, words) in [
        ("part", "it has no `/`"),
        ("new/../part", "may contain only a to z"),
        ("New/part", "begin with a letter"),
        ("new/9", "begin with a letter"),
        ("new/type", "a Rust module cannot have that name"),
    ] {
        new_spec(&project, &[name], 1, &[words, "write `model/component`"]);
    }
    new_spec(&project, &["new/other", "--port-dir", "../elsewhere"], 1, &["is outside the project"]);
    new_spec(
        &project,
        &["new/other", "--template", "unet"],
        2,
        &["vae, transformer, llm, text_encoder, scheduler, log_mel, stft, image, tokenizer, blank"],
    );
    // The script names a group that the project locks.
    project.write("exporter/references/pyproject.toml", "[dependency-groups]\ntorch = []\n");
    new_spec(&project, &["new/vae", "--template", "vae"], 0, &[]);
    let script = fs::read_to_string(project.path("exporter/references/new_vae.py")).unwrap();
    assert!(script.starts_with("# parity: environment = \"torch\"\n\"\"\"Goldens of"), "{script}");
}
