//! The command `diff`: compares any two files or folders of tensors in the way that the suite compares checkpoints. It needs
//! no spec and no MLX.

mod causes;
mod gates;
mod late_bar;
mod names;
mod neighbours;
mod order;
mod recipe;
mod side;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use thiserror::Error;

use self::gates::Gates;
use self::late_bar::LateBar;
use self::names::{Matched, Rules, Shapes, SideName, matched};
use self::side::DiffSide;
use super::{CliError, Project, say};
use mlx_parity_core::compare::compare;
use mlx_parity_core::files::atomic::write_atomically;
use mlx_parity_core::gate::Rule;
use mlx_parity_core::golden::FixtureError;
use mlx_parity_core::record::Record;
use mlx_parity_core::report::{Known, Pair, later_causes, pair_failure, pairs_ladder};
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::spec::{SpecError, parse_layout};
use mlx_parity_core::tensor::{CastError, Dtype, Tensor, TensorError, TensorView, ViewError, cast};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask diff reference.safetensors port.safetensors\n  \
    cargo xtask diff dumps/torch dumps/mlx --rename blocks=layers --noise dumps/torch_float64\n  \
    cargo xtask diff fixtures/gated_mlp/block dumps/mlx --noise fixtures/gated_mlp/block\n  \
    cargo xtask diff a.npz b.npz --policy bf16 --cast bfloat16 --json diff.jsonl\n\n\
    In a folder, a tensor's name is the path of its file without the extension, then its name in the\n\
    file, all joined with dots.\n\n\
    Exits with 1 when tensors differ or have no counterpart (unless --ignore-extra), with 2 when they\n\
    could not be compared, else with 0.")]
