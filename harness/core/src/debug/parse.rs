//! Reads a command from a line of text.

use thiserror::Error;

use super::breakpoint::On;
use super::command::{ALIASES, DebugCommand, HelpTopic, names, usage};
use crate::text::printable::clean;
use crate::text::suggest::did_you_mean;

/// The most bytes of a line.
const MOST_BYTES: usize = 64 << 10;

/// Why a line is no command.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParseError {
    /// The first word is no command.
    #[error("unknown command `{found}`{near}; `help` lists the commands")]
    Unknown {
        /// The word.
        found: String,
        /// Near commands.
        near: String,
    },
    /// The arguments do not fit the command.
    #[error("{problem}, expected {expected}")]
    Arguments {
        /// What was found.
        problem: String,
        /// What the command takes.
        expected: String,
    },
    /// The line is too long.
    #[error("the line has {0} bytes, at most {MOST_BYTES} are allowed")]
    TooLong(usize),
}

impl DebugCommand {
    /// Reads a line; `None` for an empty line and for a comment, which starts with `#`.
    ///
    /// # Errors
    /// When the first word is no command, or the rest does not fit it.
    pub fn parse(line: &str) -> Result<Option<Self>, ParseError> {
        if line.len() > MOST_BYTES {
            return Err(ParseError::TooLong(line.len()));
        }
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let word = ALIASES.iter().find(|(alias, _)| *alias == word).map_or(word, |(_, name)| name);
        let wrong = |problem: String| ParseError::Arguments { problem, expected: usage(word) };
        let needed = |what: &str| match rest {
            "" => Err(wrong(format!("`{word}` needs {what}"))),
            rest => Ok(rest.to_owned()),
        };
        let alone = |command: Self| match rest {
            "" => Ok(command),
            rest => Err(wrong(format!("`{word}` takes no arguments, found `{}`", clean(rest)))),
        };
        let pair = |what: &str| {
            let (name, rest) = name_and_rest(rest).map_err(wrong)?;
            if name.is_empty() || rest.is_empty() {
                Err(wrong(format!("`{word}` needs {what}")))
            } else {
                Ok((name, rest))
            }
        };
        let command = match word {
            "start" => Self::Start { spec: needed("a spec")? },
            "restart" => alone(Self::Restart)?,
            "break" => breakpoint(&needed("a pattern")?).map_err(wrong)?,
            "breaks" => alone(Self::Breaks)?,
            "remove" => Self::Remove { which: unquoted(&needed("a number or a pattern")?).to_owned() },
            "clear" => alone(Self::Clear)?,
            "continue" => alone(Self::Continue)?,
            "next" => alone(Self::Next)?,
            "into" => alone(Self::Into)?,
            "out" => alone(Self::Out)?,
            "until" => Self::Until { pattern: unquoted(&needed("a pattern")?).to_owned() },
            "location" => alone(Self::Location)?,
            "vars" => Self::Vars { pattern: Some(unquoted(rest).to_owned()).filter(|text| !text.is_empty()) },
            "show" => show(&needed("a name")?).map_err(wrong)?,
            "eval" => Self::Eval { expression: needed("an expression")? },
            "inject" => {
                Self::Inject { name: Some(unquoted(rest).to_owned()).filter(|text| !text.is_empty()) }
            }
            "set" => {
                let (name, expression) = pair("a name and an expression")?;
                let expression = expression.strip_prefix("= ").unwrap_or(expression).to_owned();
                Self::Set { name, expression }
            }
            "save" => {
                let (name, file) = pair("a name and a file")?;
                Self::Save { name, file: unquoted(file).into() }
            }
            "diagnose" => alone(Self::Diagnose)?,
            "status" => alone(Self::Status)?,
            "note" => Self::Note { text: needed("a text")? },
            "help" => match rest {
                "" => Self::Help { about: None },
                "functions" => Self::Help { about: Some(HelpTopic::Functions) },
                other => return Err(wrong(format!("found `{}` behind `help`", clean(other)))),
            },
            "terminate" => alone(Self::Terminate)?,
            _ => {
                let near = did_you_mean(word, names());
                return Err(ParseError::Unknown { found: clean(word).into_owned(), near });
            }
        };
        Ok(Some(command))
    }
}

fn breakpoint(text: &str) -> Result<DebugCommand, String> {
    let (text, hit) = split_hit(text)?;
    let any = "*".to_owned();
    let comparison = text.strip_prefix("used").map(str::trim_start);
    if comparison.is_some_and(|rest| rest.starts_with(['<', '>', '=', '!'])) {
        return Ok(DebugCommand::Break { pattern: any, on: On::Any, when: Some(text.to_owned()), hit });
    }
    // A result alone means every tap. A tap of that name is quoted.
    if let Some((on, when)) = result_and_condition(text) {
        return Ok(DebugCommand::Break { pattern: any, on, when, hit });
    }
    let (pattern, rest) = name_and_rest(text)?;
    let (on, when) = match condition(rest) {
        _ if rest.is_empty() => (On::Any, None),
        Some(when) => (On::Any, Some(when)),
        None => {
            result_and_condition(rest).ok_or_else(|| format!("found `{}` behind the pattern", clean(rest)))?
        }
    };
    Ok(DebugCommand::Break { pattern, on, when, hit })
}

/// Reads `failed` or `nan`, and a condition behind it.
fn result_and_condition(text: &str) -> Option<(On, Option<String>)> {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let on = match word {
        "failed" => On::Failed,
        "nan" => On::Nan,
        _ => return None,
    };
    match rest.trim() {
        "" => Some((on, None)),
        rest => condition(rest).map(|when| (on, Some(when))),
    }
}

