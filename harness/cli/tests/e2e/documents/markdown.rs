//! What the tests read of a Markdown file: headings, links and blocks of code.

use std::fs;
use std::path::Path;

/// A Markdown file.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// The anchors of its headings, as GitHub and mdBook make them.
    pub(crate) anchors: Vec<String>,
    pub(crate) links: Vec<Link>,
    pub(crate) blocks: Vec<Block>,
}

/// A link or a picture.
#[derive(Debug)]
pub(crate) struct Link {
    /// The line, from 1.
    pub(crate) line: usize,
    pub(crate) target: String,
}

/// A block of code between fences.
#[derive(Debug)]
pub(crate) struct Block {
    /// The line of its first fence, from 1.
    pub(crate) line: usize,
    pub(crate) language: String,
    /// Its text, without the indentation of a list.
    pub(crate) text: String,
}

impl Page {
    pub(crate) fn new(text: &str) -> Self {
        let mut page = Self::default();
        let mut open: Option<(usize, Block)> = None;
        for (line, content) in (1..).zip(text.lines()) {
            let start = content.trim_start();
            if let Some((indent, block)) = &mut open {
                if start.trim_end() == "```" {
                    page.blocks.extend(open.take().map(|(_, block)| block));
                } else {
                    block.text.push_str(content.get(*indent..).unwrap_or(start));
                    block.text.push('\n');
                }
            } else if let Some(language) = start.strip_prefix("```") {
                let block = Block { line, language: language.trim().to_owned(), text: String::new() };
                open = Some((content.len() - start.len(), block));
            } else {
                if content.starts_with('#') {
                    page.add_anchor(content.trim_start_matches('#').trim());
                }
                page.add_links(line, content);
            }
        }
        assert!(open.is_none(), "a block of code has no end: {open:?}");
        page
    }

    fn add_anchor(&mut self, heading: &str) {
        let heading = heading.to_lowercase();
        let kept = heading.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            c => c.is_alphanumeric().then_some(c),
        });
        let anchor: String = kept.collect();
        let same = |known: &&String| **known == anchor || known.strip_prefix(&anchor).is_some_and(is_number);
        let number = self.anchors.iter().filter(same).count();
        self.anchors.push(if number == 0 { anchor } else { format!("{anchor}-{number}") });
    }

    fn add_links(&mut self, line: usize, content: &str) {
        // What is between backticks is shown as it is.
        let text: String = content.split('`').step_by(2).collect::<Vec<_>>().join("``");
        for rest in text.split("](").skip(1) {
            let target = rest.split(')').next().unwrap_or_default().split(' ').next().unwrap_or_default();
            self.links.push(Link { line, target: target.to_owned() });
        }
    }
}

fn is_number(text: &str) -> bool {
    text.strip_prefix('-')
        .is_some_and(|digits| !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit()))
}

/// Returns the text with mdBook's `{{#include …}}` replaced by the files, as it does when it builds the book. `folder` is
/// that of the page.
pub(crate) fn with_includes(text: &str, folder: &Path) -> String {
    let mut full = String::new();
    for line in text.lines() {
        let included = line.trim().strip_prefix("{{#include ").and_then(|rest| rest.strip_suffix("}}"));
        match included {
            None => full.push_str(line),
            Some(included) => {
                let (file, anchor) = included.split_once(':').map_or((included, None), |(a, b)| (a, Some(b)));
                let text = fs::read_to_string(folder.join(file)).unwrap();
                full.push_str(&anchor.map_or(text.clone(), |anchor| between(&text, anchor)));
            }
        }
        full.push('\n');
    }
    full
}

/// Returns the lines between `ANCHOR: name` and `ANCHOR_END: name`.
fn between(text: &str, anchor: &str) -> String {
    let has = |line: &&str, mark: &str| line.contains(&format!("{mark}: {anchor}"));
    let lines = text.lines().skip_while(|line| !has(line, "ANCHOR")).skip(1);
    let lines: Vec<&str> = lines.take_while(|line| !has(line, "ANCHOR_END")).collect();
    assert!(!lines.is_empty(), "no text is marked `{anchor}`");
    lines.join("\n")
}

#[test]
fn headings_links_and_blocks_are_found() {
    let page = Page::new(
        "# A `b`, c's d\n# Twice\n# Twice\n[x](a.md#b) `[y](no.md)` ![z](c.svg \"title\")\n- list\n  ```rust\n  let x;\n  ```\n",
    );
    assert_eq!(page.anchors, ["a-b-cs-d", "twice", "twice-1"]);
    assert_eq!(page.links.iter().map(|link| link.target.as_str()).collect::<Vec<_>>(), ["a.md#b", "c.svg"]);
    assert_eq!((page.blocks[0].language.as_str(), page.blocks[0].text.as_str()), ("rust", "let x;\n"));
}
