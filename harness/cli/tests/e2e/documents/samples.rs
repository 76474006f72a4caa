//! Samples in the README and in the guide: Rust is compiled elsewhere, YAML is read as what it shows, commands exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mlx_parity_core::spec::Specs;
use serde_json::Value;

use super::markdown::Block;
use super::{documents, is_in_guide};
use crate::command::{BINARY, copy_from_repository, repository};

/// The blocks of the README and the guide in this language, with where each is.
fn blocks(language: &str) -> Vec<(String, Block)> {
    let shown = |path: &Path| is_in_guide(path) || path == Path::new("README.md");
    let found: Vec<(String, Block)> = documents()
        .into_iter()
        .filter(|(path, _)| shown(path))
        .flat_map(|(path, page)| page.blocks.into_iter().map(move |block| (path.clone(), block)))
        .filter(|(_, block)| block.language.split(',').next() == Some(language))
        .map(|(path, block)| (format!("{}:{}", path.display(), block.line), block))
        .collect();
    assert!(!found.is_empty(), "no sample in {language}");
    found
}

/// The lines of a text, each with single blanks, without empty ones.
fn normal(text: &str) -> Vec<String> {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines().map(words).filter(|line| !line.is_empty()).collect()
}

#[test]
fn every_rust_sample_is_in_a_file_that_is_compiled() {
    const FILE: &str = "tests/e2e/guide_samples.rs";
    let compiled = normal(&fs::read_to_string(repository().join(FILE)).unwrap());
    for (place, block) in blocks("rust") {
        let sample = normal(&block.text);
        let found = compiled.windows(sample.len()).any(|lines| lines == sample);
        assert!(found, "{place}: this sample is not in {FILE}, so nothing compiles it:\n{}", block.text);
    }
}

#[test]
fn every_yaml_sample_is_a_spec_or_a_workflow() {
    let folder = tempfile::tempdir().unwrap();
    copy_from_repository(&["parity-specs/policies.yaml"], folder.path());
    let specs = folder.path().join("parity-specs");
    for (number, (place, block)) in blocks("yaml").into_iter().enumerate() {
        let text = block.text;
        let first = text.lines().next().unwrap_or_default();
        // A whole workflow, some of its steps, or a part of a job for GitLab.
        if ["name:", "- uses:", "artifacts:"].iter().any(|start| first.trim_start().starts_with(start)) {
            let workflow: Result<Value, _> = serde_saphyr::from_str(&text);
            assert!(workflow.is_ok(), "{place}: {workflow:?}");
            continue;
        }
        // A part of a spec shows only the keys that it is about.
        let missing = |key: &str| !text.lines().any(|line| line.starts_with(key));
        let mut spec = String::new();
        for (key, value) in [("version:", "1"), ("port:", "p"), ("reference:", "{script: s.py}")] {
            if missing(key) && !(key == "reference:" && first.starts_with("version:")) {
                spec.push_str(&format!("{key} {value}\n"));
            }
        }
        spec.push_str(&text);
        fs::create_dir_all(specs.join("samples")).unwrap();
        fs::write(specs.join(format!("samples/s{number}.yaml")), &spec).unwrap();
        let read = Specs::load_one(&specs, &format!("samples/s{number}"));
        assert!(
            read.is_ok(),
            "{place}: {}\n{spec}",
            read.err().map(|error| format!("{error:#?}")).unwrap_or_default()
        );
    }
}

/// What a command prints with `--help`; nothing if there is no such command. Cargo puts `parity` before the arguments.
fn help(command: &str) -> String {
    let output = Command::new(BINARY).args(["parity", command, "--help"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_command_in_a_sample_exists_with_its_options() {
    let mut wrong = BTreeSet::new();
    for (place, block) in blocks("sh") {
        // A line can have several commands, and a comment.
        let lines =
            block.text.lines().flat_map(|line| line.split(" #").next().unwrap_or_default().split("&&"));
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            let Some(at) = words
                .windows(2)
                .position(|pair| pair[0] == "cargo" && ["xtask", "parity"].contains(&pair[1]))
            else {
                continue;
            };
            let Some(command) = words.get(at + 2).filter(|word| !word.starts_with('-')) else { continue };
            let help = help(command);
            if help.is_empty() {
                wrong.insert(format!("{place}: there is no command `{command}`"));
                continue;
            }
            let options = words[at + 3..].iter().filter(|word| word.starts_with("--") && word.len() > 2);
            for option in options {
                let name = option.split('=').next().unwrap_or(option);
                if !help.contains(name) {
                    wrong.insert(format!("{place}: `{command}` has no option `{name}`"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.into_iter().collect::<Vec<_>>().join("\n"));
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn every_python_sample_of_the_guide_is_valid() {
    let python = std::env::var_os("PARITY_PYTHON").unwrap_or_else(|| "python3".into());
    let folder = tempfile::tempdir().unwrap();
    let written: Vec<(String, PathBuf)> = blocks("python")
        .into_iter()
        .enumerate()
        .map(|(number, (place, block))| {
            let path = folder.path().join(format!("s{number}.py"));
            fs::write(&path, block.text).unwrap();
            (place, path)
        })
        .collect();
    for (place, path) in written {
        let output = Command::new(&python).args(["-m", "py_compile"]).arg(&path).output().unwrap();
        assert!(output.status.success(), "{place}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
