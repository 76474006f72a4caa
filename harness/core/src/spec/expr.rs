//! `when`: a small language of whole numbers and conditions over the axes of a loop.
//!
//! Numbers are 64-bit and signed. From loosest to tightest: `||`, `&&`, `!`, one comparison (`== != < <= > >=`),
//! `+ -`, `* / %`, unary `-`, parentheses. Division and remainder are those of Rust: division rounds towards zero, and
//! the remainder has the sign of the left side. `&&` and `||` evaluate their right side only when it matters, so
//! `k != 0 && n % k == 0` is safe.

use std::ops::Range;

use super::bounds;
use crate::text::suggest::did_you_mean;

/// A problem in an expression, with its bytes in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExprError {
    pub(super) at: Range<usize>,
    pub(super) message: String,
}

/// A condition that was read and whose types fit.
#[derive(Debug, Clone)]
pub(super) struct Condition {
    root: Expr,
}

impl Condition {
    /// Reads `text`, in which names are those of `axes`.
    pub(super) fn parse(text: &str, axes: &[&str]) -> Result<Self, ExprError> {
        if text.chars().nth(bounds::WHEN).is_some() {
            let message = format!("a condition may have at most {} characters", bounds::WHEN);
            return Err(ExprError { at: 0..text.len(), message });
        }
        let mut parser = Parser { text, at: 0, axes, depth: 0 };
        let root = parser.either()?;
        parser.skip_space();
        if parser.at < text.len() {
            return Err(parser.unexpected("an operator or the end"));
        }
        match root.kind {
            ExprType::Truth => Ok(Self { root }),
            ExprType::Number => Err(ExprError {
                at: root.at,
                message: "found a number, expected a condition such as `i % 2 == 0`".to_owned(),
            }),
        }
    }

