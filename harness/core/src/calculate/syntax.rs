//! The parser: tokens in, statements out. Binary operators are parsed by precedence climbing.

use std::ops::Range;

use super::error::{CalculateError, Mistake};
use super::lexer::{Placed, Token, tokens};
use super::tree::{Argument, Expression, MOST_DEPTH, Node, Selector, Statement, too_deep};
use crate::recipe::{Binary, Op, Product, Unary};
use crate::text::printable::clean;

/// The most bytes of a text.
pub(super) const MOST_BYTES: usize = 64 << 10;

/// Reads `text`, in which `is_tensor` knows the names of tensors.
pub(super) fn parse(text: &str, is_tensor: &dyn Fn(&str) -> bool) -> Result<Vec<Statement>, Mistake> {
    if text.len() > MOST_BYTES {
        let message = format!("the expression has {} bytes, at most {MOST_BYTES} are allowed", text.len());
        return Err(Mistake::new(&(0..1), message));
    }
    let tokens = tokens(text, is_tensor)?;
    let mut parser = Parser { tokens: &tokens, at: 0, end: text.len(), depth: 0 };
    let mut statements = Vec::new();
    loop {
        while parser.peek() == Some(&Token::EndOfStatement) {
            parser.at += 1;
        }
        if parser.peek().is_none() {
            break;
        }
        statements.push(parser.statement()?);
        if !matches!(parser.peek(), None | Some(Token::EndOfStatement)) {
            return Err(parser.unexpected("an operator, `;` or the end of the line"));
        }
    }
    if statements.is_empty() {
        return Err(Mistake::new(&(0..text.len()), "the expression is empty")
            .allowed("such as `abs(actual - golden).max()`"));
    }
    Ok(statements)
}

/// Checks that a text can be an expression, without knowing the names of tensors. The names are checked when it is evaluated.
///
/// # Errors
/// The first problem, with its place in the text.
pub fn check_syntax(text: &str) -> Result<(), CalculateError> {
    let dense: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    // A dotted name may be a tensor, unless its last word is called.
    let may_be_tensor = |name: &str| name.contains(['.', '@']) && !dense.contains(&format!("{name}("));
    match parse(text, &|_| false) {
        Err(fault) if parse(text, &may_be_tensor).is_err() => Err(CalculateError::at(text, fault)),
        _ => Ok(()),
    }
}

/// Parses the entries of an index without brackets, such as `0, :, 3`.
pub(super) fn parse_index(text: &str) -> Result<Vec<Selector>, Mistake> {
    if text.len() > MOST_BYTES {
        return Err(Mistake::new(&(0..1), "the slice is too long"));
    }
    let tokens = tokens(text, &|_| false)?;
    let mut parser = Parser { tokens: &tokens, at: 0, end: text.len(), depth: 0 };
    let selectors = parser.selectors()?;
    match parser.peek() {
        None => Ok(selectors),
        Some(_) => {
            Err(parser.unexpected("`,` or the end").allowed("a slice such as `0, :, 3` or `..., 1:5`"))
        }
    }
}

struct Parser<'t> {
    tokens: &'t [Placed],
    at: usize,
    /// The end of the text.
    end: usize,
    depth: usize,
}

/// Binary operators, with their precedence.
fn binary(sign: &str) -> Option<(u8, Op)> {
    let (level, function) = match sign {
        "|" => (1, Binary::Or),
        "&" => (2, Binary::And),
        "==" => (3, Binary::Eq),
        "!=" => (3, Binary::Ne),
        "<" => (3, Binary::Lt),
        "<=" => (3, Binary::Le),
        ">" => (3, Binary::Gt),
        ">=" => (3, Binary::Ge),
        "+" => (4, Binary::Add),
        "-" => (4, Binary::Sub),
        "*" => (5, Binary::Mul),
        "/" => (5, Binary::Div),
        "%" => (5, Binary::Mod),
        "@" => return Some((5, Op::Product(Product::Matmul))),
        _ => return None,
    };
    Some((level, Op::Binary(function)))
}

