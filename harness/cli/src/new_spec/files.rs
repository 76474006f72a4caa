//! The files of a new spec: their paths, their texts, and what is left to do.

use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::{NewSpecError, Template};
use crate::Project;
use crate::references::groups;
use crate::suite_target::check_suite_target;
use crate::workspace::packages;
use mlx_parity_core::files::regular::{TEXT, read_text};
use mlx_parity_core::text::program::{program, suite_command};

/// Names that no Rust module can have.
pub(super) const RESERVED: [&str; 14] = [
    "as", "async", "await", "box", "crate", "dyn", "fn", "impl", "mod", "move", "self", "super", "type",
    "use",
];

/// The names and paths of one new spec.
pub(super) struct SpecPaths {
    pub(super) model: String,
    pub(super) component: String,
    /// From the root, as all paths that follow.
    pub(super) spec: PathBuf,
    pub(super) script: PathBuf,
    pub(super) port: PathBuf,
    port_dir: PathBuf,
}

impl SpecPaths {
    pub(super) fn new(
        project: &Project,
        id: &str,
        port_dir: Option<&Path>,
        script_dir: Option<&Path>,
    ) -> Result<Self, NewSpecError> {
        let wrong = |why| NewSpecError::Name { found: id.to_owned(), why };
        let (model, component) = id.split_once('/').ok_or_else(|| wrong("it has no `/`"))?;
        for part in [model, component] {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            if !part.starts_with(|c: char| c.is_ascii_lowercase()) || !part.chars().all(plain) {
                return Err(wrong(
                    "its parts may contain only a to z, 0 to 9 and `_`, and must begin with a letter",
                ));
            }
            if RESERVED.contains(&part) {
                return Err(wrong("a Rust module cannot have that name"));
            }
        }
        let root = project.root();
        let relative = |path: PathBuf| path.strip_prefix(root).map(Path::to_owned).unwrap_or(path);
        let port_dir = port_dir.map(Path::to_owned).unwrap_or_else(|| {
            let ours = PathBuf::from("tests/ports");
            // The suite is beside the port, in the same package.
            let package = || suite_package(project).map(relative).unwrap_or_default();
            if root.join(&ours).is_dir() { ours } else { package().join("src") }
        });
        let script_dir = script_dir
            .map(Path::to_owned)
            .or_else(|| project.references_folder().map(relative))
            .unwrap_or_else(|| "exporter/references".into());
        let names = Self {
            spec: relative(project.spec_root()).join(model).join(format!("{component}.yaml")),
            script: script_dir.join(format!("{model}_{component}.py")),
            port: port_dir.join(model).join(format!("{component}.rs")),
            port_dir,
            model: model.to_owned(),
            component: component.to_owned(),
        };
        for path in [&names.spec, &names.script, &names.port] {
            if !path.components().all(|part| matches!(part, Component::Normal(_))) {
                return Err(NewSpecError::Outside { path: path.clone() });
            }
        }
        Ok(names)
    }

    /// Returns the files of the spec, from the root, with their texts.
    pub(super) fn files(&self, project: &Project, template: Template) -> Vec<(PathBuf, String)> {
        let (spec, script) = template.texts();
        vec![
            (self.spec.clone(), self.fill(project, spec, template)),
            (self.script.clone(), self.fill(project, script, template)),
            (self.port.clone(), self.port_text(project, "")),
        ]
    }

    /// Returns the names with another script.
    pub(super) fn with_script(self, script: PathBuf) -> Self {
        Self { script, ..self }
    }

    /// Returns the port to fill in. `taps` are lines of comments for its forward pass.
    pub(super) fn port_text(&self, project: &Project, taps: &str) -> String {
        let text = include_str!("templates/port.rs").replace("        // {{taps}}\n", taps);
        self.fill(project, &text, Template::Blank)
    }

    fn fill(&self, project: &Project, text: &str, template: Template) -> String {
        let path = |path: &Path| path.to_string_lossy().replace('\\', "/");
        text.replace("{{environment}}", environment(project, template))
            .replace("{{model}}", &self.model)
            .replace("{{component}}", &self.component)
            .replace("{{spec}}", &path(&self.spec))
            .replace("{{script}}", &path(&self.script))
            .replace("{{port_file}}", &path(&self.port))
            .replace("{{schema}}", "../schema.json")
            .replace("{{program}}", program())
    }

