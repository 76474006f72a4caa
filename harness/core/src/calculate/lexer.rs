//! Splits the text of an expression into words, numbers and signs.

use std::ops::Range;

use super::error::Mistake;
use crate::text::printable::clean;

/// A piece of the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// A number, never negative.
    Number(f64),
    /// A tensor: a known name, or any name in quotes.
    Tensor(String),
    /// A function, a variable or an unknown name.
    Word(String),
    /// An operator or a bracket.
    Sign(&'static str),
    /// The end of a statement: a line end or `;`.
    EndOfStatement,
}

/// A token and its bytes in the text.
pub(super) type Placed = (Token, Range<usize>);

/// Longer signs come before their beginnings.
const SIGNS: [&str; 26] = [
    "**", "==", "!=", "<=", ">=", "...", "+", "-", "*", "/", "%", "@", "<", ">", "&", "|", "!", "(", ")",
    "[", "]", ",", ":", ".", "=", "~",
];

/// The tokens of `text`. A dotted name is one token if `is_tensor` knows it: `blocks.0.out.max()` is the tensor
/// `blocks.0.out` and the method `max` if there is such a tensor.
pub(super) fn tokens(text: &str, is_tensor: &dyn Fn(&str) -> bool) -> Result<Vec<Placed>, Mistake> {
    let mut found = Vec::new();
    // Line ends inside brackets do not end a statement.
    let mut open = 0usize;
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let (token, length) = match c {
            '\n' | ';' if open > 0 && c == '\n' => (None, 1),
            '\n' | ';' => (Some(Token::EndOfStatement), 1),
            ' ' | '\t' | '\r' => (None, 1),
            '#' => (None, rest.find('\n').unwrap_or(rest.len())),
            '`' | '"' | '\'' => {
                let (name, length) = quoted(rest, c, at)?;
                (Some(Token::Tensor(name)), length)
            }
            c if c.is_ascii_digit() || c == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                let (number, length) = number(rest, at)?;
                (Some(Token::Number(number)), length)
            }
            c if c.is_alphabetic() || c == '_' => {
                let (token, length) = name(rest, is_tensor);
                (Some(token), length)
            }
            _ => {
                let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) else {
                    let at = at..at + c.len_utf8();
                    return Err(Mistake::new(
                        &at,
                        format!("unexpected character `{}`", clean(&c.to_string())),
                    )
                    .allowed("names, numbers, + - * / % @ ** == != < <= > >= & | ! ( ) [ ] , : . ="));
                };
                match *sign {
                    "(" | "[" => open += 1,
                    ")" | "]" => open = open.saturating_sub(1),
                    _ => {}
                }
                (Some(Token::Sign(sign)), sign.len())
            }
        };
        found.extend(token.map(|token| (token, at..at + length)));
        at += length;
    }
    Ok(found)
}

fn quoted(rest: &str, quote: char, at: usize) -> Result<(String, usize), Mistake> {
    let end = rest[1..].find([quote, '\n']).filter(|end| rest[1 + end..].starts_with(quote));
    match end {
        Some(end) => Ok((rest[1..1 + end].to_owned(), end + 2)),
        None => {
            let line = rest.find('\n').unwrap_or(rest.len());
            Err(Mistake::new(&(at..at + line), format!("the name has no closing {quote}")))
        }
    }
}

fn number(rest: &str, at: usize) -> Result<(f64, usize), Mistake> {
    let bytes = rest.as_bytes();
    let digits = |from: usize| {
        bytes[from.min(bytes.len())..].iter().take_while(|b| b.is_ascii_digit() || **b == b'_').count()
    };
    let mut length = digits(0);
    if bytes.get(length) == Some(&b'.') && !rest[length..].starts_with("..") {
        length += 1 + digits(length + 1);
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = digits(length + 1 + sign);
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    let text = rest[..length].replace('_', "");
    let wrong = |what: &str| Mistake::new(&(at..at + length), what.to_owned());
    let number: f64 = text.parse().map_err(|_| wrong("this is not a number"))?;
    if number.is_infinite() {
        return Err(wrong("the number is too large for float64").allowed("`inf` for infinity"));
    }
    Ok((number, length))
}

fn name(rest: &str, is_tensor: &dyn Fn(&str) -> bool) -> (Token, usize) {
    let part_of = |c: char| c.is_alphanumeric() || c == '_';
    let plain = rest.find(|c| !part_of(c)).unwrap_or(rest.len());
    let dotted = rest.find(|c| !part_of(c) && c != '.' && c != '@').unwrap_or(rest.len());
    let ends = rest[..dotted].match_indices(['.', '@']).map(|(end, _)| end).chain([dotted]);
    let mut longest: Vec<usize> = ends.filter(|&end| end >= plain).collect();
    longest.reverse();
    match longest.into_iter().find(|&end| is_tensor(&rest[..end])) {
        Some(end) => (Token::Tensor(rest[..end].to_owned()), end),
        None => (Token::Word(rest[..plain].to_owned()), plain),
    }
}
