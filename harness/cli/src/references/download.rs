//! How large the download for a lock is.

use std::fmt;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::uv::SyncPlan;
use super::{ReferencesError, Uv, size};
use mlx_parity_core::files::regular;
use mlx_parity_core::spec::list::counted;

/// The packages to fetch, and their size as far as it is known.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Download {
    pub(super) bytes: u64,
    /// Packages whose size is unknown.
    pub(super) unknown: usize,
    #[serde(skip)]
    packages: usize,
    /// Whether every package that is installed is also fetched; otherwise `bytes` is an upper bound.
    #[serde(skip)]
    exact: bool,
}

#[derive(Deserialize)]
struct WheelLock {
    #[serde(default)]
    package: Vec<LockedPackage>,
}

#[derive(Serialize, Deserialize)]
struct LockedPackage {
    name: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    wheels: Vec<LockedWheel>,
}

#[derive(Serialize, Deserialize)]
struct LockedWheel {
    #[serde(default)]
    url: String,
    size: Option<u64>,
}

/// Chooses each package's wheel for the Python that runs this, and asks the index for sizes that the lock does not have.
const MEASURE: &str = r#"
import json, sys, urllib.parse, urllib.request
from concurrent.futures import ThreadPoolExecutor
try:
    from packaging.tags import sys_tags
    from packaging.utils import parse_wheel_filename
except ImportError:
    from pip._vendor.packaging.tags import sys_tags
    from pip._vendor.packaging.utils import parse_wheel_filename
rank = {}
for place, tag in enumerate(sys_tags()):
    rank.setdefault(tag, place)
def size(package):
    fitting = []
    for wheel in package["wheels"]:
        name = urllib.parse.unquote(wheel["url"].rsplit("/", 1)[-1])
        places = [rank[tag] for tag in parse_wheel_filename(name)[3] if tag in rank]
        if places:
            fitting.append((min(places), wheel["size"], wheel["url"]))
    if not fitting:
        return None
    _, known, url = min(fitting, key=lambda found: found[0])
    if known is not None:
        return known
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=10) as answer:
            return int(answer.headers["content-length"])
    except Exception:
        return None
with ThreadPoolExecutor(8) as pool:
    sizes = list(pool.map(size, json.load(sys.stdin)))
print(json.dumps({"bytes": sum(found or 0 for found in sizes), "unknown": sizes.count(None)}))
"#;

impl Download {
    /// Adds up the wheels that the plan installs. Packages of unknown size are counted, not guessed.
    pub(super) fn measure(uv: &Uv, folder: &Path, plan: &SyncPlan) -> Result<Self, ReferencesError> {
        let path = folder.join("uv.lock");
        let text = regular::read_text(&path, regular::TEXT)
            .map_err(|source| ReferencesError::Read { path: path.clone(), source })?;
        let lock: WheelLock = toml::from_str(&text)
            .map_err(|source| ReferencesError::Toml { path, source: Box::new(source) })?;
        let packages: Vec<LockedPackage> = lock
            .package
            .into_iter()
            .filter(|package| {
                plan.packages
                    .iter()
                    .any(|(name, version)| (name, version) == (&package.name, &package.version))
            })
            .collect();
        let unknown = Self { unknown: plan.packages.len(), ..Self::default() };
        let measured = uv.python(folder).and_then(|python| measure(&python, &packages)).unwrap_or(unknown);
        Ok(Self { packages: plan.downloads, exact: plan.downloads == plan.packages.len(), ..measured })
    }
}

fn measure(python: &Path, packages: &[LockedPackage]) -> Option<Download> {
    let mut child = Command::new(python)
        .args(["-c", MEASURE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let _ = child.stdin.take()?.write_all(&serde_json::to_vec(packages).ok()?);
    serde_json::from_slice(&child.wait_with_output().ok()?.stdout).ok()
}

impl fmt::Display for Download {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a download of {}", counted(self.packages, "package"))?;
        match self.bytes {
            0 => {}
            bytes if self.exact => write!(f, ", {}", size::words(bytes))?,
            bytes => write!(f, ", at most {}", size::words(bytes))?,
        }
        match self.unknown {
            0 => Ok(()),
            unknown => write!(f, ", {unknown} of unknown size"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_shows_how_exact_the_size_is() {
        let download = |bytes, unknown, exact| Download { bytes, unknown, packages: 3, exact }.to_string();
        assert_eq!(download(17_000_000, 0, true), "a download of 3 packages, 17 MB");
        assert_eq!(
            download(2_500_000_000, 1, false),
            "a download of 3 packages, at most 2.5 GB, 1 of unknown size"
        );
        assert_eq!(download(0, 3, true), "a download of 3 packages, 3 of unknown size");
    }
}
