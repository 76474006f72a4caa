//! The samples of the README and of the guide are what the programs print.
//!
//! A sample is a `text` block after the `sh` block with its command. `…` stands for left-out lines or for the rest of a
//! line. Measured numbers may differ a little between processors; everything else must be the same.

use std::fs;
use std::process::Output;

use serde_json::Value;

use crate::project::{Project, Ran, SPEC, repository};

/// The README, and the pages of the guide in the order of their names.
fn pages() -> Vec<String> {
    let folder = repository().join("docs/src");
    let mut paths: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    paths.insert(0, repository().join("README.md"));
    paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}

/// The first sample of the command, without the indentation of a list.
pub(crate) fn sample(command: &str) -> Vec<String> {
    let pages = pages();
    let lines: Vec<&str> = pages.iter().flat_map(|page| page.lines()).map(str::trim_end).collect();
    let is_start = |at: &usize| {
        let follows =
            |offset: usize, text: &str| lines.get(at + offset).is_some_and(|line| line.trim_start() == text);
        follows(0, command) && follows(1, "```") && follows(2, "```text")
    };
    let at = (0..lines.len()).find(is_start);
    assert!(at.is_some(), "neither the README nor the guide has a sample of `{command}`");
    let start = at.unwrap() + 3;
    let indent = lines[start - 1].len() - lines[start - 1].trim_start().len();
    let block = lines[start..].iter().take_while(|line| line.trim_start() != "```");
    block.map(|line| line.get(indent..).unwrap_or_default().to_owned()).collect()
}

/// Expects every line of the sample in what was printed, in this order and, unless a `…` stands between them, one right
/// after the other.
#[track_caller]
pub(crate) fn check_sample(command: &str, printed: &str) {
    // The pages show what people type in their own projects.
    let printed =
        printed.replace("cargo xtask parity", "cargo parity run").replace("cargo xtask", "cargo parity");
    let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
    let (mut next, mut gap) = (0, true);
    for line in sample(command).iter().filter(|line| !line.is_empty()) {
        if line.trim() == "…" {
            gap = true;
            continue;
        }
        let mut rest = printed.iter().enumerate().skip(next).filter(|(_, found)| !found.is_empty());
        let found = match gap {
            true => rest.find(|(_, found)| is_alike(line, found)),
            false => rest.next().filter(|(_, found)| is_alike(line, found)),
        };
        assert!(
            found.is_some(),
            "the sample of `{command}` has\n{line}\nbut this is printed:\n{}",
            printed.join("\n")
        );
        let (at, _) = found.unwrap();
        (next, gap) = (at + 1, false);
    }
}

/// Whether a printed line is the one of the sample: word by word, numbers within a fifth.
fn is_alike(sample: &str, printed: &str) -> bool {
    let (sample, open) = match sample.split_once('…') {
        // A path on another machine begins otherwise; the words around it decide.
        Some((start, end)) if !end.is_empty() => {
            return is_start(start, printed)
                && is_alike_words(end, &printed[printed.len() - end.len().min(printed.len())..]);
        }
        Some((start, _)) => (start, true),
        None => (sample, false),
    };
    if open { is_start(sample, printed) } else { is_alike_words(sample, printed) }
}

fn is_start(start: &str, printed: &str) -> bool {
    let words: Vec<&str> = start.split_whitespace().collect();
    let printed: Vec<&str> = printed.split_whitespace().take(words.len()).collect();
    is_alike_words(start, &printed.join(" "))
}

fn is_alike_words(sample: &str, printed: &str) -> bool {
    let (sample, printed): (Vec<&str>, Vec<&str>) =
        (sample.split_whitespace().collect(), printed.split_whitespace().collect());
    sample.len() == printed.len() && sample.iter().zip(&printed).all(|(a, b)| a == b || is_near(a, b))
}

fn is_near(a: &str, b: &str) -> bool {
    let number = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_ascii_digit() && c != '-' && c != '.');
        word.parse::<f64>().ok()
    };
    let underlines = |word: &str| word.starts_with('^') && word.trim_matches('^').is_empty();
    match (number(a), number(b)) {
        // How far a line is underlined depends on the path of the project.
        _ if underlines(a) && underlines(b) => true,
        (Some(a), Some(b)) => (a - b).abs() <= 0.2 * a.abs().max(b.abs()),
        _ => false,
    }
}

fn ran(output: Output) -> String {
    Ran::of(output).text
}

/// The part of a report that is about the one spec.
fn ladder_of<'a>(text: &'a str, id: &str) -> &'a str {
    text.split_once(&format!("{id}  ")).map_or(text, |(_, rest)| rest)
}

#[test]
fn the_green_ladder_is_printed() {
    let project = Project::with_port("right");
    let text = ran(project.xtask(&["parity", "--all"]).output().unwrap());
    let printed = format!("gated_mlp/block  {}", ladder_of(&text, "gated_mlp/block"));
    let shown: Vec<String> = sample("cargo xtask parity --all");
    // The counts at the end are those of all bundled specs.
    let ladder = shown.iter().take_while(|line| !line.is_empty()).count();
    assert!(ladder > 5);
    for line in &shown[..ladder] {
        assert!(printed.lines().any(|found| is_alike(line, found)), "{line}\n{printed}");
    }
}

