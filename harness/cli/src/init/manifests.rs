//! Edits of `Cargo.toml`: dependencies and the test target of a package, and the profile of its workspace. Comments and order
//! of everything else stay.

use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value, table, value};

use super::source::{CrateSource, git_keys};
use crate::mlx_rs_versions::WANTED;
use mlx_parity_core::text::program::program;

/// Crates that compare, hash or read files, which `cargo test` would build without optimisation, and their levels. A run over
/// 1 GiB of goldens takes 37.5 s instead of 2.3 s without them.
pub(super) const OPTIMISED: [(&str, i64); 8] = [
    ("mlx-parity-tensor", 3),
    ("mlx-parity-core", 1),
    ("matrixmultiply", 3),
    ("sha2", 3),
    ("zlib-rs", 3),
    ("crc32fast", 3),
    ("serde-saphyr", 3),
    ("granit-parser", 3),
];

/// What a package's manifest needs.
pub(super) struct PackageNeeds<'a> {
    /// The name of the manifest in messages.
    pub(super) manifest: &'a str,
    pub(super) source: &'a CrateSource,
    /// Whether the person named that source, so that another one is a conflict.
    pub(super) is_named: bool,
    /// The test target of the suite.
    pub(super) suite: &'a str,
}

/// Adds what is missing to a package's manifest. Returns why it cannot, one text per conflict.
pub(super) fn edit_package(document: &mut DocumentMut, needs: &PackageNeeds) -> Vec<String> {
    let mut conflicts = Vec::new();
    let (source, manifest) = (needs.source, needs.manifest);
    let found = entry(document, "mlx-parity").cloned();
    let own = found.as_ref().and_then(CrateSource::of_entry);
    if let (Some(own), true) = (&own, needs.is_named)
        && own != source
    {
        conflicts.push(format!(
            "`{manifest}` has mlx-parity as `{}`, but `{}` is asked for: remove its line, or omit the option",
            shown(found.as_ref()),
            source.entry("mlx-parity").to_string().trim()
        ));
    }
    if found.is_some() && own.is_none() && entry(document, "mlx-parity-tap").is_none() {
        conflicts.push(format!(
            "`{manifest}` has mlx-parity as `{}`, from which the source of mlx-parity-tap is not known: add \
             mlx-parity-tap to `[dependencies]` in the same way",
            shown(found.as_ref())
        ));
    }
    if !conflicts.is_empty() {
        return conflicts;
    }
    // The two crates must come from the same commit: a tap of another one would not be seen.
    let tap = found
        .as_ref()
        .and_then(Item::as_table_like)
        .and_then(git_keys)
        .unwrap_or_else(|| own.as_ref().unwrap_or(source).entry("mlx-parity-tap"));
    add(document, "dependencies", "mlx-parity-tap", tap, &mut conflicts, manifest);
    let mut mlx_rs = InlineTable::new();
    mlx_rs.insert("version", Value::from(WANTED));
    // The features for Metal come with mlx-parity-tap, on Apple targets only.
    mlx_rs.insert("default-features", Value::from(false));
    add(document, "dependencies", "mlx-rs", mlx_rs, &mut conflicts, manifest);
    add(document, "dev-dependencies", "mlx-parity", source.entry("mlx-parity"), &mut conflicts, manifest);
    conflicts.extend(add_test(document, needs.suite, manifest));
    conflicts
}

/// The entry of a crate in `[dependencies]` or `[dev-dependencies]`.
fn entry<'a>(document: &'a DocumentMut, name: &str) -> Option<&'a Item> {
    ["dependencies", "dev-dependencies"].iter().find_map(|key| document.get(key)?.as_table_like()?.get(name))
}

fn shown(entry: Option<&Item>) -> String {
    entry.map(|entry| entry.to_string().trim().to_owned()).unwrap_or_default()
}

fn add(
    document: &mut DocumentMut,
    key: &str,
    name: &str,
    wanted: InlineTable,
    conflicts: &mut Vec<String>,
    manifest: &str,
) {
    if entry(document, name).is_some() {
        return;
    }
    match document.entry(key).or_insert_with(table).as_table_like_mut() {
        Some(table) => {
            table.insert(name, value(wanted));
        }
        None => conflicts.push(format!("`{manifest}` has a key `{key}` that is not a table")),
    }
}

