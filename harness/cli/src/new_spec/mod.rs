//! The command `new-spec`: writes a spec, its reference script and its port from a template, or a spec from what a reference
//! records. They are red until they are filled in, and name what is left to fill in.

mod files;
mod fold;
mod from_reference;
mod insert;
mod left_out;
mod missing;
mod names;
mod spec_text;
mod taps;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use thiserror::Error;

use super::{CliError, Project, say};
use crate::error::CommandError;
use crate::regenerate::parse_memory;
use files::SpecPaths;
use mlx_parity_core::run_folder::FolderError;
use mlx_parity_core::text::program::program;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask new-spec llama/decoder --from exporter/references/llama.py --param layers=2\n                                              \
    Write a spec with everything that the script records\n  \
    cargo xtask new-spec llama/decoder --missing      Show what the spec does not declare\n  \
    cargo xtask new-spec flux/vae --template vae      Write the spec, its script and its port\n  \
    cargo xtask new-spec flux --pipeline              Write one spec per component of a pipeline\n  \
    cargo xtask new-spec flux/vae --port-dir src      Write the port to src/flux/vae.rs\n\n\
    --from runs the script once with `--list`, with a limit on its memory. Params that you do not name\n\
    have the script's defaults. The spec names every golden in call order with dtype, shape, stage\n\
    and level, with loops folded and `noise: 8`. The command prints the taps that the port needs.\n\n\
    Existing files are never overwritten. The command prints what is left to do. The script and\n\
    the port fail with the same reminder until you fill them in.")]
pub(crate) struct Arguments {
    /// Name of the spec as `model/component`, or `model` with --pipeline
    name: String,
    /// Kind of component
    #[arg(long, value_enum, default_value = "blank", conflicts_with = "pipeline")]
    template: Template,
    /// Write the specs of an image pipeline in the order of porting: vae, transformer, scheduler and text_encoder
    #[arg(long)]
    pipeline: bool,
    /// Write the spec from what this reference script records
    #[arg(long, value_name = "SCRIPT", conflicts_with_all = ["template", "pipeline"])]
    from: Option<PathBuf>,
    /// With --from: a parameter of the script; the value is JSON or plain text (repeatable)
    #[arg(long, value_name = "NAME=VALUE", requires = "from")]
    param: Vec<String>,
    /// With --from: a JSON file with parameters of the script
    #[arg(long, value_name = "FILE", requires = "from")]
    params: Option<PathBuf>,
    /// Show what an existing spec does not declare: goldens of its reference, and taps of the last run
    #[arg(long, conflicts_with_all = ["template", "pipeline", "from", "port_dir", "script_dir"])]
    missing: bool,
    /// With --missing: write the lines into the spec
    #[arg(long, requires = "missing")]
    write: bool,
    /// With --from or --missing: how much memory the script may use [default: half of the machine's]
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    memory: Option<u64>,
    /// With --from or --missing: download the packages of the script without asking
    #[arg(long)]
    yes: bool,
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
    /// Input, blocks, the inside of one block with its residuals, output
    Transformer,
    /// A causal language model: token ids to logits, with the inside of one layer
    Llm,
    /// Token ids to hidden states, layer by layer
    TextEncoder,
    /// Lengths and order of timesteps and sigmas, and one sample per step; no weights
    Scheduler,
    /// Samples to log-mel features: frames, power, filters, logarithms; no weights
    LogMel,
    /// A short-time Fourier transform, a change of the spectrum, and the way back; no weights
    Stft,
    /// The bytes of a picture to the input of a vision model: resized, normalised; no weights
    Image,
    /// A chat template and a tokenizer: text to ids and back; no weights
    Tokenizer,
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
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("`{}` is not a JSON object of parameters", path.display())]
    Params { path: PathBuf, source: serde_json::Error },
    #[error("`--param {found}` is not NAME=VALUE")]
    Param { found: String },
    #[error("`{script}` records no golden that proves anything")]
    NoGoldens { script: String },
    #[error("spec `{id}` has no `reference`, so nothing records goldens for it")]
    NoReference { id: String },
    #[error("the spec would not be valid: {problem}")]
    Unusable { problem: String },
    #[error(transparent)]
    Folder(#[from] FolderError),
}

impl CommandError for NewSpecError {
    fn next(&self) -> Option<String> {
        match self {
            Self::Name { .. } => Some(
                "write `model/component`, both in lower case with `_` between words, e.g. `flux/text_encoder`".into(),
            ),
            Self::Exists { path } if path.extension().is_some_and(|extension| extension == "yaml") => Some(format!(
                "choose another name, or move the file away; `{} new-spec NAME --missing --write` adds what an existing spec lacks",
                program()
            )),
            Self::Exists { .. } => Some("choose another name, or move the file away".into()),
            Self::Outside { .. } => Some("name a folder below the project's root".into()),
            Self::Read { .. } => Some("name a file that exists".into()),
            Self::Param { .. } | Self::Params { .. } => {
                Some("write `--param layers=2`, or `{\"layers\": 2}` in the file of `--params`".into())
            }
            Self::NoGoldens { .. } => {
                Some("record tensors in the script with `rec.save(name, x)` or `rec.hook(model)`".into())
            }
            Self::NoReference { .. } => Some("name the script in `reference.script` of the spec".into()),
            Self::Unusable { .. } => {
                Some("see the names that the script records with `python SCRIPT --list`, and rename those that a spec \
                      cannot have".into())
            }
            Self::Write { .. } | Self::Folder(_) => None,
        }
    }
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    if arguments.missing {
        missing::run(project, arguments)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(script) = &arguments.from {
        from_reference::run(project, arguments, script)?;
        return Ok(ExitCode::SUCCESS);
    }
    let wanted: Vec<(String, Template)> = if arguments.pipeline {
        // Backwards from the pixels: a VAE shows at once whether pictures are right, and everything before it feeds it.
        let parts = [
            ("vae", Template::Vae),
            ("transformer", Template::Transformer),
            ("scheduler", Template::Scheduler),
            ("text_encoder", Template::TextEncoder),
        ];
        parts.map(|(part, template)| (format!("{}/{part}", arguments.name), template)).to_vec()
    } else {
        vec![(arguments.name.clone(), arguments.template)]
    };
    let (mut all, mut planned) = (Vec::new(), Vec::new());
    for (id, template) in &wanted {
        let names =
            SpecPaths::new(project, id, arguments.port_dir.as_deref(), arguments.script_dir.as_deref())?;
        let files = names.files(project, *template);
        let spec = files.first().map(|(_, text)| text.clone()).unwrap_or_default();
        planned.extend(files);
        all.push((names, spec));
    }
    planned.extend(files::module(project, &all));
    check_free(project, planned.iter().map(|(path, _)| path))?;
    for (path, text) in &planned {
        files::write(project, path, text)?;
        say(&format!("wrote {}\n", path.display()));
    }
    say(&files::left_to_do(project, &all));
    Ok(ExitCode::SUCCESS)
}

/// Fails if a path is taken: nothing is written unless all are free.
fn check_free<'a>(
    project: &Project,
    mut paths: impl Iterator<Item = &'a PathBuf>,
) -> Result<(), NewSpecError> {
    let taken = paths.find(|path| std::fs::symlink_metadata(project.root().join(path)).is_ok());
    taken.map_or(Ok(()), |path| Err(NewSpecError::Exists { path: path.clone() }))
}
