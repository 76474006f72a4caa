//! What a text says, as statements and expressions.

use std::ops::Range;

use super::error::Mistake;
use crate::recipe::Op;

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

impl Expression {
    /// Returns an expression with this node, unless it has too many levels.
    pub(super) fn new(at: Range<usize>, node: Node) -> Result<Self, Mistake> {
        let depth_of = |items: &[Self]| items.iter().map(|item| item.depth).max().unwrap_or(0);
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
        Ok(Self { at, node, depth: below + 1 })
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

/// The error that an expression has too many levels.
pub(super) fn too_deep(at: &Range<usize>) -> Mistake {
    Mistake::new(at, format!("the expression has more than {MOST_DEPTH} levels"))
        .allowed("fewer levels: set a variable first, as in `d = actual - golden; abs(d).max()`")
}
