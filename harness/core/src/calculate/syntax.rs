//! The parser: tokens in, statements out. Binary operators are parsed by precedence climbing.

use std::ops::Range;

use super::error::Fault;
use super::lexer::{Placed, Token, tokens};
use crate::recipe::{Binary, Op, Product, Unary};
use crate::text::printable::clean;

/// The most bytes of a text.
pub(super) const MOST_BYTES: usize = 64 << 10;
/// The most levels of an expression. Each level takes stack.
pub(super) const MOST_DEPTH: usize = 100;

/// One statement.
#[derive(Debug)]
pub(super) struct Statement {
    /// The variable that the statement sets, and its place.
    pub(super) variable: Option<(String, Range<usize>)>,
    pub(super) value: Expression,
}

/// A node with its bytes in the text.
#[derive(Debug)]
pub(super) struct Expression {
    pub(super) at: Range<usize>,
    pub(super) node: Node,
    /// Levels below this node, and this one.
    depth: usize,
}

#[derive(Debug)]
pub(super) enum Node {
    Number(f64),
    Tensor(String),
    Variable(String),
    /// `[1, 2, 3]`
    List(Vec<Expression>),
    /// An operation with one or two operands.
    Operation(Op, Vec<Expression>),
    /// `f(x, axis=1)`, which is also `x.f(axis=1)`.
    Call {
        function: String,
        name_at: Range<usize>,
        arguments: Vec<Argument>,
    },
    /// `x[0, :, 1:3]`
    Index(Box<Expression>, Vec<Selector>),
}

/// One argument of a call.
#[derive(Debug)]
pub(super) struct Argument {
    /// The name before `=`.
    pub(super) name: Option<(String, Range<usize>)>,
    pub(super) value: Expression,
}

/// One entry between the brackets of an index.
#[derive(Debug)]
pub(super) enum Selector {
    /// One index; the axis goes away.
    At(Expression),
    /// `start:end:step`
    Range {
        at: Range<usize>,
        start: Option<Box<Expression>>,
        end: Option<Box<Expression>>,
        step: Option<Box<Expression>>,
    },
    /// `...`
    Rest(Range<usize>),
}

/// Reads `text`, in which `is_tensor` knows the names of tensors.
pub(super) fn parse(text: &str, is_tensor: &dyn Fn(&str) -> bool) -> Result<Vec<Statement>, Fault> {
    if text.len() > MOST_BYTES {
        let message = format!("the expression has {} bytes, at most {MOST_BYTES} are allowed", text.len());
        return Err(Fault::new(&(0..1), message));
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
        return Err(Fault::new(&(0..text.len()), "the expression is empty")
            .allowed("such as `abs(actual - golden).max()`"));
    }
    Ok(statements)
}

