//! The files of a new spec: their paths, their texts, and what is left to do.

use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::{NewSpecError, Template};
use crate::Project;
use crate::references::groups;
use mlx_parity_core::files::regular::{TEXT, read_text};
use mlx_parity_core::text::program::{program, suite_command};

/// Names that no Rust module can have.
const RESERVED: [&str; 14] = [
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
            if root.join(&ours).is_dir() { ours } else { "src".into() }
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
            (self.port.clone(), self.fill(project, include_str!("templates/port.rs"), template)),
        ]
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

    /// Returns the file of the model's module, which lists its components.
    fn module(&self) -> PathBuf {
        self.port_dir.join(format!("{}.rs", self.model))
    }

    fn has_module(&self, project: &Project) -> bool {
        let nested = self.port_dir.join(&self.model).join("mod.rs");
        [self.module(), nested].iter().any(|path| project.root().join(path).exists())
    }
}

/// Returns the file of the model's module with these components, unless the model has a module.
pub(super) fn module(project: &Project, all: &[(SpecPaths, Template)]) -> Option<(PathBuf, String)> {
    let (first, _) = all.first().filter(|(first, _)| !first.has_module(project))?;
    let mut components: Vec<String> =
        all.iter().map(|(names, _)| format!("pub mod {};\n", names.component)).collect();
    components.sort();
    Some((
        first.module(),
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
            Self::Scheduler => texts!("scheduler"),
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

/// Returns what to do next, with the lines to add.
pub(super) fn left_to_do(project: &Project, all: &[(SpecPaths, Template)]) -> String {
    let Some((first, _)) = all.first() else { return String::new() };
    let mut text = String::from("\nleft to do:\n");
    let mut step = 0;
    let mut line = |what: String| {
        step += 1;
        let _ = writeln!(text, "  {step}. {what}");
    };
    let lib = first.port_dir.join("lib.rs");
    let module = format!("pub mod {};", first.model);
    if !read_text(&project.root().join(&lib), TEXT)
        .is_ok_and(|text| text.lines().any(|line| line.trim() == module))
    {
        line(format!("add to `{}`: `{module}`", lib.display()));
    }
    for (names, template) in all {
        let (model, component) = (&names.model, &names.component);
        let own = format!("pub mod {component};");
        let file = names.module();
        let found = read_text(&project.root().join(&file), TEXT).unwrap_or_default();
        if !found.lines().any(|line| line.trim() == own) {
            line(format!("add to `{}`: `{own}`", file.display()));
        }
        let registered = registration(names, template);
        line(format!("register the port with the suite in `{}`:\n\n{registered}", suite(project)));
        line(format!(
            "fill in `{}`, then run `{} regenerate-fixtures {model}/{component}`",
            names.script.display(),
            program()
        ));
        line(format!(
            "fill in `{}`, then run `{} {model}/{component}`",
            names.port.display(),
            suite_command()
        ));
    }
    text
}

/// Returns the call that registers the port, with the inputs and weights of its spec.
fn registration(names: &SpecPaths, template: &Template) -> String {
    let (spec, _) = template.texts();
    let inputs =
        spec.lines().find_map(|line| line.strip_prefix("inputs: [")?.strip_suffix(']')).unwrap_or_default();
    let inputs: Vec<String> = inputs.split(", ").map(|input| format!("run.input(\"{input}\")?")).collect();
    let weights = if spec.lines().any(|line| line.starts_with("weights:")) {
        "             run.weights()?.load_into(&mut port)?;\n"
    } else {
        ""
    };
    let (model, component) = (&names.model, &names.component);
    format!(
        "         .port(\"{model}::{component}\", |run| {{\n             \
         let mut port = {model}::{component}::Port::new()?;    // run.params()? has the spec's params\n\
         {weights}             port.forward(&[{}])?;\n             Ok(())\n         }})\n",
        inputs.join(", ")
    )
}

/// Returns the file that the suite most likely is in.
fn suite(project: &Project) -> String {
    let name = project.suite_target();
    let places = [format!("tests/{name}.rs"), format!("tests/{name}/main.rs")];
    let found = places.iter().find(|place| project.root().join(place).is_file());
    found.unwrap_or(&places[0]).clone()
}