    /// Returns the file of the model's module, which lists its components. It need not exist.
    fn module(&self, project: &Project) -> PathBuf {
        let nested = self.port_dir.join(&self.model).join("mod.rs");
        match project.root().join(&nested).exists() {
            true => nested,
            false => self.port_dir.join(format!("{}.rs", self.model)),
        }
    }

    /// Returns whether `lib.rs` has the model's module with its components inside: `pub mod llama { pub mod decoder; }`.
    fn has_inline_module(&self, project: &Project) -> bool {
        let lib = read_text(&project.root().join(self.port_dir.join("lib.rs")), TEXT).unwrap_or_default();
        let opening = format!("pub mod {} {{", self.model);
        lib.lines().any(|line| line.trim_start().starts_with(&opening))
    }

    /// Returns whether the port is still the one to fill in.
    fn is_port_template(&self, project: &Project) -> bool {
        read_text(&project.root().join(&self.port), TEXT).is_ok_and(|text| text.contains("custom(FILL_IN)"))
    }
}

/// Returns the file of the model's module with these components, unless the model has a module.
pub(super) fn module(project: &Project, all: &[(SpecPaths, String)]) -> Option<(PathBuf, String)> {
    let (first, _) = all.first().filter(|(first, _)| {
        !first.has_inline_module(project) && !project.root().join(first.module(project)).exists()
    })?;
    let mut components: Vec<String> =
        all.iter().map(|(names, _)| format!("pub mod {};\n", names.component)).collect();
    components.sort();
    Some((
        first.module(project),
        format!("//! {}, one module per component.\n\n{}", first.model, components.concat()),
    ))
}

impl Template {
    /// Returns the texts of the spec and of the script.
    fn texts(self) -> (&'static str, &'static str) {
        macro_rules! texts {
            ($name:literal) => {
                (
                    include_str!(concat!("templates/", $name, ".yaml")),
                    include_str!(concat!("templates/", $name, ".py")),
                )
            };
        }
        match self {
            Self::Vae => texts!("vae"),
            Self::Transformer => texts!("transformer"),
            Self::TextEncoder => texts!("text_encoder"),
            Self::Llm => texts!("llm"),
            Self::Scheduler => texts!("scheduler"),
            Self::LogMel => texts!("log_mel"),
            Self::Stft => texts!("stft"),
            Self::Image => texts!("image"),
            Self::Tokenizer => texts!("tokenizer"),
            Self::Blank => texts!("blank"),
        }
    }
}

/// Returns the line that asks for the environment `torch`, if the project has one and the template needs it.
fn environment(project: &Project, template: Template) -> &'static str {
    let has =
        |folder: PathBuf| groups(&folder).is_ok_and(|groups| groups.iter().any(|group| group == "torch"));
    if template != Template::Blank && project.references_folder().is_some_and(has) {
        "# parity: environment = \"torch\"\n"
    } else {
        ""
    }
}

/// Writes a file that does not exist yet.
pub(super) fn write(project: &Project, path: &Path, text: &str) -> Result<(), NewSpecError> {
    let full = project.root().join(path);
    let failed = |source| NewSpecError::Write { path: path.to_owned(), source };
    fs::create_dir_all(full.parent().unwrap_or(&full)).map_err(failed)?;
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&full).map_err(failed)?;
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(failed)
}