pub(crate) struct Arguments {
    /// Expected tensors: an .npy, .npz or .safetensors file, a folder of them, or a fixture set
    a: PathBuf,
    /// Actual tensors, in any of these forms
    b: PathBuf,
    /// Allowed error of an element, relative to the expected value
    #[arg(long, requires = "atol", value_parser = tolerance)]
    rtol: Option<f64>,
    /// Allowed absolute error of an element, added to the relative one
    #[arg(long, requires = "rtol", value_parser = tolerance)]
    atol: Option<f64>,
    /// Tolerance of this name in the project's policies.yaml
    #[arg(long, conflicts_with_all = ["rtol", "atol"])]
    policy: Option<String>,
    /// Noise floors from a fixture set, or from a float64 run of the same tensors
    #[arg(long, value_name = "SET_OR_DUMP", conflicts_with_all = ["rtol", "atol", "policy"])]
    noise: Option<PathBuf>,
    /// Allowed error in multiples of the noise floor [default: 8]
    #[arg(long, value_name = "K", requires = "noise", value_parser = multiple_of_floor)]
    times: Option<f64>,
    /// Replace the dotted segments OLD with NEW in A's names, as in a spec's `weights.rename`; `^OLD$=NEW` replaces a whole name
    #[arg(long, value_name = "OLD=NEW")]
    rename: Vec<String>,
    /// Pair only equal names, not similar ones
    #[arg(long)]
    exact_names: bool,
    /// List tensors without a counterpart, but do not fail
    #[arg(long)]
    ignore_extra: bool,
    /// Axes of A and of B, as in "n c h w -> n h w c"; applies to tensors of A with that many axes
    #[arg(long)]
    layout: Option<String>,
    /// Cast both sides to this dtype first
    #[arg(long, value_name = "DTYPE", value_parser = dtype)]
    cast: Option<Dtype>,
    /// Let NaN agree with NaN
    #[arg(long)]
    nan_equal: bool,
    /// File with A's names in the order in which they are computed, one per line
    #[arg(long, value_name = "FILE")]
    order: Option<PathBuf>,
    /// Write one record per pair to this file, as JSON lines (docs/src/record.md describes them)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Why two sides could not be compared.
#[derive(Debug, Error)]
pub(crate) enum DiffError {
    #[error("`{}` does not exist", path.display())]
    NotThere { path: PathBuf },
    #[error("`{}` holds no tensors: expected .npy, .npz or .safetensors files with at least one tensor", path.display())]
    NoTensors { path: PathBuf },
    #[error("`{}` and `{}` both have the tensor `{name}`", first.display(), second.display())]
    TwoTensors { name: String, first: PathBuf, second: PathBuf },
    #[error("cannot list the files in `{}`", path.display())]
    Walk { path: PathBuf, source: walkdir::Error },
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Tensor(#[from] TensorError),
    #[error(transparent)]
    Fixture(#[from] FixtureError),
    #[error("`--rename {rule}` is not a rule: expected `OLD=NEW`, or `^OLD$=NEW` for a whole name")]
    Rename { rule: String },
    #[error("the rules rename both `{first}` and `{second}` to `{name}`")]
    TwoNames { name: String, first: String, second: String },
    #[error("policy `{name}` does not exist in `{}`{near}", path.display())]
    Policy { name: String, path: PathBuf, near: String },
    #[error(transparent)]
    Policies(Box<SpecError>),
    #[error("`{}` has no tensor `{name}` to measure the floor with{near}", path.display())]
    NoTruth { name: String, path: PathBuf, near: String },
    #[error(
        "cannot measure the floor of `{name}`: the tensor is {golden}, but its counterpart is {found}, expected float64 of the \
         same shape"
    )]
    Truth { name: String, golden: String, found: String },
    #[error("{message}: {allowed}")]
    Layout { message: String, allowed: &'static str },
    #[error("`--layout` cannot be applied to `{name}`")]
    View { name: String, source: ViewError },
    #[error("`{name}` of {side} cannot be cast")]
    Cast { name: String, side: &'static str, source: CastError },
    #[error("`{}` names no tensor of `{}`", path.display(), side.display())]
    Order { path: PathBuf, side: PathBuf },
    #[error("`order` in the metadata of `{}` is not a JSON list of names", path.display())]
    OrderMetadata { path: PathBuf, source: serde_json::Error },
}

impl crate::error::CommandError for DiffError {
    fn next(&self) -> Option<String> {
        None
    }
}

fn tolerance(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "expected a finite number, 0 or more".to_owned())
}

fn multiple_of_floor(text: &str) -> Result<f64, String> {
    tolerance(text)?;
    text.parse::<f64>()
        .ok()
        .filter(|number| *number > 0.0)
        .ok_or_else(|| "expected a number above 0".to_owned())
}

fn dtype(text: &str) -> Result<Dtype, String> {
    let names = Dtype::ALL.map(Dtype::name).join(", ");
    Dtype::from_name(text).ok_or_else(|| format!("expected one of {names}"))
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let (a, b) = (DiffSide::open(&arguments.a)?, DiffSide::open(&arguments.b)?);
    let layout = arguments.layout.as_deref().map(parse_layout).transpose();
    let layout = layout.map_err(|(message, allowed)| DiffError::Layout { message, allowed })?;
    let diff = TensorDiff {
        a,
        b,
        gates: Gates::of(arguments, &project.spec_root())?,
        layout,
        cast: arguments.cast,
        nan_equal: arguments.nan_equal,
    };
    let (order, ordered_by) = order::ordered(&diff.a, arguments.order.as_deref())?;
    say(&format!(
        "A      {}\nB      {}\ngate   {}\norder  {ordered_by}\n\n",
        diff.a.about(),
        diff.b.about(),
        diff.gates.about()
    ));
    let Matched { pairs: mut places, only_a, only_b } =
        diff.matched(&Rules::parse(&arguments.rename)?, !arguments.exact_names)?;
    let mut rank = vec![0; order.len()];
    order.iter().enumerate().for_each(|(place, at)| rank[*at] = place);
    places.sort_by_key(|(at, ..)| rank[*at]);
    let mut pairs = diff.compare(&places)?;
    let not_searched = diff.find_causes(&mut pairs, &places, &order)?;
    let names = |side: &DiffSide, places: &[usize]| -> Vec<String> {
        let names: Vec<&str> = side.names().collect();
        places.iter().map(|at| names[*at].to_owned()).collect()
    };
    let (only_a, only_b) = (names(&diff.a, &only_a), names(&diff.b, &only_b));
    say(&pairs_ladder(&pairs, &only_a, &only_b, true));
    if let Some(first) = pairs.iter().find(|pair| !pair.agrees()) {
        say(&format!("\n{}", pair_failure(first)));
    }
    let later = later_causes(&pairs);
    if !later.is_empty() {
        say(&format!("\n{later}"));
    }
    if not_searched > 0 {
        let (more, most) = (counted(not_searched, "more difference"), causes::MOST);
        say(&format!("{more} on agreeing inputs; causes were searched for the first {most} only\n"));
    }
    let differ = pairs.iter().filter(|pair| !pair.agrees()).count();
    say(&format!(
        "\n{} agree, {differ} differ, {} only in A, {} only in B\n",
        pairs.len() - differ,
        only_a.len(),
        only_b.len()
    ));
    if let Some(path) = &arguments.json {
        write_json(path, &pairs)?;
    }
    // Without a single pair nothing is proven, even with `--ignore-extra`.
    let whole = arguments.ignore_extra || only_a.is_empty() && only_b.is_empty();
    Ok(if differ == 0 && whole && !pairs.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A tensor of A, its counterpart in B, and how the counterpart was found. A tensor is given by its position in its side's list
/// of names.
type Pairing = (usize, usize, Known);

/// Two sides, and how to compare them.
struct TensorDiff {
    a: DiffSide,
    b: DiffSide,
    gates: Gates,
    layout: Option<Vec<usize>>,
    cast: Option<Dtype>,
    nan_equal: bool,
}

impl TensorDiff {
    fn matched(&self, rules: &Rules, by_nearness: bool) -> Result<Matched, DiffError> {
        // Two files with one tensor each are one pair, whatever the names.
        let alone = |side: &DiffSide| side.file().is_some() && side.len() == 1;
        if alone(&self.a) && alone(&self.b) {
            return Ok(Matched { pairs: vec![(0, 0, Known::Name)], ..Matched::default() });
        }
        let (a, b): (Vec<&str>, Vec<&str>) = (self.a.names().collect(), self.b.names().collect());
        let mut shapes = |side: SideName, at: usize| match side {
            SideName::A => {
                let tensor = self.a.tensor(at)?;
                Ok(self.laid_out(a[at], tensor.view())?.shape().to_vec())
            }
            SideName::B => Ok(self.b.tensor(at)?.shape().to_vec()),
        };
        let shapes: Shapes<'_> = &mut shapes;
        matched(&a, &b, rules, by_nearness.then_some(shapes))
    }

    /// Returns a tensor of A in the layout of B.
    fn laid_out<'v>(&self, name: &str, view: TensorView<'v>) -> Result<TensorView<'v>, DiffError> {
        match &self.layout {
            Some(axes) if axes.len() == view.ndim() => {
                view.permute(axes).map_err(|source| DiffError::View { name: name.to_owned(), source })
            }
            _ => Ok(view),
        }
    }

    /// Compares the pairs one after the other, with one in memory at a time.
    fn compare(&self, places: &[Pairing]) -> Result<Vec<Pair>, DiffError> {
        let (a, b): (Vec<&str>, Vec<&str>) = (self.a.names().collect(), self.b.names().collect());
        let mut bar = LateBar::new("comparing", places.len());
        let mut pairs: Vec<Pair> = Vec::new();
        for (sequence, (at, other, known)) in places.iter().enumerate() {
            bar.at(sequence);
            let record = self.pair(a[*at], (*at, *other), sequence)?;
            pairs.push(Pair { record, actual: b[*other].to_owned(), known: *known, inputs_agree: false });
        }
        Ok(pairs)
    }

    /// Returns the record of a pair, without a diagnosis.
    fn pair(&self, name: &str, places: (usize, usize), sequence: usize) -> Result<Record, DiffError> {
        let (expected, actual) = self.tensors(name, places)?;
        let (expected, actual) = (self.laid_out(name, expected.view())?, actual.view());
        let rule = self.rule(name, &expected)?;
        let outcome = compare(&expected, &actual, &rule);
        Ok(Record {
            sequence: sequence as u64,
            expected: Some((&expected).into()),
            actual: Some((&actual).into()),
            gate: rule.gate,
            floor: rule.floor,
            ..Record::new("diff", name, outcome, true)
        })
    }

    /// Returns the two tensors of a pair after the cast. The tensor of A is in its own layout.
    fn tensors(&self, name: &str, (at, other): (usize, usize)) -> Result<(Tensor, Tensor), DiffError> {
        let (expected, actual) = (self.a.tensor(at)?, self.b.tensor(other)?);
        Ok((self.as_dtype(name, "A", expected)?, self.as_dtype(name, "B", actual)?))
    }

    fn rule(&self, name: &str, expected: &TensorView<'_>) -> Result<Rule, DiffError> {
        let gated = self.gates.rule(name, expected, |truth| self.laid_out(name, truth))?;
        Ok(Rule { nan_equal: self.nan_equal, ..gated })
    }

    fn as_dtype(&self, name: &str, side: &'static str, tensor: Tensor) -> Result<Tensor, DiffError> {
        match self.cast {
            Some(dtype) if dtype != tensor.dtype() => cast(&tensor.view(), dtype)
                .map_err(|source| DiffError::Cast { name: name.to_owned(), side, source }),
            _ => Ok(tensor),
        }
    }
}

fn write_json(path: &std::path::Path, pairs: &[Pair]) -> Result<(), DiffError> {
    write_atomically(path, |out| {
        for pair in pairs {
            serde_json::to_writer(&mut *out, &pair.record)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    })
    .map_err(|source| DiffError::Write { path: path.to_owned(), source })
}
