//! The arguments of a call: which parameter each belongs to, and what it must be.

use std::ops::Range;

use super::error::Mistake;
use crate::replay::Array;
use crate::text::printable::clean;
use crate::text::suggest::did_you_mean;

/// The name of a function, and what it takes.
pub(super) struct Signature {
    pub(super) name: &'static str,
    /// Names of the parameters after the tensor. `…` takes any number of arguments.
    pub(super) parameters: &'static [&'static str],
}

impl Signature {
    /// The call with the names of its parameters.
    pub(super) fn call(&self) -> String {
        let parameters: Vec<&str> = std::iter::once("x").chain(self.parameters.iter().copied()).collect();
        format!("{}({})", self.name, parameters.join(", "))
    }

    fn text(&self) -> String {
        format!("`{}`", self.call())
    }
}

/// An argument that was evaluated.
pub(super) struct Value {
    pub(super) name: Option<(String, Range<usize>)>,
    pub(super) value: Array,
    pub(super) at: Range<usize>,
}

/// The arguments of a call, by parameter.
pub(super) struct Arguments {
    signature: &'static Signature,
    at: Range<usize>,
    /// The first argument, which every function has.
    pub(super) x: Array,
    /// One per parameter.
    values: Vec<Option<Value>>,
    rest: Vec<Value>,
}

impl Arguments {
    /// Assigns arguments to parameters, by position and by name.
    pub(super) fn new(
        signature: &'static Signature,
        at: &Range<usize>,
        given: Vec<Value>,
    ) -> Result<Self, Mistake> {
        let name = signature.name;
        let takes_many = signature.parameters == ["…"];
        let parameters = if takes_many { &[] } else { signature.parameters };
        let mut given = given.into_iter();
        let Some(Value { name: None, value: x, .. }) = given.next() else {
            return Err(Mistake::new(at, format!("`{name}` needs a tensor")).allowed(signature.text()));
        };
        let mut values: Vec<Option<Value>> = parameters.iter().map(|_| None).collect();
        let mut rest = Vec::new();
        for (index, argument) in given.enumerate() {
            let place = match &argument.name {
                _ if takes_many => {
                    rest.push(argument);
                    continue;
                }
                None => index,
                Some((named, named_at)) => {
                    parameters.iter().position(|parameter| parameter == named).ok_or_else(|| {
                        let near = did_you_mean(named, parameters.iter().copied());
                        let message = format!("`{name}` has no parameter `{}`{near}", clean(named));
                        Mistake::new(named_at, message).allowed(signature.text())
                    })?
                }
            };
            match values.get_mut(place) {
                None => {
                    return Err(Mistake::new(&argument.at, format!("`{name}` takes no further argument"))
                        .allowed(signature.text()));
                }
                Some(Some(_)) => {
                    let message = format!("`{name}` has two values for `{}`", parameters[place]);
                    return Err(Mistake::new(&argument.at, message));
                }
                Some(free) => *free = Some(argument),
            }
        }
        Ok(Self { signature, at: at.clone(), x, values, rest })
    }

    /// The error that a parameter has no value.
    pub(super) fn missing(&self, index: usize) -> Mistake {
        let message = format!("`{}` needs `{}`", self.signature.name, self.signature.parameters[index]);
        Mistake::new(&self.at, message).allowed(self.signature.text())
    }

    /// The value of a parameter that must be given.
    pub(super) fn tensor(&self, index: usize) -> Result<Array, Mistake> {
        let value = self.values.get(index).and_then(Option::as_ref);
        value.map(|value| value.value.clone()).ok_or_else(|| self.missing(index))
    }

    /// The number of a parameter and its place, if it was given.
    pub(super) fn number(&self, index: usize) -> Result<Option<(f64, Range<usize>)>, Mistake> {
        let Some(given) = self.values.get(index).and_then(Option::as_ref) else { return Ok(None) };
        Ok(Some((scalar(&given.value, &given.at)?, given.at.clone())))
    }

