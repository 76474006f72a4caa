//! Files that the command writes: what changes, as a diff, and writing them.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use similar::TextDiff;

use mlx_parity_core::files::atomic::write_atomically;
use mlx_parity_core::files::regular;
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::text::printable::{clean, paint};

/// One file as it will be.
#[derive(Debug)]
pub(super) struct FileChange {
    /// From the project's root.
    pub(super) path: PathBuf,
    old: Option<String>,
    new: String,
    /// What a new file is for.
    about: &'static str,
}

impl FileChange {
    /// A file that the project may have; `new` returns its text from the present one.
    pub(super) fn edit<E>(
        root: &Path,
        path: &Path,
        about: &'static str,
        new: impl FnOnce(Option<&str>) -> Result<String, E>,
    ) -> Result<Result<Self, E>, io::Error> {
        let old = read(&root.join(path))?;
        Ok(new(old.as_deref()).map(|new| Self { path: path.to_owned(), old, new, about }))
    }

    /// Whether the file differs from what is there.
    pub(super) fn is_needed(&self) -> bool {
        self.old.as_deref() != Some(self.new.as_str())
    }

    /// The change as text: a diff of a file that exists, or one line about a new one.
    pub(super) fn shown(&self) -> String {
        let path = self.path.display();
        let Some(old) = &self.old else {
            let lines = counted(self.new.lines().count(), "line");
            return format!("{} {path} ({lines}): {}\n", paint(true, "32", "new file"), self.about);
        };
        let mut text = format!("{} {path}\n", paint(true, "33", "change"));
        let diff = TextDiff::from_lines(old.as_str(), &self.new);
        for line in diff.unified_diff().context_radius(2).to_string().lines() {
            let line = clean(line);
            let line = match line.chars().next() {
                Some('+') => paint(true, "32", &line),
                Some('-') => paint(true, "31", &line),
                _ => line.into_owned(),
            };
            let _ = writeln!(text, "  {line}");
        }
        text
    }

    pub(super) fn write(&self, root: &Path) -> io::Result<()> {
        let path = root.join(&self.path);
        fs::create_dir_all(path.parent().unwrap_or(root))?;
        // The file behind a link is replaced, not the link.
        let path = path.canonicalize().unwrap_or(path);
        write_atomically(&path, |out| out.write_all(self.new.as_bytes()))
    }
}

/// The text of a file; none if it does not exist.
pub(super) fn read(path: &Path) -> io::Result<Option<String>> {
    match regular::read_text(path, regular::TEXT) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