/// Adds the test target of the suite, which needs `harness = false`.
fn add_test(document: &mut DocumentMut, suite: &str, manifest: &str) -> Option<String> {
    let other_name = format!(
        "if `{suite}` is a test of your own, choose another name with `suite = \"…\"` in `[workspace.metadata.parity]` \
         (in a single package: `[package.metadata.parity]`), and run this command again"
    );
    let is_suite = |name: Option<&Item>| name.and_then(Item::as_str) == Some(suite);
    let without_harness = |harness: Option<&Item>| harness.and_then(Item::as_bool) == Some(false);
    let conflict = || {
        Some(format!(
            "`{manifest}` has a test target `{suite}` that runs with libtest's harness, which would find no test in a \
             suite: add `harness = false` to its `[[test]]`; {other_name}"
        ))
    };
    match document.get("test") {
        None => {}
        Some(Item::ArrayOfTables(tests)) => {
            if let Some(test) = tests.iter().find(|test| is_suite(test.get("name"))) {
                return if without_harness(test.get("harness")) { None } else { conflict() };
            }
        }
        Some(_) => {
            return Some(format!(
                "`{manifest}` has a key `test` that is not written as `[[test]]`: add `[[test]]` with `name = \
                 \"{suite}\"` and `harness = false` yourself"
            ));
        }
    }
    let mut test = Table::new();
    test.insert("name", value(suite));
    test.insert("harness", value(false));
    let tests = document.entry("test").or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    if let Some(tests) = tests.as_array_of_tables_mut() {
        tests.push(test);
    }
    None
}

/// Adds what is missing to the profile `dev` of a workspace's manifest. A key that is set stays as it is.
pub(super) fn edit_profile(document: &mut DocumentMut, manifest: &str) -> Vec<String> {
    let not_a_table = |key: &str| vec![format!("`{manifest}` has a key `{key}` that is not a table")];
    let mut hidden = Table::new();
    hidden.set_implicit(true);
    let profile = document.entry("profile").or_insert_with(|| Item::Table(hidden.clone()));
    let Some(profile) = profile.as_table_like_mut() else { return not_a_table("profile") };
    let Some(dev) = profile.entry("dev").or_insert_with(table).as_table_like_mut() else {
        return not_a_table("profile.dev");
    };
    // Backtraces keep their lines, and the edit loop is a third faster than with complete debug information.
    if !dev.contains_key("debug") {
        dev.insert("debug", value("line-tables-only"));
    }
    // Thin-local LTO, the default, doubles the build time of the optimised crates.
    if !dev.contains_key("lto") {
        dev.insert("lto", value("off"));
    }
    let packages = dev.entry("package").or_insert_with(|| Item::Table(hidden.clone()));
    let Some(packages) = packages.as_table_like_mut() else { return not_a_table("profile.dev.package") };
    let mut is_first = true;
    for (name, level) in OPTIMISED {
        if packages.contains_key(name) {
            continue;
        }
        let mut optimised = Table::new();
        optimised.insert("opt-level", value(level));
        let comment = match std::mem::take(&mut is_first) {
            true => "\n# Comparing, hashing and reading goldens is slow without optimisation.\n",
            false => "",
        };
        optimised.decor_mut().set_prefix(comment);
        packages.insert(name, Item::Table(optimised));
    }
    Vec::new()
}

/// The two files that a Cargo configuration must include, in order: later ones win.
const INCLUDES: [&str; 2] = ["mlx-missing.toml", "../.parity/mlx/config.toml"];

/// Adds the files that MLX needs on Linux to the `include` of a Cargo configuration.
pub(super) fn edit_config(document: &mut DocumentMut, name: &str) -> Vec<String> {
    let mut entries = match document.get("include") {
        None => Array::new(),
        Some(Item::Value(Value::Array(entries))) => entries.clone(),
        Some(Item::Value(Value::String(single))) => Array::from_iter([single.value().as_str()]),
        Some(_) => return vec![format!("`{name}` has an `include` that is neither a path nor a list")],
    };
    let path = |entry: &Value| match entry {
        Value::InlineTable(table) => table.get("path").and_then(Value::as_str).map(str::to_owned),
        other => other.as_str().map(str::to_owned),
    };
    let missing: Vec<&str> = INCLUDES
        .into_iter()
        .filter(|wanted| !entries.iter().any(|entry| path(entry).as_deref() == Some(*wanted)))
        .collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let is_new = entries.is_empty();
    for wanted in missing {
        if wanted == INCLUDES[1] {
            let mut optional = InlineTable::new();
            optional.insert("path", Value::from(wanted));
            optional.insert("optional", Value::from(true));
            entries.push(Value::InlineTable(optional));
        } else {
            // Before the generated file, which replaces its advice.
            entries.insert(if is_new { 0 } else { entries.len() }, wanted);
        }
    }
    let is_absent = !document.contains_key("include");
    document.insert("include", value(entries));
    if is_absent && let Some(next) = document.iter_mut().find_map(|(_, item)| item.as_table_mut()) {
        let before = next.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default().to_owned();
        if !before.starts_with('\n') {
            next.decor_mut().set_prefix(format!("\n{before}"));
        }
    }
    if let Some(mut key) = document.key_mut("include") {
        let comment = format!(
            "# On Linux, `{} setup` builds MLX's CPU backend and writes the last file. Before that, the first one makes\n\
             # the compiler print what to do.\n",
            program()
        );
        let before =
            key.leaf_decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default().to_owned();
        if !before.contains("CPU backend") {
            key.leaf_decor_mut().set_prefix(format!("{before}{comment}"));
        }
    }
    Vec::new()
}