const COMPARISON: u8 = 3;

impl Parser<'_> {
    fn statement(&mut self) -> Result<Statement, Mistake> {
        let named = match self.tokens.get(self.at..self.at + 2) {
            Some([(Token::Word(name) | Token::Tensor(name), at), (Token::Sign("="), _)]) => {
                Some((name.clone(), at.clone()))
            }
            _ => None,
        };
        if named.is_some() {
            self.at += 2;
        }
        Ok(Statement { variable: named, value: self.expression(0)? })
    }

    fn expression(&mut self, loosest: u8) -> Result<Expression, Mistake> {
        self.deeper(|parser| parser.operators(loosest))
    }

    fn operators(&mut self, loosest: u8) -> Result<Expression, Mistake> {
        let mut left = self.unary()?;
        let mut compared = false;
        while let Some(Token::Sign(sign)) = self.peek() {
            let Some((level, op)) = binary(sign).filter(|(level, _)| *level > loosest) else { break };
            if level == COMPARISON && compared {
                return Err(self.unexpected("`&`, or parentheses around one comparison"));
            }
            compared = level == COMPARISON;
            self.at += 1;
            let right = self.expression(level)?;
            let at = left.at.start..right.at.end;
            left = Expression::new(at, Node::Operation(op, vec![left, right]))?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expression, Mistake> {
        let start = self.place();
        let function = match self.peek() {
            Some(Token::Sign("-")) => Some(Unary::Neg),
            Some(Token::Sign("!" | "~")) => Some(Unary::Not),
            Some(Token::Sign("+")) => None,
            _ => return self.power(),
        };
        self.at += 1;
        let operand = self.deeper(Self::unary)?;
        let at = start.start..operand.at.end;
        match function {
            Some(function) => Expression::new(at, Node::Operation(Op::Unary(function), vec![operand])),
            None => Ok(operand),
        }
    }

    fn power(&mut self) -> Result<Expression, Mistake> {
        let base = self.postfix()?;
        if !self.take("**") {
            return Ok(base);
        }
        // `2 ** -1` and `2 ** 3 ** 2` are as in Python.
        let exponent = self.deeper(Self::unary)?;
        let at = base.at.start..exponent.at.end;
        Expression::new(at, Node::Operation(Op::Binary(Binary::Pow), vec![base, exponent]))
    }

    fn postfix(&mut self) -> Result<Expression, Mistake> {
        let mut value = self.primary()?;
        loop {
            let start = value.at.start;
            if self.take("[") {
                let selectors = self.selectors()?;
                let end = self.expect("]", "`,` or `]`")?;
                value = Expression::new(start..end, Node::Index(Box::new(value), selectors))?;
            } else if self.take(".") {
                let name_at = self.place();
                let Some(Token::Word(function) | Token::Tensor(function)) = self.peek().cloned() else {
                    return Err(self.unexpected("the name of a function, such as `max`"));
                };
                self.at += 1;
                let mut arguments = vec![Argument { name: None, value }];
                let mut end = name_at.end;
                if self.take("(") {
                    end = self.arguments(&mut arguments)?;
                }
                value = Expression::new(start..end, Node::Call { function, name_at, arguments })?;
            } else {
                return Ok(value);
            }
        }
    }

    fn primary(&mut self) -> Result<Expression, Mistake> {
        let place = self.place();
        let Some(token) = self.peek().cloned() else {
            return Err(self.unexpected("a tensor, a number, a function or `(`"));
        };
        self.at += 1;
        match token {
            Token::Number(number) => Expression::new(place, Node::Number(number)),
            Token::Tensor(name) => Expression::new(place, Node::Tensor(name)),
            Token::Word(function) if self.take("(") => {
                let mut arguments = Vec::new();
                let end = self.arguments(&mut arguments)?;
                Expression::new(place.start..end, Node::Call { function, name_at: place, arguments })
            }
            Token::Word(name) => Expression::new(place, Node::Variable(name)),
            Token::Sign("(") => {
                let mut inner = self.expression(0)?;
                let end = self.expect(")", "an operator or `)`")?;
                inner.at = place.start..end;
                Ok(inner)
            }
            Token::Sign("[") => {
                let mut items = Vec::new();
                while self.peek() != Some(&Token::Sign("]")) {
                    items.push(self.expression(0)?);
                    if !self.take(",") {
                        break;
                    }
                }
                let end = self.expect("]", "`,` or `]`")?;
                Expression::new(place.start..end, Node::List(items))
            }
            _ => {
                self.at -= 1;
                Err(self.unexpected("a tensor, a number, a function or `(`"))
            }
        }
    }

    /// Arguments up to the closing parenthesis; returns its end.
    fn arguments(&mut self, arguments: &mut Vec<Argument>) -> Result<usize, Mistake> {
        while self.peek() != Some(&Token::Sign(")")) {
            let named = match self.tokens.get(self.at..self.at + 2) {
                Some([(Token::Word(name), at), (Token::Sign("="), _)]) => Some((name.clone(), at.clone())),
                _ => None,
            };
            if named.is_some() {
                self.at += 2;
            }
            arguments.push(Argument { name: named, value: self.expression(0)? });
            if !self.take(",") {
                break;
            }
        }
        self.expect(")", "`,` or `)`")
    }

    fn selectors(&mut self) -> Result<Vec<Selector>, Mistake> {
        let mut found = Vec::new();
        loop {
            if matches!(self.peek(), None | Some(Token::Sign("]"))) && !found.is_empty() {
                return Ok(found);
            }
            found.push(self.selector()?);
            if !self.take(",") {
                return Ok(found);
            }
        }
    }

    fn selector(&mut self) -> Result<Selector, Mistake> {
        let place = self.place();
        if self.take("...") {
            return Ok(Selector::Rest(place));
        }
        let start = self.bound()?;
        if !self.take(":") {
            return match start {
                Some(index) => Ok(Selector::At(index)),
                None => Err(self.unexpected("an index, `:`, `start:end` or `...`")),
            };
        }
        let end = self.bound()?;
        let step = if self.take(":") { self.bound()? } else { None };
        let last = self.tokens.get(self.at.saturating_sub(1)).map_or(place.end, |(_, at)| at.end);
        let [start, end, step] = [start, end, step].map(|part| part.map(Box::new));
        Ok(Selector::Range { at: place.start..last, start, end, step })
    }

    /// A bound of a range, which may be absent.
    fn bound(&mut self) -> Result<Option<Expression>, Mistake> {
        match self.peek() {
            None | Some(Token::Sign(":" | "," | "]")) => Ok(None),
            _ => self.expression(0).map(Some),
        }
    }

    fn deeper<T>(&mut self, next: impl FnOnce(&mut Self) -> Result<T, Mistake>) -> Result<T, Mistake> {
        if self.depth >= MOST_DEPTH {
            return Err(too_deep(&self.place()));
        }
        self.depth += 1;
        let inner = next(self);
        self.depth -= 1;
        inner
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn place(&self) -> Range<usize> {
        self.tokens.get(self.at).map_or(self.end..self.end, |(_, at)| at.clone())
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Sign(found)) if *found == sign);
        self.at += usize::from(found);
        found
    }

    /// Takes a sign and returns its end.
    fn expect(&mut self, sign: &str, expected: &str) -> Result<usize, Mistake> {
        let end = self.place().end;
        if self.take(sign) { Ok(end) } else { Err(self.unexpected(expected)) }
    }

    fn unexpected(&self, expected: &str) -> Mistake {
        let found = match self.peek() {
            None => "the end".to_owned(),
            Some(Token::EndOfStatement) => "the end of the statement".to_owned(),
            Some(Token::Number(number)) => format!("the number {number}"),
            Some(Token::Tensor(name) | Token::Word(name)) => format!("the name `{}`", clean(name)),
            Some(Token::Sign(sign)) => format!("`{sign}`"),
        };
        Mistake::new(&self.place(), format!("found {found}, expected {expected}"))
    }
}
