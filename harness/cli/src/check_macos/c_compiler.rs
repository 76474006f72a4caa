//! A C compiler for macOS that runs on Linux: some crates assemble a file in their build scripts. It is Zig's, from PyPI.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::CheckMacosError;
use crate::Project;
use crate::python::Python;
use mlx_parity_core::files::atomic::write_atomically;

/// The pinned Zig, with the checksums of its wheels.
const PINNED: &str = include_str!("ziglang.txt");

/// Installs Zig into the private folder unless it is there, and returns a script in `home` that is called as clang is.
pub(super) fn install(project: &Project, home: &Path) -> Result<PathBuf, CheckMacosError> {
    let folder = Python::find()?.installed(
        project,
        PINNED.as_bytes(),
        "Zig (a download of about 100 MB), whose C compiler builds for macOS",
    )?;
    let path = home.join("cc");
    let text = script(&folder.join("ziglang/zig"), &home.join("zig-cache"));
    write_atomically(&path, |out| out.write_all(text.as_bytes()))
        .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
        .map_err(|source| CheckMacosError::write(&path, source))?;
    Ok(path)
}

/// Zig has its own name for the target, and rejects the options by which build scripts name it to clang.
fn script(zig: &Path, cache: &Path) -> String {
    format!(
        "#!/bin/sh\n\
         # Written by `cargo xtask check-macos`; never edit or commit.\n\
         skip=\n\
         for argument do\n\
         \x20 shift\n\
         \x20 if [ -n \"$skip\" ]; then skip=; continue; fi\n\
         \x20 case $argument in\n\
         \x20   -arch) skip=1 ;;\n\
         \x20   --target=* | -mmacosx-version-min=* | -mmacos-version-min=*) ;;\n\
         \x20   *) set -- \"$@\" \"$argument\" ;;\n\
         \x20 esac\n\
         done\n\
         export ZIG_GLOBAL_CACHE_DIR={cache} ZIG_LOCAL_CACHE_DIR={cache}\n\
         exec {zig} cc -target aarch64-macos \"$@\"\n",
        zig = quoted(zig),
        cache = quoted(cache),
    )
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_script_drops_what_names_the_target_and_keeps_every_other_argument() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("o'brien's folder");
        fs::create_dir(&folder).unwrap();
        let (zig, cc) = (folder.join("zig"), folder.join("cc"));
        for (path, text) in [
            (&zig, "#!/bin/sh\nprintf '[%s]' \"$@\"\n".to_owned()),
            (&cc, script(&zig, &folder.join("cache"))),
        ] {
            fs::write(path, text).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let words = [
            "-O0",
            "-arch",
            "arm64",
            "--target=arm64-apple-macosx",
            "-mmacosx-version-min=11.0",
            "-c",
            "a b.s",
        ];
        let output = Command::new("/bin/sh").arg(&cc).args(words).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "[cc][-target][aarch64-macos][-O0][-c][a b.s]");
    }

    #[test]
    fn the_pinned_zig_has_checksums() {
        assert!(PINNED.lines().any(|line| line.starts_with("ziglang==")));
        assert!(PINNED.lines().filter(|line| line.contains("--hash=sha256:")).count() >= 2);
    }
}
