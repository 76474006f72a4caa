//! mlx-c, compiled against the MLX of the wheel into one shared library, and the Rust bindings to it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use super::machine::Compiler;
use super::wheels::partial;
use super::{BindingsArguments, SetupError};
use crate::cargo::cargo;
use crate::python::last_lines;

/// Part of what identifies a build: a change makes every machine build again.
pub(super) const RECIPE: &[&str] = &[COMPAT, HALF, MACH, "c++20 -O1 -fPIC 1"];

const COMPAT: &str = include_str!("compat.h");
const HALF: &str = include_str!("half.h");

/// mlx-rs seeds its random state with this function of macOS.
const MACH: &str = "#include <ctime>\n\
    extern \"C\" unsigned long long mach_approximate_time(void) {\n\
    \x20 timespec now;\n\
    \x20 clock_gettime(CLOCK_MONOTONIC, &now);\n\
    \x20 return static_cast<unsigned long long>(now.tv_sec) * 1000000000ull + now.tv_nsec;\n\
    }\n";

pub(super) const LIBRARY: &str = "libmlxc.so";
pub(super) const BINDINGS: &str = "bindings.rs";

/// The mlx-c inside the mlx-sys crate that Cargo uses, which must be written against MLX `mlx`.
pub(super) fn mlx_c(root: &Path, mlx: &str) -> Result<PathBuf, SetupError> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    #[derive(Deserialize)]
    struct Package {
        name: String,
        manifest_path: PathBuf,
    }
    let output = cargo(root)
        .args(["metadata", "--format-version", "1", "--locked"])
        .output()
        .map_err(|source| SetupError::read(root, source))?;
    let metadata: Metadata = serde_json::from_slice(&output.stdout)
        .map_err(|_| SetupError::Metadata { reason: last_lines(&output.stderr) })?;
    let folder = metadata
        .packages
        .into_iter()
        .find(|package| package.name == "mlx-sys")
        .and_then(|package| Some(package.manifest_path.parent()?.join("src/mlx-c")))
        .ok_or_else(|| SetupError::NoMlxSys { lock: root.join("Cargo.lock") })?;
    let lists = folder.join("CMakeLists.txt");
    let text = fs::read_to_string(&lists).map_err(|source| SetupError::read(&lists, source))?;
    let found = text
        .split_once("GIT_TAG v")
        .map(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default());
    if found != Some(mlx) {
        let found = found.unwrap_or("no version that we can read").to_owned();
        return Err(SetupError::MlxVersion { found, wanted: mlx.to_owned() });
    }
    Ok(folder)
}

/// Compiles every source of mlx-c as one file, which takes a third of the time, into `folder`.
///
/// The name inside the library (its soname) is its final path, in `home`, so that programs find it without a search path;
/// the library itself finds MLX by its rpath.
pub(super) fn compile(
    compiler: &Compiler,
    mlx_c: &Path,
    runtime: &Path,
    folder: &Path,
    home: &Path,
) -> Result<(), SetupError> {
    let write =
        |path: &Path, text: &str| fs::write(path, text).map_err(|source| SetupError::write(path, source));
    let mut source = format!("{MACH}#ifndef __aarch64__\n#include \"half.h\"\n#endif\n");
    for file in files_ending(&mlx_c.join("mlx/c"), "cpp")? {
        let _ = writeln!(source, "#include \"{}\"", file.display());
    }
    let all = folder.join("all.cpp");
    write(&all, &source)?;
    write(&folder.join("compat.h"), COMPAT)?;
    write(&folder.join("half.h"), HALF)?;
    let library = folder.join(LIBRARY);
    let output = compiler
        .command()
        .args(["-std=c++20", "-O1", "-fPIC", "-w", "-shared", "-include"])
        .arg(folder.join("compat.h"))
        .args([Path::new("-I"), mlx_c, Path::new("-I"), &runtime.join("mlx/include"), &all, Path::new("-o")])
        .arg(partial(&library))
        .args([Path::new("-L"), &runtime.join("mlx/lib"), Path::new("-lmlx")])
        // -Xlinker rather than -Wl, whose commas could stand in a path.
        .args(["-Xlinker", "-soname", "-Xlinker"])
        .arg(home.join(LIBRARY))
        .args(["-Xlinker", "-rpath", "-Xlinker"])
        .arg(runtime.join("mlx/lib"))
        .output()
        .map_err(|source| SetupError::read(&all, source))?;
    if !output.status.success() {
        let reason = last_lines(&output.stderr);
        return Err(SetupError::Compile { compiler: compiler.version().to_owned(), reason });
    }
    fs::rename(partial(&library), &library).map_err(|source| SetupError::write(&library, source))
}

/// Generates the bindings into `folder`, in a child of our own with bindgen's libclang in its environment.
pub(super) fn bind(
    compiler: &Compiler,
    mlx_c: &Path,
    libclang: &Path,
    folder: &Path,
) -> Result<(), SetupError> {
    let half = folder.join("half.h");
    fs::write(&half, HALF).map_err(|source| SetupError::write(&half, source))?;
    let bindings = folder.join(BINDINGS);
    let program =
        std::env::current_exe().map_err(|source| SetupError::read(Path::new("this program"), source))?;
    let mut child = Command::new(program);
    child.arg("generate-bindings").arg("--mlx-c").arg(mlx_c).arg("--half").arg(&half);
    if let Some(headers) = compiler.builtin_headers() {
        child.arg("--headers").arg(headers);
    }
    child.arg("--out").arg(partial(&bindings));
    // The libclang wheel keeps its library where pip would install it from.
    let data = files_ending(libclang, "data")?;
    let native = data.first().map_or_else(|| libclang.to_owned(), |data| data.join("platlib/clang/native"));
    let output =
        child.env("LIBCLANG_PATH", native).output().map_err(|source| SetupError::read(&bindings, source))?;
    if !output.status.success() {
        return Err(SetupError::Bindings { reason: last_lines(&output.stderr) });
    }
    fs::rename(partial(&bindings), &bindings).map_err(|source| SetupError::write(&bindings, source))
}

/// The child's side of [`bind`].
#[cfg(target_os = "linux")]
pub(super) fn generate(arguments: &BindingsArguments) -> Result<(), SetupError> {
    let failed = |reason: String| SetupError::Bindings { reason };
    // The same headers and the same exceptions as mlx-sys's own build script.
    let mut builder = bindgen::Builder::default()
        .rust_target(bindgen::RustTarget::stable(73, 0).map_err(|error| failed(error.to_string()))?)
        .clang_args(["-I", &arguments.mlx_c.to_string_lossy(), "-include", &arguments.half.to_string_lossy()])
        .blocklist_function("malloc")
        .blocklist_function("realloc");
    if let Some(headers) = &arguments.headers {
        builder = builder.clang_args(["-I", &headers.to_string_lossy()]);
    }
    for header in files_ending(&arguments.mlx_c.join("mlx/c"), "h")? {
        builder = builder.header(header.to_string_lossy());
    }
    let bindings = builder.generate().map_err(|error| failed(error.to_string()))?;
    bindings.write_to_file(&arguments.out).map_err(|source| SetupError::write(&arguments.out, source))
}

/// On other systems mlx-sys makes its own bindings.
#[cfg(not(target_os = "linux"))]
pub(super) fn generate(_: &BindingsArguments) -> Result<(), SetupError> {
    Err(SetupError::Bindings { reason: "bindings are generated on Linux only".into() })
}

fn files_ending(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, SetupError> {
    let entries = fs::read_dir(folder).map_err(|source| SetupError::read(folder, source))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    Ok(files)
}