/// Returns what to do next, with the lines to add. Each spec comes with its text.
pub(super) fn left_to_do(project: &Project, all: &[(SpecPaths, String)]) -> String {
    let Some((first, _)) = all.first() else { return String::new() };
    let mut text = String::from("\nleft to do:\n");
    let mut step = 0;
    let mut line = |what: String| {
        step += 1;
        let _ = writeln!(text, "  {step}. {what}");
    };
    let lib = first.port_dir.join("lib.rs");
    let module = format!("pub mod {};", first.model);
    let is_inline = first.has_inline_module(project);
    if !is_inline
        && !read_text(&project.root().join(&lib), TEXT)
            .is_ok_and(|text| text.lines().any(|line| line.trim() == module))
    {
        line(format!("add to `{}`: `{module}`", lib.display()));
    }
    for (names, spec) in all {
        let (model, component) = (&names.model, &names.component);
        let own = format!("pub mod {component};");
        let file = names.module(project);
        let found = read_text(&project.root().join(&file), TEXT).unwrap_or_default();
        if !is_inline && !found.lines().any(|line| line.trim() == own) {
            line(format!("add to `{}`: `{own}`", file.display()));
        }
        let suite = suite(project);
        let is_registered = read_text(&project.root().join(&suite), TEXT)
            .is_ok_and(|text| text.contains(&format!("\"{model}::{component}\"")));
        if !is_registered {
            let registered = registration(project, names, spec);
            line(format!("register the port with the suite in `{suite}`:\n\n{registered}"));
        }
        let script = project.root().join(&names.script);
        let is_template = read_text(&script, TEXT)
            .is_ok_and(|text| text.contains("NotImplementedError(\n        \"fill in:"));
        let fill_in =
            if is_template { format!("fill in `{}`, then ", names.script.display()) } else { String::new() };
        line(format!("{fill_in}run `{} regenerate-fixtures {model}/{component}`", program()));
        let task = match names.is_port_template(project) {
            true => format!("fill in `{}`", names.port.display()),
            false => format!("make sure that `{}` has these taps", names.port.display()),
        };
        line(format!("{task}, then run `{} {model}/{component}`", suite_command()));
    }
    text
}

/// Returns the call that registers the port, with the inputs and weights of its spec.
fn registration(project: &Project, names: &SpecPaths, spec: &str) -> String {
    let inputs =
        spec.lines().find_map(|line| line.strip_prefix("inputs: [")?.strip_suffix(']')).unwrap_or_default();
    let inputs: Vec<String> = inputs
        .split(", ")
        .filter(|input| !input.is_empty())
        .map(|input| format!("run.input(\"{}\")?", input.trim_matches('"')))
        .collect();
    // A suite in another package than the workspace's root names the library by its package.
    let library = if names.port_dir.starts_with("tests/ports") { String::new() } else { library(project) };
    let weights = if spec.lines().any(|line| line.starts_with("weights:")) {
        "             run.weights()?.load_into(&mut port)?;\n"
    } else {
        ""
    };
    let (model, component) = (&names.model, &names.component);
    format!(
        "         .port(\"{model}::{component}\", |run| {{\n             \
         let mut port = {library}{model}::{component}::Port::new()?;    // `run.params()?` reads the spec's params into a struct with `serde::Deserialize` (`cargo add serde --features derive`)\n\
         {weights}             port.forward(&[{}])?;\n             Ok(())\n         }})\n",
        inputs.join(", ")
    )
}

/// Returns the path of the port's library in the suite, with `::` at its end.
fn library(project: &Project) -> String {
    let packages = packages(project.root()).unwrap_or_default();
    let owner = packages.iter().find(|package| package.has_target("test", Some(project.suite_target())));
    let library = owner.and_then(|owner| {
        owner.targets.iter().find(|target| target.kind.iter().any(|kind| kind == "lib")).map(|lib| &lib.name)
    });
    library.map(|name| format!("{}::", name.replace('-', "_"))).unwrap_or_default()
}

/// Returns the folder of the package with the suite.
fn suite_package(project: &Project) -> Option<PathBuf> {
    let manifests = check_suite_target(project).ok()?;
    manifests.first()?.parent().map(Path::to_owned)
}

/// Returns the file that the suite most likely is in.
fn suite(project: &Project) -> String {
    let name = project.suite_target();
    let root = project.root();
    let package = suite_package(project).unwrap_or_else(|| root.to_owned());
    let places = [package.join(format!("tests/{name}.rs")), package.join(format!("tests/{name}/main.rs"))];
    let found = places.iter().find(|place| place.is_file()).unwrap_or(&places[0]);
    found.strip_prefix(root).unwrap_or(found).display().to_string()
}