    /// The axes of a reduction: all of them by default.
    pub(super) fn axes(&self) -> Result<Vec<usize>, Mistake> {
        let Some(given) = self.values.first().and_then(Option::as_ref) else {
            return Ok((0..self.x.ndim()).collect());
        };
        let mut axes = Vec::new();
        for &axis in given.value.values() {
            let axis = normal_axis(whole(axis, &given.at)?, &self.x, &given.at)?;
            if axes.contains(&axis) {
                return Err(Mistake::new(&given.at, format!("axis {axis} is listed twice")));
            }
            axes.push(axis);
        }
        Ok(axes)
    }

    /// One axis, the last one by default.
    pub(super) fn one_axis(&self) -> Result<usize, Mistake> {
        let (axis, place) = match self.number(0)? {
            Some((axis, place)) => (whole(axis, &place)?, place),
            None => (-1, self.at.clone()),
        };
        normal_axis(axis, &self.x, &place)
    }

    /// All further arguments as whole numbers. A list counts as its elements.
    pub(super) fn rest(&self) -> Result<Vec<(i64, Range<usize>)>, Mistake> {
        let mut found = Vec::new();
        for given in &self.rest {
            for &value in given.value.values() {
                found.push((whole(value, &given.at)?, given.at.clone()));
            }
        }
        Ok(found)
    }

    /// The shape that the further arguments spell, with a length for -1.
    pub(super) fn new_shape(&self) -> Result<Vec<usize>, Mistake> {
        let lengths = self.rest()?;
        let known = lengths.iter().filter(|(length, _)| *length >= 0);
        let product = known.clone().try_fold(1usize, |all, (length, _)| {
            usize::try_from(*length).ok().and_then(|length| all.checked_mul(length))
        });
        let wrong = |problem: String| {
            let allowed = format!("lengths whose product is {}; one of them may be -1", self.x.len());
            Err(Mistake::new(&self.at, problem).allowed(allowed))
        };
        let wanted: Vec<i64> = lengths.iter().map(|(length, _)| *length).collect();
        let open = wanted.iter().filter(|length| **length < 0).count();
        if open > 1 || wanted.iter().any(|length| *length < -1) {
            return wrong(format!("{wanted:?} is not a shape"));
        }
        let fits = match (product, open) {
            (Some(product), 0) => product == self.x.len(),
            (Some(product), _) => product > 0 && self.x.len().is_multiple_of(product),
            (None, _) => false,
        };
        if !fits {
            return wrong(format!("shape {:?} cannot become {wanted:?}", self.x.shape()));
        }
        let missing = self.x.len() / product.unwrap_or(1).max(1);
        Ok(wanted.iter().map(|&length| usize::try_from(length).unwrap_or(missing)).collect())
    }
}

/// The one number of a value.
pub(super) fn scalar(value: &Array, at: &Range<usize>) -> Result<f64, Mistake> {
    match value.values() {
        [number] if !value.is_complex() => Ok(*number),
        _ => {
            Err(Mistake::new(at, format!("found a tensor of shape {:?}, expected one number", value.shape())))
        }
    }
}

/// A whole number that float64 holds exactly.
pub(super) fn whole(number: f64, at: &Range<usize>) -> Result<i64, Mistake> {
    const LARGEST: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= LARGEST {
        Ok(number as i64)
    } else {
        Err(Mistake::new(at, format!("found {number}, expected a whole number")))
    }
}

/// The index of an axis. A negative axis counts from the end.
pub(super) fn normal_axis(axis: i64, x: &Array, at: &Range<usize>) -> Result<usize, Mistake> {
    let ndim = x.ndim() as i64;
    let normal = if axis < 0 { axis + ndim } else { axis };
    if (0..ndim).contains(&normal) {
        return Ok(normal as usize);
    }
    let allowed = match ndim {
        0 => "no axis: this is a single number".to_owned(),
        _ => format!("{} to {}", -ndim, ndim - 1),
    };
    Err(Mistake::new(at, format!("axis {axis} does not exist in shape {:?}", x.shape())).allowed(allowed))
}