#[test]
fn the_red_test_is_printed() {
    let project = Project::with_port("wrong_eps");
    let text = project.run(&[]).text.replace("--test bad_ports", "--test parity");
    // The misbehaving port is the bundled one with another eps, whose tap is in its own file.
    for line in sample("cargo test --test parity").iter().filter(|line| !line.is_empty()) {
        assert!(text.lines().any(|found| is_alike(line, found)), "{line}\n{text}");
    }
}

#[test]
fn the_folded_ladder_and_what_was_peeked_at_are_printed() {
    let project = Project::with_port("wrong_eps");
    let text = ran(project.xtask(&["parity", "gated_mlp"]).output().unwrap());
    check_sample("cargo parity run gated_mlp", &text);
    let text = ran(project.command(&[]).env("PARITY_PEEK", "g*,out").output().unwrap());
    check_sample("PARITY_PEEK='g*,out' cargo test --test parity", &text);
}

#[test]
fn the_loose_gate_is_printed() {
    let project = Project::with_port("right");
    loosen(&project, "rtol: 1e-3, atol: 1e-3");
    project.run(&[]).is_green();
    check_sample("cargo parity lint", &ran(project.xtask(&["lint"]).output().unwrap()));
}

#[test]
fn the_mutations_are_printed() {
    let project = Project::with_port("right");
    loosen(&project, "rtol: 0.02, atol: 1e-3");
    let text = ran(project.xtask(&["mutate", "gated_mlp/block"]).output().unwrap());
    check_sample("cargo parity mutate gated_mlp/block", &text);
}

#[test]
fn the_first_faulty_stage_is_printed() {
    let project = Project::with_port("wrong_eps");
    let text = ran(project.xtask(&["bisect", "gated_mlp/block"]).output().unwrap());
    check_sample("cargo parity bisect gated_mlp/block", &text);
}

#[test]
fn the_difference_of_two_files_is_printed() {
    let project = Project::with_port("right");
    let goldens = fs::read(project.path("fixtures/gated_mlp/block/goldens.safetensors")).unwrap();
    fs::write(project.path("port.safetensors"), as_the_port_has_them(&goldens)).unwrap();
    let command = "diff fixtures/gated_mlp/block port.safetensors --rename norm=rms_norm --noise fixtures/gated_mlp/block";
    let arguments: Vec<&str> = command.split(' ').collect();
    let text = ran(project.xtask(&arguments).current_dir(project.path("")).output().unwrap());
    check_sample(&format!("cargo parity {command}"), &text);
}

/// A safetensors file with `norm` under another name, `gated` 0.1 % too large, and `out` too large by 1e-4.
fn as_the_port_has_them(goldens: &[u8]) -> Vec<u8> {
    let start = 8 + u64::from_le_bytes(goldens[..8].try_into().unwrap()) as usize;
    let mut header: serde_json::Map<String, Value> = serde_json::from_slice(&goldens[8..start]).unwrap();
    let mut data = goldens[start..].to_vec();
    for (name, factor, offset) in [("gated", 1.001, 0.0), ("out", 1.0, 1e-4)] {
        let [from, to] = [0, 1].map(|end| header[name]["data_offsets"][end].as_u64().unwrap() as usize);
        for bytes in data[from..to].as_chunks_mut::<4>().0 {
            *bytes = (factor * f32::from_le_bytes(*bytes) + offset).to_le_bytes();
        }
    }
    let norm = header.remove("norm").unwrap();
    header.insert("rms_norm".into(), norm);
    let header = serde_json::to_vec(&header).unwrap();
    [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat()
}

/// Gives the checkpoint `out` this gate.
fn loosen(project: &Project, gate: &str) {
    let text = fs::read_to_string(project.path(SPEC)).unwrap();
    let line = text.lines().find(|line| line.contains("name: out,")).unwrap();
    let start = line.split_once(", policy: ").map(|(start, _)| start).unwrap();
    project.edit(SPEC, line, &format!("{start}, {gate}, why: …}}"));
}

#[test]
fn numbers_may_differ_a_little_and_words_may_not() {
    assert!(is_alike("  ok        norm         18.4 %     1.47x", "  ok   norm   18.2 %     1.50x"));
    assert!(!is_alike("  ok        norm         18.4 %", "  ok   norm   28.2 %"));
    assert!(!is_alike("  ok        norm", "  value     norm"));
    assert!(is_alike("  actual   …/block/actual/norm.npy", "  actual   target/runs/1/block/actual/norm.npy"));
    assert!(!is_alike("  actual   …/block/actual/norm.npy", "  actual   target/runs/1/block/actual/out.npy"));
    assert!(is_alike("MLX 0.32.2 on cpu, …", "MLX 0.32.2 on cpu, linux x86_64, AMD"));
}
