//! The specs of a large project: 10,000 checkpoints in 100 specs, once written out and once in loops.
//!
//! The time is printed, not judged: `cargo test --release -p mlx-parity --no-default-features --test
//! core ten_thousand -- --nocapture`.

use std::fmt::Write;
use std::fs;
use std::time::Instant;

use mlx_parity_core::spec::{Specs, list};

const HEAD: &str = "version: 1\nport: p\nreference: {script: s.py}\ncheckpoints:\n";

#[test]
fn ten_thousand_checkpoints_are_listed() {
    let written_out: String = (0..100).fold(HEAD.to_owned(), |mut text, n| {
        writeln!(
            text,
            "  - {{name: blocks.{n}.attn.out, dtype: float32, shape: [b, 64], rtol: 1e-5, atol: 1e-5}}"
        )
        .unwrap();
        text
    });
    let looped = format!(
        "{HEAD}  - {{name: 'blocks.{{i}}.{{j}}', for: {{i: 0..10, j: 0..10}}, dtype: float32, noise: 8}}\n"
    );
    for (kind, text) in [("written out", written_out), ("looped", looped)] {
        let root = tempfile::tempdir().unwrap();
        let policies = include_str!("../../data/spec/root/policies.yaml");
        fs::write(root.path().join("policies.yaml"), policies).unwrap();
        for n in 0..100 {
            let folder = root.path().join(format!("model{}", n / 10));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(format!("part{n}.yaml")), &text).unwrap();
        }
        let start = Instant::now();
        let specs = Specs::load(root.path());
        let loaded = start.elapsed();
        let mut names = String::new();
        list::names(&mut names, &specs).unwrap();
        let listed = start.elapsed();
        let start = Instant::now();
        let one = Specs::load_one(root.path(), "model3/part31").unwrap();
        println!(
            "{kind}, {} bytes each: load {loaded:.1?}, with names {listed:.1?}; one spec {:.1?}",
            text.len(),
            start.elapsed()
        );
        assert_eq!((specs.broken.len(), specs.specs.len(), names.lines().count()), (0, 100, 10_000));
        assert_eq!(one.checkpoints.len(), 100);
        assert!(specs.specs.is_sorted_by_key(|spec| &spec.id), "whichever thread read them");
    }
}
