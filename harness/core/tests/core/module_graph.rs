//! In every crate, modules depend on each other in one direction: no module, and no file of a module, is part of a cycle.
//!
//! The graph is read from the source: `crate::a::…` and `super::a::…` are edges to `a`, also through what a parent
//! re-exports. Tests inside a file do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::repository;

type Graph = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_module_depends_on_itself_through_others() {
    let mut cycles = Vec::new();
    for folder in [
        "harness/tap/src",
        "harness/tensor/src",
        "harness/core/src",
        "harness/src",
        "harness/cli/src",
        "harness/serve/src",
    ] {
        let root = repository().join(folder);
        assert!(root.join("lib.rs").is_file(), "{folder} is a crate");
        check(&root, &root, &mut cycles);
    }
    assert!(cycles.is_empty(), "these modules form cycles:\n{}", cycles.join("\n"));
}

#[test]
fn a_cycle_is_found() {
    let home = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| {
        let path = home.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("lib.rs", "mod a;\nmod b;\npub use a::{Item, Other};\n");
    write("a.rs", "use crate::b::x;\n");
    write("b.rs", "pub fn x() {}\n#[cfg(test)]\nmod tests { use crate::a::Item; }\n");
    let mut cycles = Vec::new();
    check(home.path(), home.path(), &mut cycles);
    assert!(cycles.is_empty(), "{cycles:?}");
    write("b.rs", "use super::{\n    Item,\n};\n");
    check(home.path(), home.path(), &mut cycles);
    assert_eq!(cycles.len(), 1, "{cycles:?}");
}

/// Checks the modules in `folder`, then those inside each of them.
fn check(root: &Path, folder: &Path, cycles: &mut Vec<String>) {
    let children = children(folder);
    let parent = ["lib.rs", "mod.rs"].iter().map(|name| folder.join(name)).find(|path| path.is_file());
    let reexported = parent.map(|path| reexports(&code(&path), &children)).unwrap_or_default();
    let above: String = folder
        .strip_prefix(root)
        .unwrap()
        .iter()
        .map(|part| format!("{}::", part.to_string_lossy()))
        .collect();
    let mut graph = Graph::new();
    for (name, files) in &children {
        let edges = graph.entry(name.clone()).or_default();
        for file in files {
            let depth = file.strip_prefix(folder).unwrap().components().count();
            let text = code(file);
            // A file of the module itself says `super::`, one level down `super::super::`.
            let is_module_file = depth == 1 || file.ends_with("mod.rs") && depth == 2;
            let prefixes = [
                (format!("crate::{above}"), true),
                ("super::".to_owned(), is_module_file),
                ("super::super::".to_owned(), !is_module_file && depth == 2),
            ];
            for (prefix, _) in prefixes.iter().filter(|(_, counts)| *counts) {
                for used in names_after(&text, prefix) {
                    let target =
                        if children.contains_key(&used) { Some(&used) } else { reexported.get(&used) };
                    edges.extend(target.filter(|target| *target != name).cloned());
                }
            }
        }
    }
    cycles.extend(cycle(&graph).map(|cycle| format!("{}: {}", folder.display(), cycle.join(" -> "))));
    for name in children.keys() {
        if folder.join(name).is_dir() {
            check(root, &folder.join(name), cycles);
        }
    }
}

/// The modules of a folder, each with all files below it.
fn children(folder: &Path) -> BTreeMap<String, Vec<PathBuf>> {
    let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for entry in walkdir::WalkDir::new(folder).min_depth(1) {
        let path = entry.unwrap().into_path();
        let first = path.strip_prefix(folder).unwrap().iter().next().unwrap().to_string_lossy().into_owned();
        let name = first.trim_end_matches(".rs").to_owned();
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        if is_source && !["lib", "mod", "main"].contains(&name.as_str()) && name != "templates" {
            found.entry(name).or_default().push(path);
        }
    }
    found
}

/// The text of a file without comments and without what follows `#[cfg(test)]`.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// Items that a parent re-exports, with the module that they come from.
fn reexports(parent: &str, children: &BTreeMap<String, Vec<PathBuf>>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for child in children.keys() {
        for item in names_after(parent, &format!("use {child}::")) {
            found.insert(item, child.clone());
        }
    }
    found
}

/// The names that follow a prefix: one, or all at the top of a group in braces.
fn names_after(text: &str, prefix: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in text.match_indices(prefix) {
        let before = text[..at].chars().next_back();
        // `super::super::` is another prefix, and so is the end of a longer name.
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &text[at + prefix.len()..];
        match rest.strip_prefix('{') {
            Some(group) => names.extend(top_names(group)),
            None => names.extend(ident(rest)),
        }
    }
    names
}

fn top_names(group: &str) -> Vec<String> {
    let (mut depth, mut start, mut names) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                names.extend(ident(group[start..at].trim()));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.extend(ident(group[start..at].trim()));
                start = at + 1;
            }
            _ => {}
        }
    }
    names
}

fn ident(text: &str) -> Option<String> {
    let name: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty() && name != "super" && name != "self").then_some(name)
}

/// A cycle of the graph, if it has one.
fn cycle(graph: &Graph) -> Option<Vec<String>> {
    fn visit<'g>(
        graph: &'g Graph,
        name: &'g str,
        path: &mut Vec<&'g str>,
        done: &mut BTreeSet<&'g str>,
    ) -> bool {
        if let Some(start) = path.iter().position(|seen| *seen == name) {
            path.drain(..start);
            path.push(name);
            return true;
        }
        if !done.insert(name) {
            return false;
        }
        path.push(name);
        let targets = graph.get(name).into_iter().flatten();
        for target in targets {
            if visit(graph, target, path, done) {
                return true;
            }
        }
        path.pop();
        false
    }
    let mut done = BTreeSet::new();
    graph.keys().find_map(|name| {
        let mut path = Vec::new();
        visit(graph, name, &mut path, &mut done).then(|| path.into_iter().map(str::to_owned).collect())
    })
}