/// Reads `when EXPR`.
fn condition(text: &str) -> Option<String> {
    let (word, expression) = text.split_once(char::is_whitespace)?;
    (word == "when").then(|| expression.trim().to_owned())
}

/// Splits `first` or `hit N` from the end.
fn split_hit(text: &str) -> Result<(&str, Option<u64>), String> {
    let text = text.trim();
    if let Some(rest) = text.strip_suffix("first").filter(|rest| rest.ends_with(char::is_whitespace)) {
        return Ok((rest.trim_end(), Some(1)));
    }
    let Some((before, number)) = text.rsplit_once(char::is_whitespace) else { return Ok((text, None)) };
    match before.trim_end().strip_suffix("hit").filter(|rest| rest.ends_with(char::is_whitespace)) {
        None => Ok((text, None)),
        Some(rest) => {
            let hit = number.parse().ok().filter(|&hit| hit > 0);
            let hit =
                hit.ok_or_else(|| format!("`{}` is no number of a hit, which count from 1", clean(number)))?;
            Ok((rest.trim_end(), Some(hit)))
        }
    }
}

fn show(text: &str) -> Result<DebugCommand, String> {
    if !text.starts_with(['"', '\'', '`'])
        && let Some((name, slice)) = text.split_once('[')
        && let Some(slice) = slice.strip_suffix(']')
    {
        return Ok(DebugCommand::Show { name: name.trim().to_owned(), slice: Some(slice.trim().to_owned()) });
    }
    let (name, rest) = name_and_rest(text)?;
    let rest = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(rest);
    Ok(DebugCommand::Show { name, slice: Some(rest.to_owned()).filter(|slice| !slice.is_empty()) })
}

/// Splits the first word, which may be quoted, from the rest.
fn name_and_rest(text: &str) -> Result<(String, &str), String> {
    let Some(quote) = text.chars().next().filter(|c| matches!(c, '"' | '\'' | '`')) else {
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        return Ok((name.to_owned(), rest.trim()));
    };
    match text[1..].split_once(quote) {
        Some((name, rest)) => Ok((name.to_owned(), rest.trim())),
        None => Err(format!("the name has no closing {quote}")),
    }
}

fn unquoted(text: &str) -> &str {
    let inner = |quote: char| text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
    ['"', '\'', '`'].into_iter().find_map(inner).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses the line, and expects this text back, which gives the same command again.
    #[track_caller]
    fn check(line: &str, text: &str) {
        let command = DebugCommand::parse(line).unwrap().unwrap();
        assert_eq!(command.to_string(), text);
        assert_eq!(DebugCommand::parse(text).unwrap().unwrap(), command);
        let json = serde_json::to_string(&command).unwrap();
        assert_eq!(serde_json::from_str::<DebugCommand>(&json).unwrap(), command, "{json}");
    }

    #[test]
    fn lines_are_commands() {
        for line in ["continue", "next", "into", "out", "location", "vars", "diagnose", "status", "terminate"]
        {
            check(line, line);
        }
        check(" b  gated ", "break gated");
        check("break blocks.{i}.out when i % 5 == 0 first", "break blocks.{i}.out when i % 5 == 0 first");
        check("break blocks.* hit 3", "break blocks.* hit 3");
        check("break failed", "break failed");
        check("break used > 0.5", "break used > 0.5");
        check("break used>0.5 hit 2", "break used>0.5 hit 2");
        check("break nan first", "break nan first");
        check("break out failed", "break out failed");
        check("break failed when used > 2 first", "break failed when used > 2 first");
        check("break h.{i} nan  when i > 2", "break h.{i} nan when i > 2");
        check("break \"nan\" when hit > 1", "break \"nan\" when hit > 1");
        check("? functions", "help functions");
        check("help", "help");
        check("break \"failed\"", "break \"failed\"");
        check("show gated", "show gated");
        check("show gated[0, :, 3]", "show gated 0, :, 3");
        check("p abs(actual - golden).max()", "eval abs(actual - golden).max()");
        check("set gated = actual * 2", "set gated actual * 2");
        check("save actual /tmp/a b.npy", "save actual /tmp/a b.npy");
        check("note it starts here", "note it starts here");
        assert_eq!(DebugCommand::parse("  # a comment").unwrap(), None);
    }

    #[test]
    fn wrong_lines_name_what_is_allowed() {
        let error = |line: &str| DebugCommand::parse(line).unwrap_err().to_string();
        assert_eq!(
            error("contnue"),
            "unknown command `contnue`, did you mean `continue`?; `help` lists the commands"
        );
        assert_eq!(error("eval"), "`eval` needs an expression, expected `eval EXPR`");
        assert_eq!(error("next 3"), "`next` takes no arguments, found `3`, expected `next`");
        assert!(error("break gated where 1").starts_with("found `where 1` behind the pattern"));
        assert!(error("break gated failed where 1").starts_with("found `failed where 1` behind the pattern"));
        assert_eq!(error("help eval"), "found `eval` behind `help`, expected `help [functions]`");
        assert!(error("break gated hit 0").contains("count from 1"));
        assert!(error("break \"gated").contains("no closing"));
        assert!(error("set gated").contains("needs a name and an expression"));
        assert!(error(&"x".repeat(70_000)).contains("at most"));
    }

    #[test]
    fn help_has_one_line_per_command() {
        let help = super::super::command_help();
        assert!(names().all(|name| help.lines().any(|line| line.starts_with(name))), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 150), "{help}");
    }
}
