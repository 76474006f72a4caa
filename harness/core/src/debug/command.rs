//! The commands of a debug session.

use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::breakpoint::{On, describe};

/// One command. People write it as a line of text ([`DebugCommand::parse`]), programs as JSON:
/// `{"command": "break", "pattern": "blocks.*"}`. [`DebugCommand`]'s `Display` is the line of text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum DebugCommand {
    /// Ends the worker and starts this spec in a new one. Breakpoints stay.
    Start {
        /// The spec, as `model/component`.
        spec: String,
    },
    /// Builds the suite again and starts the same spec. Breakpoints stay, and count their hits from zero.
    Restart,
    /// Adds a breakpoint.
    Break {
        /// The taps at which to stop: a name, with `*` for any characters and `{i}` for a number that `when` can use.
        pattern: String,
        /// The results at which to stop.
        #[serde(default)]
        on: On,
        /// Stops only where this expression is not zero.
        #[serde(default)]
        when: Option<String>,
        /// Stops only at this one of the matching hits, from 1.
        #[serde(default)]
        hit: Option<u64>,
    },
    /// Lists the breakpoints.
    Breaks,
    /// Removes the breakpoints with this number or this pattern.
    Remove {
        /// A number or a pattern.
        which: String,
    },
    /// Removes every breakpoint.
    Clear,
    /// Goes on to the next breakpoint, or to the end.
    Continue,
    /// Goes on to the next declared checkpoint.
    Next,
    /// Goes on to the next tap, also to one that the spec does not declare or does not check at this level.
    Into,
    /// Goes on to the first declared checkpoint outside the current scope.
    Out,
    /// Goes on to the next tap with this name.
    Until {
        /// A name or a pattern.
        pattern: String,
    },
    /// Shows the tap, its scopes and its place in the port and in the reference.
    Location,
    /// Lists the taps seen so far, the inputs and the weights.
    Vars {
        /// Only names that match this pattern.
        #[serde(default)]
        pattern: Option<String>,
    },
    /// Shows one tensor, or a part of it.
    Show {
        /// The name of a tensor, as in expressions.
        name: String,
        /// The part to show, as in NumPy: `0, :, 3`.
        #[serde(default)]
        slice: Option<String>,
    },
    /// Evaluates an expression over the tensors of the session.
    Eval {
        /// The expression.
        expression: String,
    },
    /// Lets the port go on with the golden.
    Inject {
        /// A checkpoint that the port has not passed; none is the current one.
        #[serde(default)]
        name: Option<String>,
    },
    /// Lets the port go on with the value of an expression.
    Set {
        /// A tap that the port has not passed.
        name: String,
        /// The expression.
        expression: String,
    },
    /// Writes a tensor to a new `.npy` file.
    Save {
        /// The name of a tensor, as in expressions.
        name: String,
        /// The file, which must not exist.
        file: PathBuf,
    },
    /// Searches the causes of the current checkpoint's failure.
    Diagnose,
    /// Reports the state of the session.
    Status,
    /// Writes a text into the trace.
    Note {
        /// The text.
        text: String,
    },
    /// Lists the commands, or the functions of expressions.
    Help {
        /// `functions` lists those of expressions.
        #[serde(default)]
        about: Option<HelpTopic>,
    },
    /// Ends the port and the session.
    Terminate,
}

/// What [`DebugCommand::Help`] can list besides the commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HelpTopic {
    /// The functions of expressions.
    Functions,
}

/// How a command is written, and what it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandUsage {
    /// The command and its arguments.
    pub usage: String,
    /// What it does.
    pub about: String,
    /// An example.
    pub example: String,
}

/// Name, arguments, meaning and an example of every command, in the order of the help.
const COMMANDS: &[[&str; 4]] = &[
    [
        "break",
        "PATTERN [when EXPR] [first|hit N]",
        "stop at taps with this name",
        "break blocks.{i}.out when i % 5 == 0",
    ],
    [
        "break",
        "[PATTERN] failed|nan [when EXPR] [first|hit N]",
        "stop at failures, or at NaN in the actual",
        "break failed first",
    ],
    ["break", "used > X [first|hit N]", "stop at the used part of a tolerance", "break used > 0.5 first"],
    ["breaks", "", "list the breakpoints", "breaks"],
    ["remove", "NUMBER|PATTERN", "remove a breakpoint", "remove 1"],
    ["clear", "", "remove every breakpoint", "clear"],
    ["continue", "", "go on to a breakpoint, or to the end", "continue"],
    ["next", "", "go on to the next declared checkpoint", "next"],
    ["into", "", "go on to the next tap of any level, declared or not", "into"],
    ["out", "", "go on to the first checkpoint outside the current scope", "out"],
    ["until", "PATTERN", "go on to the next tap with this name", "until blocks.7.*"],
    ["location", "", "show the tap, its scopes and both sources", "location"],
    ["vars", "[PATTERN]", "list taps, inputs and weights", "vars blocks.0.*"],
    ["show", "NAME [SLICE]", "show a tensor, or a part of it", "show golden 0, :, 3"],
    ["eval", "EXPR", "evaluate an expression", "eval abs(actual - golden).max()"],
    ["inject", "[NAME]", "let the port go on with the golden", "inject"],
    ["set", "NAME EXPR", "let the port go on with another tensor", "set gated actual / 1.01"],
    ["save", "NAME FILE", "write a tensor to a new .npy file", "save actual gated.npy"],
    ["diagnose", "", "search the causes of the current failure", "diagnose"],
    ["status", "", "show the state of the session", "status"],
    ["note", "TEXT", "write a text into the trace", "note the error starts here"],
    ["restart", "", "build again and start over, with the same breakpoints", "restart"],
    ["start", "SPEC", "start another spec", "start gated_mlp/block"],
    ["help", "[functions]", "list the commands, or the functions of expressions", "help functions"],
    ["terminate", "", "end the port and the session", "terminate"],
];

