//! The command `new-spec`: writes a spec, its reference script and its port from a template. They are red until they are
//! filled in, and name what is left to fill in.

mod files;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use thiserror::Error;

use super::{CliError, Project, say};
use crate::error::CommandError;
use files::SpecPaths;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask new-spec flux/vae --template vae      Write the spec, its script and its port\n  \
    cargo xtask new-spec flux --pipeline              Write one spec per component of a pipeline\n  \
    cargo xtask new-spec flux/vae --port-dir src      Write the port to src/flux/vae.rs\n\n\
    Existing files are never overwritten. The command prints what is left to do. The script and\n\
    the port fail with the same reminder until you fill them in.")]
pub(crate) struct Arguments {
    /// Name of the spec as `model/component`, or `model` with --pipeline
    name: String,
    /// Kind of component
    #[arg(long, value_enum, default_value = "blank", conflicts_with = "pipeline")]
    template: Template,
    /// Write the specs of an image pipeline: text_encoder, transformer, scheduler and vae
    #[arg(long)]
    pipeline: bool,
    /// Folder of ports, from the project's root [default: `tests/ports` if it exists, else `src`]
    #[arg(long, value_name = "FOLDER")]
    port_dir: Option<PathBuf>,
    /// Folder of reference scripts, from the project's root [default: the project's `references`, or `exporter/references`]
    #[arg(long, value_name = "FOLDER")]
    script_dir: Option<PathBuf>,
}

/// The kinds of components that have a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum Template {
    /// Latents to an image: convolutions, channels last
    Vae,
    /// Entry, blocks, the inside of one block, exit
    Transformer,
    /// Token ids to hidden states, layer by layer
    TextEncoder,
    /// Timesteps, sigmas, and one sample per step; no weights
    Scheduler,
    /// One input, one checkpoint
    Blank,
}

/// Why nothing was written.
#[derive(Debug, Error)]
pub(crate) enum NewSpecError {
    #[error("`{found}` cannot be the name of a spec: {why}")]
    Name { found: String, why: &'static str },
    #[error("`{}` already exists", path.display())]
    Exists { path: PathBuf },
    #[error("`{}` is outside the project", path.display())]
    Outside { path: PathBuf },
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}

impl CommandError for NewSpecError {
    fn next(&self) -> Option<String> {
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
        let names =
            SpecPaths::new(project, id, arguments.port_dir.as_deref(), arguments.script_dir.as_deref())?;
        planned.extend(names.files(project, *template));
        all.push((names, *template));
    }
    planned.extend(files::module(project, &all));
    // Nothing is written unless every path is free.
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
