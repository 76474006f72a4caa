//! The documents of this repository: their links lead somewhere, and their samples are real.

mod links;
mod markdown;
mod samples;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use crate::command::repository;
use markdown::Page;

/// Every Markdown file of the repository, by its path from the root. Folders of builds and hidden folders are left out.
fn documents() -> BTreeMap<PathBuf, Page> {
    let is_source = |name: &str| !(name.starts_with('.') || ["target", "node_modules"].contains(&name));
    let walk = WalkDir::new(repository()).into_iter();
    let entries =
        walk.filter_entry(|entry| entry.depth() == 0 || is_source(&entry.file_name().to_string_lossy()));
    let mut found = BTreeMap::new();
    for entry in entries {
        let path = entry.unwrap().into_path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let page = Page::new(&fs::read_to_string(&path).unwrap());
            found.insert(path.strip_prefix(repository()).unwrap().to_owned(), page);
        }
    }
    assert!(found.len() > 30, "only {} documents were found", found.len());
    found
}

/// Whether the file is a page of the guide.
fn is_in_guide(path: &Path) -> bool {
    path.starts_with("docs/src")
}

#[test]
fn the_readme_fits_on_a_few_screens() {
    let lines = fs::read_to_string(repository().join("README.md")).unwrap().lines().count();
    assert!(lines <= 150, "the README has {lines} lines; move something to the guide");
}

#[test]
fn the_summary_names_every_page_once() {
    let documents = documents();
    let summary = &documents[Path::new("docs/src/SUMMARY.md")];
    let mut named: Vec<PathBuf> =
        summary.links.iter().map(|link| Path::new("docs/src").join(&link.target)).collect();
    named.sort();
    let pages = documents.keys().filter(|path| is_in_guide(path) && !path.ends_with("SUMMARY.md"));
    assert_eq!(named, pages.cloned().collect::<Vec<_>>());
}