/// Other words for commands: those of the best known debuggers.
pub(super) const ALIASES: &[(&str, &str)] = &[
    ("b", "break"),
    ("c", "continue"),
    ("n", "next"),
    ("s", "into"),
    ("step", "into"),
    ("finish", "out"),
    ("where", "location"),
    ("l", "location"),
    ("p", "eval"),
    ("print", "eval"),
    ("variables", "vars"),
    ("delete", "remove"),
    ("r", "restart"),
    ("q", "terminate"),
    ("quit", "terminate"),
    ("exit", "terminate"),
    ("?", "help"),
];

/// The names of all commands.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|[name, ..]| *name)
}

/// The line of help for a command, as `name ARGUMENTS`.
pub(super) fn usage(name: &str) -> String {
    let lines: Vec<String> = COMMANDS
        .iter()
        .filter(|[own, ..]| *own == name)
        .map(|[name, arguments, ..]| format!("`{}`", format!("{name} {arguments}").trim_end()))
        .collect();
    lines.join(" or ")
}

/// Every command, in the order of the help.
pub(super) fn usages() -> Vec<CommandUsage> {
    let usage = |[name, arguments, about, example]: &[&str; 4]| CommandUsage {
        usage: format!("{name} {arguments}").trim_end().to_owned(),
        about: (*about).to_owned(),
        example: (*example).to_owned(),
    };
    COMMANDS.iter().map(usage).collect()
}

/// Lists every command with its arguments, its meaning and an example, one per line.
pub fn command_help() -> String {
    let usages = usages();
    let width = usages.iter().map(|one| one.usage.len()).max().unwrap_or(0);
    let mut text = String::new();
    for CommandUsage { usage, about, example } in &usages {
        let example = if usage == example { String::new() } else { format!("; `{example}`") };
        text += &format!("{usage:width$}  {about}{example}\n");
    }
    text += "\n\
        Names of tensors: `actual` and `golden` at this tap; NAME or `actual.NAME` for a tap that was passed,\n\
        `golden.NAME`, `input.NAME` and `weight.NAME`. A second hit is NAME@1. Quote a name with other characters.\n\
        Expressions also know `hit`, `failed`, `used` (the used part of the tolerance), the loops of the tap's name\n\
        (`blocks` is 3 at `blocks.3.out`) and, as `i`, the axis of the breakpoint `blocks.{i}.out`. Variables last\n\
        until the port goes on: `d = actual - golden`, then `abs(d).max()`.\n";
    text
}

impl fmt::Display for DebugCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start { spec } => write!(f, "start {spec}"),
            Self::Restart => write!(f, "restart"),
            Self::Break { pattern, on, when, hit } => {
                write!(f, "break {}", describe(pattern, *on, when.as_deref(), *hit))
            }
            Self::Breaks => write!(f, "breaks"),
            Self::Remove { which } => write!(f, "remove {which}"),
            Self::Clear => write!(f, "clear"),
            Self::Continue => write!(f, "continue"),
            Self::Next => write!(f, "next"),
            Self::Into => write!(f, "into"),
            Self::Out => write!(f, "out"),
            Self::Until { pattern } => write!(f, "until {pattern}"),
            Self::Location => write!(f, "location"),
            Self::Vars { pattern: None } => write!(f, "vars"),
            Self::Vars { pattern: Some(pattern) } => write!(f, "vars {pattern}"),
            Self::Show { name, slice: None } => write!(f, "show {name}"),
            Self::Show { name, slice: Some(slice) } => write!(f, "show {name} {slice}"),
            Self::Eval { expression } => write!(f, "eval {expression}"),
            Self::Inject { name: None } => write!(f, "inject"),
            Self::Inject { name: Some(name) } => write!(f, "inject {name}"),
            Self::Set { name, expression } => write!(f, "set {name} {expression}"),
            Self::Save { name, file } => write!(f, "save {name} {}", file.display()),
            Self::Diagnose => write!(f, "diagnose"),
            Self::Status => write!(f, "status"),
            Self::Note { text } => write!(f, "note {text}"),
            Self::Help { about: None } => write!(f, "help"),
            Self::Help { about: Some(HelpTopic::Functions) } => write!(f, "help functions"),
            Self::Terminate => write!(f, "terminate"),
        }
    }
}

impl DebugCommand {
    /// Whether the port goes on with this command, so that its answer is the next stop.
    pub fn goes_on(&self) -> bool {
        matches!(
            self,
            Self::Continue
                | Self::Next
                | Self::Into
                | Self::Out
                | Self::Until { .. }
                | Self::Start { .. }
                | Self::Restart
        )
    }
}