/// Parses the entries of an index without brackets, such as `0, :, 3`.
pub(super) fn parse_index(text: &str) -> Result<Vec<Selector>, Fault> {
    if text.len() > MOST_BYTES {
        return Err(Fault::new(&(0..1), "the slice is too long"));
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
    fn statement(&mut self) -> Result<Statement, Fault> {
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

    fn expression(&mut self, loosest: u8) -> Result<Expression, Fault> {
        self.deeper(|parser| parser.operators(loosest))
    }

    fn operators(&mut self, loosest: u8) -> Result<Expression, Fault> {
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
            left = self.node(at, Node::Operation(op, vec![left, right]))?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expression, Fault> {
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
            Some(function) => self.node(at, Node::Operation(Op::Unary(function), vec![operand])),
            None => Ok(operand),
        }
    }

    fn power(&mut self) -> Result<Expression, Fault> {
        let base = self.postfix()?;
        if !self.take("**") {
            return Ok(base);
        }
        // `2 ** -1` and `2 ** 3 ** 2` are as in Python.
        let exponent = self.deeper(Self::unary)?;
        let at = base.at.start..exponent.at.end;
        self.node(at, Node::Operation(Op::Binary(Binary::Pow), vec![base, exponent]))
    }

    fn postfix(&mut self) -> Result<Expression, Fault> {
        let mut value = self.primary()?;
        loop {
            let start = value.at.start;
            if self.take("[") {
                let selectors = self.selectors()?;
                let end = self.expect("]", "`,` or `]`")?;
                value = self.node(start..end, Node::Index(Box::new(value), selectors))?;
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
                value = self.node(start..end, Node::Call { function, name_at, arguments })?;
            } else {
                return Ok(value);
            }
        }
    }

    fn primary(&mut self) -> Result<Expression, Fault> {
        let place = self.place();
        let Some(token) = self.peek().cloned() else {
            return Err(self.unexpected("a tensor, a number, a function or `(`"));
        };
        self.at += 1;
        match token {
            Token::Number(number) => self.node(place, Node::Number(number)),
            Token::Tensor(name) => self.node(place, Node::Tensor(name)),
            Token::Word(function) if self.take("(") => {
                let mut arguments = Vec::new();
                let end = self.arguments(&mut arguments)?;
                self.node(place.start..end, Node::Call { function, name_at: place, arguments })
            }
            Token::Word(name) => self.node(place, Node::Variable(name)),
            Token::Sign("(") => {
                let inner = self.expression(0)?;
                let end = self.expect(")", "an operator or `)`")?;
                Ok(Expression { at: place.start..end, ..inner })
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
                self.node(place.start..end, Node::List(items))
            }
            _ => {
                self.at -= 1;
                Err(self.unexpected("a tensor, a number, a function or `(`"))
            }
        }
    }

    /// Arguments up to the closing parenthesis; returns its end.
    fn arguments(&mut self, arguments: &mut Vec<Argument>) -> Result<usize, Fault> {
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

    fn selectors(&mut self) -> Result<Vec<Selector>, Fault> {
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

    fn selector(&mut self) -> Result<Selector, Fault> {
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
    fn bound(&mut self) -> Result<Option<Expression>, Fault> {
        match self.peek() {
            None | Some(Token::Sign(":" | "," | "]")) => Ok(None),
            _ => self.expression(0).map(Some),
        }
    }

    fn node(&self, at: Range<usize>, node: Node) -> Result<Expression, Fault> {
        let depth_of = |items: &[Expression]| items.iter().map(|item| item.depth).max().unwrap_or(0);
        let below = match &node {
            Node::Number(_) | Node::Tensor(_) | Node::Variable(_) => 0,
            Node::List(items) | Node::Operation(_, items) => depth_of(items),
            Node::Call { arguments, .. } => arguments.iter().map(|a| a.value.depth).max().unwrap_or(0),
            Node::Index(value, selectors) => {
                selectors.iter().map(selector_depth).max().unwrap_or(0).max(value.depth)
            }
        };
        if below >= MOST_DEPTH {
            return Err(too_deep(&at));
        }
        Ok(Expression { at, node, depth: below + 1 })
    }

    fn deeper<T>(&mut self, next: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
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
    fn expect(&mut self, sign: &str, expected: &str) -> Result<usize, Fault> {
        let end = self.place().end;
        if self.take(sign) { Ok(end) } else { Err(self.unexpected(expected)) }
    }

    fn unexpected(&self, expected: &str) -> Fault {
        let found = match self.peek() {
            None => "the end".to_owned(),
            Some(Token::EndOfStatement) => "the end of the statement".to_owned(),
            Some(Token::Number(number)) => format!("the number {number}"),
            Some(Token::Tensor(name) | Token::Word(name)) => format!("the name `{}`", clean(name)),
            Some(Token::Sign(sign)) => format!("`{sign}`"),
        };
        Fault::new(&self.place(), format!("found {found}, expected {expected}"))
    }
}

fn selector_depth(selector: &Selector) -> usize {
    match selector {
        Selector::At(index) => index.depth,
        Selector::Range { start, end, step, .. } => {
            [start, end, step].into_iter().flatten().map(|bound| bound.depth).max().unwrap_or(0)
        }
        Selector::Rest(_) => 0,
    }
}

fn too_deep(at: &Range<usize>) -> Fault {
    Fault::new(at, format!("the expression has more than {MOST_DEPTH} levels"))
        .allowed("fewer levels: set a variable first, as in `d = actual - golden; abs(d).max()`")
}
