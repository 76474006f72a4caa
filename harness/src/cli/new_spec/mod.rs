//! `cargo xtask new-spec`: a spec, its reference script and its port from a template. What it writes is red until it is
//! filled in, and says so.

mod files;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use thiserror::Error;

use super::{CliError, Project, say};
use files::Names;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask new-spec flux/vae --template vae      the spec, its script and its port\n  \
    cargo xtask new-spec flux --pipeline              text_encoder, transformer, scheduler and vae at once\n  \
    cargo xtask new-spec flux/vae --port-dir src      the port goes to src/flux/vae.rs\n\n\
    Nothing is overwritten. What is left to do is printed, and said again by whatever is not filled in yet.")]
pub(crate) struct Arguments {
    /// `model/component`, or `model` with --pipeline
    name: String,
    /// What the component is
    #[arg(long, value_enum, default_value = "blank", conflicts_with = "pipeline")]
    template: Template,
    /// Write one spec for each component of an image pipeline
    #[arg(long)]
    pipeline: bool,
    /// Where ports are, from the project's root; `tests/src` if it is there, else `src`
    #[arg(long)]
    port_dir: Option<PathBuf>,
    /// Where reference scripts are, from the project's root; `exporter/references`, or where environments are locked
    #[arg(long)]
    script_dir: Option<PathBuf>,
}

/// What a component can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum Template {
    /// Latents to an image: convolutions, channels last
    Vae,
    /// Entry, blocks, one of them from inside, exit
    Transformer,
    /// Token ids to hidden states, layer by layer
    TextEncoder,
    /// Timesteps, sigmas, and a sample for each step; no weights
    Scheduler,
    /// One input, one checkpoint
    Blank,
}

/// Why nothing was written.
#[derive(Debug, Error)]
pub(crate) enum NewSpecError {
    #[error("`{found}` is not a name for a spec: {why}")]
    Name { found: String, why: &'static str },
    #[error("`{}` is there already", path.display())]
    Exists { path: PathBuf },
    #[error("`{}` leads out of the project", path.display())]
    Outside { path: PathBuf },
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}

impl NewSpecError {
    pub(crate) fn next(&self) -> Option<String> {
        match self {
            Self::Name { .. } => Some(
                "write `model/component`, both in lower case with `_` between words, e.g. `flux/text_encoder`".into(),
            ),
            Self::Exists { .. } => Some("choose another name, or move the file away".into()),
            Self::Outside { .. } => Some("name a folder below the project's root".into()),
            Self::Write { .. } => None,
        }
    }
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let wanted: Vec<(String, Template)> = if arguments.pipeline {
        let parts = [
            ("text_encoder", Template::TextEncoder),
            ("transformer", Template::Transformer),
            ("scheduler", Template::Scheduler),
            ("vae", Template::Vae),
        ];
        parts.map(|(part, template)| (format!("{}/{part}", arguments.name), template)).to_vec()
    } else {
        vec![(arguments.name.clone(), arguments.template)]
    };
    let (mut all, mut planned) = (Vec::new(), Vec::new());
    for (id, template) in &wanted {
        let names = Names::new(project, id, arguments.port_dir.as_deref(), arguments.script_dir.as_deref())?;
        planned.extend(names.files(project, *template));
        all.push((names, *template));
    }
    planned.extend(files::module(project, &all));
    // Everything is known to be free before anything is written.
    if let Some((path, _)) =
        planned.iter().find(|(path, _)| std::fs::symlink_metadata(project.root().join(path)).is_ok())
    {
        return Err(NewSpecError::Exists { path: path.clone() }.into());
    }
    for (path, text) in &planned {
        files::write(project, path, text)?;
        say(&format!("wrote {}\n", path.display()));
    }
    say(&files::left_to_do(project, &all));
    Ok(ExitCode::SUCCESS)
}
