//! A few lines of source around a line.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::files::regular;

/// How many lines are kept before and after the line.
const AROUND: u32 = 5;
/// How many characters of a line are kept.
const MOST_CHARACTERS: usize = 240;
/// The largest file that is read, in bytes.
const MOST_BYTES: u64 = 8 << 20;

/// Some lines of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Excerpt {
    /// The file, as the compiler or the recipe names it.
    pub file: String,
    /// The line that matters, from 1.
    pub line: u32,
    /// The number of the first line in `lines`.
    pub first: u32,
    /// The lines, without their ends. Long ones are cut off.
    pub lines: Vec<String>,
}

/// Finds source files below some folders, and reads each file once.
#[derive(Debug, Default)]
pub struct Sources {
    roots: Vec<PathBuf>,
    read: RefCell<HashMap<PathBuf, Option<String>>>,
}

impl Sources {
    /// Looks for relative paths below these folders, in this order.
    pub fn below(roots: Vec<PathBuf>) -> Self {
        Self { roots, read: RefCell::default() }
    }

    /// Returns the lines around line `line` of `file`; `None` if there is no such file or no such line.
    pub fn excerpt(&self, file: &str, line: u32) -> Option<Excerpt> {
        let path = Path::new(file);
        let climbs = path.components().any(|part| matches!(part, Component::ParentDir));
        // `join` gives an absolute path back as it is.
        let mut candidates = self.roots.iter().map(|root| root.join(path)).filter(|_| !climbs);
        let found = candidates.find(|path| path.is_file())?;
        let mut read = self.read.borrow_mut();
        let text = read.entry(found).or_insert_with_key(|path| {
            regular::read(path, MOST_BYTES).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        });
        let first = line.checked_sub(1)?.saturating_sub(AROUND) + 1;
        let after = line.saturating_add(AROUND);
        let lines = text.as_deref()?.lines().take(after as usize).skip(first as usize - 1);
        let lines: Vec<String> = lines.map(|line| line.chars().take(MOST_CHARACTERS).collect()).collect();
        let reaches = first as usize + lines.len() > line as usize;
        reaches.then(|| Excerpt { file: file.to_owned(), line, first, lines })
    }

    /// As [`Sources::excerpt`], for a place such as `pkg/model.py:41` or `pkg/model.py:Block.forward:41`.
    pub fn excerpt_at(&self, place: &str) -> Option<Excerpt> {
        let (file, rest) = place.split_once(':')?;
        let line = rest.rsplit(':').next()?.parse().ok()?;
        self.excerpt(file, line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_around_a_place_are_read_below_the_roots_only() {
        let home = tempfile::tempdir().unwrap();
        let text: String = (1..=20).map(|line| format!("line {line}\n")).collect();
        std::fs::create_dir(home.path().join("pkg")).unwrap();
        std::fs::write(home.path().join("pkg/model.py"), text).unwrap();
        let sources = Sources::below(vec![home.path().join("none"), home.path().to_owned()]);
        let found = sources.excerpt_at("pkg/model.py:Block.forward:8").unwrap();
        assert_eq!((found.line, found.first, found.lines.len()), (8, 3, 11));
        assert_eq!(found.lines[5], "line 8");
        let start = sources.excerpt("pkg/model.py", 2).unwrap();
        assert_eq!((start.first, start.lines.len()), (1, 7));
        assert_eq!(sources.excerpt_at("pkg/model.py:20").unwrap().lines.len(), 6);
        for place in
            ["pkg/model.py:21", "pkg/model.py:0", "pkg/model.py:Block.norm", "pkg/other.py:1", "model.py"]
        {
            assert_eq!(sources.excerpt_at(place), None, "{place}");
        }
        let inner = Sources::below(vec![home.path().join("pkg/x")]);
        assert_eq!(inner.excerpt("../model.py", 1), None);
    }
}
