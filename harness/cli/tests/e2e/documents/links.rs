//! Every link to a file or a heading of this repository leads to one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::markdown::{Link, Page, with_includes};
use super::{documents, is_in_guide};
use crate::command::repository;

/// How a page of the guide links to a file outside of it, so that the link works on GitHub and in the built book.
const ABSOLUTE: [&str; 2] = [
    "https://github.com/mlx-parity/mlx-parity/blob/main/",
    "https://github.com/mlx-parity/mlx-parity/tree/main/",
];

#[test]
fn every_link_leads_somewhere() {
    let mut documents = documents();
    // The book shows included files inside the including page, so their links must work there, too.
    let pages: Vec<PathBuf> = documents.keys().filter(|path| is_in_guide(path)).cloned().collect();
    for path in pages {
        let full = repository().join(&path);
        let text = with_includes(&fs::read_to_string(&full).unwrap(), full.parent().unwrap());
        documents.insert(path, Page::new(&text));
    }
    let broken: Vec<String> = documents
        .iter()
        .flat_map(|(path, page)| page.links.iter().map(move |link| (path, link)))
        .filter_map(|(path, link)| {
            let why = broken(&documents, path, link)?;
            Some(format!("{}:{}: `{}` {why}", path.display(), link.line, link.target))
        })
        .collect();
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

/// Why the link is broken, if it is. Links to other places on the web are not followed.
fn broken(documents: &BTreeMap<PathBuf, Page>, from: &Path, link: &Link) -> Option<String> {
    let target = link.target.as_str();
    let inside = ABSOLUTE.iter().find_map(|prefix| target.strip_prefix(prefix));
    if inside.is_none() && (target.contains("://") || target.starts_with("mailto:")) {
        return None;
    }
    let (file, anchor) = inside
        .unwrap_or(target)
        .split_once('#')
        .map_or_else(|| (inside.unwrap_or(target), None), |(file, anchor)| (file, Some(anchor)));
    let path = match (inside, file) {
        (None, "") => from.to_owned(),
        (None, file) => normal(&from.parent().unwrap_or(Path::new("")).join(file))?,
        (Some(_), file) => PathBuf::from(file),
    };
    if !repository().join(&path).exists() {
        return Some("does not exist".to_owned());
    }
    if inside.is_none() && is_in_guide(from) && !is_in_guide(&path) {
        return Some(
            "is outside of `docs/src`, so it is missing in the built book: use the full URL".to_owned(),
        );
    }
    let anchor = anchor?;
    let Some(page) = documents.get(&path) else { return Some("has no headings".to_owned()) };
    (!page.anchors.iter().any(|known| known == anchor))
        .then(|| format!("names no heading; there are: {}", page.anchors.join(", ")))
}

/// The path without `..`; `None` if it leaves the repository, which GitHub serves and nobody can check here.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => normal.pop().then_some(())?,
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    Some(normal)
}

#[test]
fn a_broken_link_is_found() {
    let documents = documents();
    let check = |from: &str, target: &str| {
        broken(&documents, Path::new(from), &Link { line: 1, target: target.to_owned() })
    };
    assert_eq!(check("README.md", "docs/src/start.md"), None);
    assert_eq!(check("README.md", "https://example.com/x"), None);
    assert!(check("README.md", "docs/src/missing.md").is_some());
    assert!(check("README.md", "docs/src/glossary.md#missing").is_some());
    assert!(check("docs/src/start.md", "../../README.md").is_some());
    assert!(check("docs/src/start.md", &format!("{}missing.md", ABSOLUTE[0])).is_some());
    assert_eq!(check("docs/src/start.md", &format!("{}README.md#read-on", ABSOLUTE[0])), None);
}
