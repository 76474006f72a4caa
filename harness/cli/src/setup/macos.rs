//! macOS: mlx-sys builds MLX itself, with Metal, given Xcode's tools and cmake.

use std::process::Command;

use super::SetupError;

/// The programs that the build of mlx-sys calls, and how to get each.
const NEEDED: &[(&str, &[&str], &str)] = &[
    (
        "xcode-select",
        &["--print-path"],
        "install Xcode, then run `sudo xcode-select --switch /Applications/Xcode.app`",
    ),
    (
        "xcrun",
        &["--sdk", "macosx", "--find", "metal"],
        "the Metal compiler comes with Xcode, not with its command line tools alone: install Xcode (from version 26 on \
         also run `xcodebuild -downloadComponent MetalToolchain`)",
    ),
    ("cmake", &["--version"], "run `brew install cmake`"),
];

/// Checks that each of these commands works; installs and changes nothing.
pub(super) fn check() -> Result<(), SetupError> {
    for (program, arguments, next) in NEEDED {
        let output = Command::new(program).args(*arguments).output();
        if !output.is_ok_and(|output| output.status.success()) {
            return Err(SetupError::AppleTool {
                command: format!("{program} {}", arguments.join(" ")),
                next,
            });
        }
    }
    Ok(())
}