    /// Whether it holds for these values of the axes.
    pub(super) fn holds(&self, values: &[i64]) -> Result<bool, ExprError> {
        self.root.eval(values).map(|value| value != 0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExprType {
    Number,
    Truth,
}

#[derive(Debug, Clone)]
struct Expr {
    at: Range<usize>,
    kind: ExprType,
    node: ExprNode,
}

#[derive(Debug, Clone)]
enum ExprNode {
    Number(i64),
    Axis(usize),
    Not(Box<Expr>),
    Minus(Box<Expr>),
    Binary(Operator, Box<Expr>, Box<Expr>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Or,
    And,
    Equal,
    Unequal,
    LessEqual,
    GreaterEqual,
    Less,
    Greater,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Expr {
    /// The number, or 0 or 1 for a condition.
    fn eval(&self, values: &[i64]) -> Result<i64, ExprError> {
        let fail = |message: String| ExprError { at: self.at.clone(), message };
        let too_large = || fail("the result does not fit in 64 bits".to_owned());
        match &self.node {
            ExprNode::Number(value) => Ok(*value),
            ExprNode::Axis(axis) => Ok(values.get(*axis).copied().unwrap_or_default()),
            ExprNode::Not(inner) => Ok(i64::from(inner.eval(values)? == 0)),
            ExprNode::Minus(inner) => inner.eval(values)?.checked_neg().ok_or_else(too_large),
            ExprNode::Binary(op, left, right) => {
                let a = left.eval(values)?;
                if *op == Operator::And && a == 0 || *op == Operator::Or && a != 0 {
                    return Ok(a);
                }
                let b = right.eval(values)?;
                if matches!(op, Operator::Divide | Operator::Remainder) && b == 0 {
                    return Err(fail("division by zero".to_owned()));
                }
                let number = match op {
                    Operator::Or | Operator::And => Some(b),
                    Operator::Equal => Some(i64::from(a == b)),
                    Operator::Unequal => Some(i64::from(a != b)),
                    Operator::LessEqual => Some(i64::from(a <= b)),
                    Operator::GreaterEqual => Some(i64::from(a >= b)),
                    Operator::Less => Some(i64::from(a < b)),
                    Operator::Greater => Some(i64::from(a > b)),
                    Operator::Add => a.checked_add(b),
                    Operator::Subtract => a.checked_sub(b),
                    Operator::Multiply => a.checked_mul(b),
                    Operator::Divide => a.checked_div(b),
                    Operator::Remainder => a.checked_rem(b),
                };
                number.ok_or_else(too_large)
            }
        }
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    axes: &'t [&'t str],
    depth: usize,
}

impl Parser<'_> {
    fn either(&mut self) -> Result<Expr, ExprError> {
        self.chain(&[("||", Operator::Or)], ExprType::Truth, Self::both)
    }

    fn both(&mut self) -> Result<Expr, ExprError> {
        self.chain(&[("&&", Operator::And)], ExprType::Truth, Self::negation)
    }

    fn negation(&mut self) -> Result<Expr, ExprError> {
        self.skip_space();
        let start = self.at;
        // `!=` cannot begin an operand, so a `!` here is always a negation.
        if !self.take("!") {
            return self.comparison();
        }
        let inner = self.deeper(start, Self::negation)?;
        self.want(&inner, ExprType::Truth)?;
        Ok(Expr { at: start..inner.at.end, kind: ExprType::Truth, node: ExprNode::Not(Box::new(inner)) })
    }

    fn comparison(&mut self) -> Result<Expr, ExprError> {
        const OPS: [(&str, Operator); 6] = [
            ("==", Operator::Equal),
            ("!=", Operator::Unequal),
            ("<=", Operator::LessEqual),
            (">=", Operator::GreaterEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        let left = self.sum()?;
        let Some(op) = self.take_op(&OPS) else { return Ok(left) };
        self.want(&left, ExprType::Number)?;
        let right = self.sum()?;
        self.want(&right, ExprType::Number)?;
        Ok(binary(op, ExprType::Truth, left, right))
    }

    fn sum(&mut self) -> Result<Expr, ExprError> {
        self.chain(&[("+", Operator::Add), ("-", Operator::Subtract)], ExprType::Number, Self::product)
    }

    fn product(&mut self) -> Result<Expr, ExprError> {
        let ops = [("*", Operator::Multiply), ("/", Operator::Divide), ("%", Operator::Remainder)];
        self.chain(&ops, ExprType::Number, Self::operand)
    }

    fn operand(&mut self) -> Result<Expr, ExprError> {
        self.skip_space();
        let start = self.at;
        if self.take("(") {
            let inner = self.deeper(start, Self::either)?;
            self.skip_space();
            if !self.take(")") {
                return Err(self.unexpected("`)`"));
            }
            return Ok(Expr { at: start..self.at, ..inner });
        }
        if self.take("-") {
            let inner = self.deeper(start, Self::operand)?;
            self.want(&inner, ExprType::Number)?;
            let at = start..inner.at.end;
            return Ok(Expr { at, kind: ExprType::Number, node: ExprNode::Minus(Box::new(inner)) });
        }
        let rest = &self.text[start..];
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let word = &rest[..length];
        if word.is_empty() {
            return Err(self.unexpected("a number, an axis or `(`"));
        }
        self.at += length;
        let at = start..self.at;
        let node = if word.starts_with(|c: char| c.is_ascii_digit()) {
            let number = word.parse().map_err(|_| ExprError {
                at: at.clone(),
                message: format!("`{word}` is not a whole number of 64 bits"),
            })?;
            ExprNode::Number(number)
        } else {
            let axis = self.axes.iter().position(|axis| *axis == word).ok_or_else(|| ExprError {
                at: at.clone(),
                message: format!(
                    "unknown axis `{word}`{}, expected {}",
                    did_you_mean(word, self.axes.iter().copied()),
                    self.axes.iter().map(|axis| format!("`{axis}`")).collect::<Vec<_>>().join(" or "),
                ),
            })?;
            ExprNode::Axis(axis)
        };
        Ok(Expr { at, kind: ExprType::Number, node })
    }

    /// Operators of one precedence, from left to right.
    fn chain(
        &mut self,
        ops: &[(&str, Operator)],
        kind: ExprType,
        next: fn(&mut Self) -> Result<Expr, ExprError>,
    ) -> Result<Expr, ExprError> {
        let mut left = next(self)?;
        while let Some(op) = self.take_op(ops) {
            self.want(&left, kind)?;
            let right = next(self)?;
            self.want(&right, kind)?;
            left = binary(op, kind, left, right);
        }
        Ok(left)
    }

    fn deeper(
        &mut self,
        start: usize,
        next: fn(&mut Self) -> Result<Expr, ExprError>,
    ) -> Result<Expr, ExprError> {
        self.depth += 1;
        if self.depth > bounds::WHEN_DEPTH {
            let message = format!("nested more than {} levels deep", bounds::WHEN_DEPTH);
            return Err(ExprError { at: start..self.at, message });
        }
        let inner = next(self);
        self.depth -= 1;
        inner
    }

    fn want(&self, expr: &Expr, kind: ExprType) -> Result<(), ExprError> {
        let message = match kind {
            _ if expr.kind == kind => return Ok(()),
            ExprType::Number => "found a condition where a number is expected",
            ExprType::Truth => "found a number where a condition is expected",
        };
        Err(ExprError { at: expr.at.clone(), message: message.to_owned() })
    }

    fn take_op(&mut self, ops: &[(&str, Operator)]) -> Option<Operator> {
        self.skip_space();
        ops.iter().find(|(sign, _)| self.take(sign)).map(|&(_, op)| op)
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = self.text[self.at..].starts_with(sign);
        if found {
            self.at += sign.len();
        }
        found
    }

    fn skip_space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n']).len();
    }

    fn unexpected(&mut self, wanted: &str) -> ExprError {
        self.skip_space();
        let found = self.text[self.at..].chars().next();
        let length = found.map_or(0, char::len_utf8);
        let found = found.map_or("the end".to_owned(), |c| super::problem::quoted(&c.to_string()));
        ExprError { at: self.at..self.at + length, message: format!("found {found}, expected {wanted}") }
    }
}

fn binary(op: Operator, kind: ExprType, left: Expr, right: Expr) -> Expr {
    let at = left.at.start..right.at.end;
    Expr { at, kind, node: ExprNode::Binary(op, Box::new(left), Box::new(right)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: bool) {
        let condition = Condition::parse(text, &["i", "step"]).unwrap();
        assert_eq!(condition.holds(&[7, -3]), Ok(expected), "{text}");
    }

    #[test]
    fn operators_bind_as_documented() {
        check("i == 7 && step == -3", true);
        check("i + 2 * 3 == 13", true);
        check("(i + 2) * 3 == 27", true);
        check("10 - 4 - 3 == 3", true);
        check("100 / 10 / 5 == 2", true);
        check("i == 0 || i == 7 && step > 0", false);
        check("(i == 0 || i == 7) && step < 0", true);
        check("!i == 0", true); // not (i == 0)
        check("!(i == 7) || !!(i >= 7)", true);
        check("- -i == 7", true);
        check("i <= 6 || i != 7 || i < 7 || i > 7", false);
    }

    #[test]
    fn division_is_towards_zero_and_the_remainder_has_the_sign_of_the_left() {
        check("step / 2 == -1", true);
        check("step % 2 == -1", true);
        check("i % -2 == 1", true);
    }

    #[test]
    fn the_right_side_is_looked_at_only_when_it_matters() {
        check("i == 0 && 1 / 0 == 1", false);
        check("i == 7 || 1 / 0 == 1", true);
        let condition = Condition::parse("i == 7 && 1 / 0 == 1", &["i"]).unwrap();
        let error = condition.holds(&[7]).unwrap_err();
        assert_eq!((error.at, error.message.as_str()), (10..15, "division by zero"));
    }

    #[test]
    fn overflow_is_an_error_in_every_operation() {
        let least = "(-9223372036854775807 - 1)";
        for text in [
            format!("{least} - 1 == 0"),
            format!("{least} / -1 == 0"),
            format!("{least} % -1 == 0"),
            format!("{least} * 2 == 0"),
            format!("-{least} == 0"),
            "9223372036854775807 + i == 0".to_owned(),
        ] {
            let error = Condition::parse(&text, &["i"]).unwrap().holds(&[1]).unwrap_err();
            assert_eq!(error.message, "the result does not fit in 64 bits", "{text}");
        }
    }
}
