//! Sums of products in Einstein's notation.

use super::array::{Array, elements};
use super::error::ReplayError;
use super::matrix::matmul;
use super::reduce::reduce;
use super::strided::{expand, permute};
use super::work::Work;
use crate::recipe::Reduction;

/// An array with a letter per axis.
#[derive(Clone)]
struct Term {
    letters: Vec<char>,
    array: Array,
}

/// Evaluates an equation such as `bhqd,bhkd->bhqk`, as `torch.einsum` does. Operands are multiplied from left to right.
///
/// If a letter is repeated in a term, the diagonal of its axes is taken. `...` stands for all axes without a letter. Without
/// `->`, the result has the letters that appear once, in alphabetical order.
pub(super) fn einsum(equation: &str, operands: &[Array], work: &Work) -> Result<Array, ReplayError> {
    let equation: String = equation.chars().filter(|c| *c != ' ').collect();
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (equation.as_str(), None),
    };
    let terms: Vec<&str> = left.split(',').collect();
    if terms.len() != operands.len() {
        let problem = format!("`{equation}` has {} terms for {} operands", terms.len(), operands.len());
        return Err(ReplayError::operands(problem));
    }
    let mut inputs = Vec::with_capacity(terms.len());
    // Axes that `...` stands for get characters that no equation uses. The last axis always gets the first of these.
    let mut covered = 0;
    for (term, operand) in terms.iter().zip(operands) {
        operand.check_real()?;
        let named = letters(&equation, &term.replacen("...", "", 1))?;
        let rest = operand.ndim().checked_sub(named.len());
        let has_rest = term.contains("...");
        let Some(rest) = rest.filter(|&rest| rest == 0 || has_rest) else {
            let shape = operand.shape();
            return Err(ReplayError::operands(format!("term `{term}` does not fit shape {shape:?}")));
        };
        covered = covered.max(rest);
        inputs.push(Term { letters: letters_of(term, rest), array: operand.clone() });
    }
    let output = match right {
        Some(right) => {
            letters(&equation, &right.replacen("...", "", 1))?;
            letters_of(right, if right.contains("...") { covered } else { 0 })
        }
        None => implied(&inputs, covered),
    };
    let unknown = output.iter().find(|letter| !inputs.iter().any(|term| term.letters.contains(letter)));
    if let Some(letter) = unknown {
        return Err(ReplayError::operands(format!("`{equation}` has no term with `{letter}`")));
    }
    let mut inputs =
        inputs.into_iter().map(|term| diagonal(term, work)).collect::<Result<Vec<_>, _>>()?.into_iter();
    let mut product = inputs.next().ok_or_else(|| ReplayError::operands("no operand is given"))?;
    let mut later: Vec<Term> = inputs.collect();
    while !later.is_empty() {
        let next = later.remove(0);
        // Letters that neither the result nor a later term needs are summed over now.
        let kept =
            |letter: &char| output.contains(letter) || later.iter().any(|term| term.letters.contains(letter));
        product = multiply(product, next, kept, work)?;
    }
    let product = sum_except(product, |letter| output.contains(letter), work)?;
    let place = |letter: &char| product.letters.iter().position(|other| other == letter);
    let axes: Vec<usize> = output.iter().filter_map(place).collect();
    permute(&product.array, &axes, work)
}

/// The letters of a term. Any other character is an error.
fn letters(equation: &str, term: &str) -> Result<Vec<char>, ReplayError> {
    if term.chars().all(|c| c.is_ascii_alphabetic()) {
        return Ok(term.chars().collect());
    }
    Err(ReplayError::operands(format!("`{equation}` has a term `{term}`, expected letters")))
}

/// The letters of a term in which `...` stands for `rest` axes.
fn letters_of(term: &str, rest: usize) -> Vec<char> {
    let covered = (0..rest as u32).rev().filter_map(|axis| char::from_u32(0xE000 + axis));
    match term.split_once("...") {
        Some((before, after)) => before.chars().chain(covered).chain(after.chars()).collect(),
        None => term.chars().collect(),
    }
}

/// The letters of a result without `->`.
fn implied(inputs: &[Term], covered: usize) -> Vec<char> {
    let all: Vec<char> = inputs.iter().flat_map(|term| term.letters.iter().copied()).collect();
    let mut once: Vec<char> = all
        .iter()
        .copied()
        .filter(|letter| letter.is_ascii() && all.iter().filter(|other| *other == letter).count() == 1)
        .collect();
    once.sort_unstable();
    letters_of("...", covered).into_iter().chain(once).collect()
}

/// Returns a term without repeated letters: the diagonal of the axes with the same letter.
fn diagonal(term: Term, work: &Work) -> Result<Term, ReplayError> {
    let Term { mut letters, mut array } = term;
    while let Some((first, second)) = repeated(&letters) {
        let (one, two) = (array.shape()[first], array.shape()[second]);
        if one != two {
            return Err(ReplayError::operands(format!("a diagonal has lengths {one} and {two}")));
        }
        // Both axes move to the end. Then every (n + 1)-th element of each square is taken.
        let mut axes: Vec<usize> =
            (0..letters.len()).filter(|axis| ![first, second].contains(axis)).collect();
        let mut rest: Vec<char> = axes.iter().map(|&axis| letters[axis]).collect();
        axes.extend([first, second]);
        let squares = permute(&array, &axes, work)?;
        let mut shape = squares.shape().to_vec();
        shape.pop();
        let length = elements(&shape)?;
        work.elements(length)?;
        let mut out = work.buffer(length)?;
        for square in squares.values().chunks_exact(elements(&[one, one])?.max(1)) {
            out.extend(square.iter().step_by(one + 1).copied());
        }
        rest.push(letters[first]);
        (letters, array) = (rest, Array::real(shape, out));
    }
    Ok(Term { letters, array })
}

/// Two places with the same letter.
fn repeated(letters: &[char]) -> Option<(usize, usize)> {
    let mut pairs = (0..letters.len()).flat_map(|a| (0..a).map(move |b| (b, a)));
    pairs.find(|&(a, b)| letters[a] == letters[b])
}

/// Sums over all letters but the kept ones.
fn sum_except(term: Term, kept: impl Fn(&char) -> bool, work: &Work) -> Result<Term, ReplayError> {
    let axes: Vec<usize> = (0..term.letters.len()).filter(|&axis| !kept(&term.letters[axis])).collect();
    if axes.is_empty() {
        return Ok(term);
    }
    let array = reduce(Reduction::Sum, &axes, false, &term.array, work)?;
    Ok(Term { letters: term.letters.into_iter().filter(|letter| kept(letter)).collect(), array })
}

/// The product of two terms, summed over the common letters that are not kept.
fn multiply(a: Term, b: Term, kept: impl Fn(&char) -> bool, work: &Work) -> Result<Term, ReplayError> {
    let (in_a, in_b) = (a.letters.clone(), b.letters.clone());
    let a = sum_except(a, |letter| kept(letter) || in_b.contains(letter), work)?;
    let b = sum_except(b, |letter| kept(letter) || in_a.contains(letter), work)?;
    let shared = |letter: &&char| in_b.contains(letter);
    let batch: Vec<char> = a.letters.iter().filter(shared).filter(|letter| kept(letter)).copied().collect();
    let summed: Vec<char> = a.letters.iter().filter(shared).filter(|letter| !kept(letter)).copied().collect();
    let only_a: Vec<char> = a.letters.iter().filter(|letter| !in_b.contains(letter)).copied().collect();
    let only_b: Vec<char> = b.letters.iter().filter(|letter| !in_a.contains(letter)).copied().collect();
    let length = |letter: &char| {
        // An axis of length 1 is repeated, as in torch.
        let lengths = [&a, &b].map(|term| {
            term.letters.iter().position(|other| other == letter).map_or(1, |axis| term.array.shape()[axis])
        });
        match lengths {
            [1, other] | [other, 1] => Ok(other),
            [one, two] if one == two => Ok(one),
            [one, two] => Err(ReplayError::operands(format!("`{letter}` has lengths {one} and {two}"))),
        }
    };
    let lengths = |letters: &[char]| letters.iter().map(length).collect::<Result<Vec<usize>, _>>();
    let (outer, inner) = (lengths(&batch)?, lengths(&summed)?);
    let (rows, columns) = (lengths(&only_a)?, lengths(&only_b)?);
    let matrix = |term: &Term, order: [&[char]; 3], lengths: [&[usize]; 3]| {
        let order = order.concat();
        let place = |letter: &char| term.letters.iter().position(|other| other == letter);
        let axes: Vec<usize> = order.iter().filter_map(place).collect();
        let ordered = expand(&permute(&term.array, &axes, work)?, &lengths.concat(), work)?;
        let [_, second, third] = lengths;
        ordered.reshaped([lengths[0], &[elements(second)?, elements(third)?]].concat())
    };
    let left = matrix(&a, [&batch, &only_a, &summed], [&outer, &rows, &inner])?;
    let right = matrix(&b, [&batch, &summed, &only_b], [&outer, &inner, &columns])?;
    let array = matmul(&left, &right, work)?.reshaped([&outer[..], &rows, &columns].concat())?;
    Ok(Term { letters: [batch, only_a, only_b].concat(), array })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn work() -> Work {
        Work::new(1 << 40, 1 << 30)
    }

    fn counted(shape: &[usize]) -> Array {
        let length = elements(shape).unwrap();
        Array::new(shape.to_vec(), (0..length).map(|i| (i % 5) as f64 - 1.0).collect()).unwrap()
    }

    #[track_caller]
    fn check(equation: &str, shapes: &[&[usize]], shape: &[usize], values: &[f64]) {
        let operands: Vec<Array> = shapes.iter().map(|shape| counted(shape)).collect();
        let found = einsum(equation, &operands, &work()).unwrap();
        assert_eq!((found.shape(), found.values()), (shape, values), "{equation}");
    }

    // Printed by numpy.einsum.
    #[test]
    fn equations_mean_what_they_mean_in_numpy() {
        check("ij->ji", &[&[2, 3]], &[3, 2], &[-1., 2., 0., 3., 1., -1.]);
        check("ij->", &[&[2, 3]], &[], &[4.0]);
        check("ij->j", &[&[2, 3]], &[3], &[1., 3., 0.]);
        check("ii->i", &[&[2, 2]], &[2], &[-1., 2.]);
        check("ii", &[&[2, 2]], &[], &[1.0]);
        check("iji->ji", &[&[2, 2, 2]], &[2, 2], &[-1., -1., 1., 1.]);
        check("ij,jk->ik", &[&[2, 2], &[2, 2]], &[2, 2], &[1., 0., 1., 4.]);
        check("ij,jk", &[&[2, 2], &[2, 2]], &[2, 2], &[1., 0., 1., 4.]);
        check("i,j->ij", &[&[2], &[2]], &[2, 2], &[1., 0., 0., 0.]);
        check("i,i->i", &[&[3], &[3]], &[3], &[1., 0., 1.]);
        check("bij,bjk->bki", &[&[1, 2, 2], &[1, 2, 2]], &[1, 2, 2], &[1., 1., 0., 4.]);
        check("...ij,...jk->...ik", &[&[1, 2, 2], &[2, 2]], &[1, 2, 2], &[1., 0., 1., 4.]);
        check("ij,jk,kl->il", &[&[1, 2], &[2, 2], &[2, 1]], &[1, 1], &[-1.0]);
        check("ij,ij,j->i", &[&[2, 2], &[2, 2], &[2]], &[2], &[-1., -1.]);
    }

    #[test]
    fn what_is_no_equation_is_an_error() {
        for (equation, shapes) in [
            ("ij,jk->ik", &[&[2, 2][..]][..]),
            ("ij->ik", &[&[2, 2]]),
            ("i->i", &[&[2, 2]]),
            ("i%->i", &[&[2, 2]]),
            ("ii->i", &[&[2, 3]]),
            ("ij,jk->ik", &[&[2, 2], &[3, 2]]),
            ("", &[&[2]]),
            ("...i...->i", &[&[2]]),
            ("i->ii", &[&[2]]),
        ] {
            let operands: Vec<Array> = shapes.iter().map(|shape| counted(shape)).collect();
            assert!(einsum(equation, &operands, &work()).is_err(), "{equation}");
        }
    }

    proptest! {
        #[test]
        fn two_terms_agree_with_plain_loops(
            letters in prop::collection::vec((1usize..4, 0u8..3, any::<bool>()), 1..5),
        ) {
            // Each letter is in the first term, the second or both, and in the result or not.
            let name = |index: usize| char::from(b'a' + index as u8);
            let term = |is_in: fn(u8) -> bool| -> Vec<usize> {
                (0..letters.len()).filter(|&i| is_in(letters[i].1)).collect()
            };
            let (first, mut second) = (term(|side| side != 1), term(|side| side != 0));
            second.reverse();
            let result: Vec<usize> = (0..letters.len()).filter(|&i| letters[i].2).collect();
            let text = |indices: &[usize]| indices.iter().map(|&i| name(i)).collect::<String>();
            let shape = |indices: &[usize]| indices.iter().map(|&i| letters[i].0).collect::<Vec<_>>();
            let equation = format!("{},{}->{}", text(&first), text(&second), text(&result));
            let (a, b) = (counted(&shape(&first)), counted(&shape(&second)));
            let found = einsum(&equation, &[a.clone(), b.clone()], &work()).unwrap();
            let mut expected = vec![0.0; shape(&result).iter().product()];
            let total: usize = letters.iter().map(|l| l.0).product();
            for position in 0..total {
                let mut rest = position;
                let index: Vec<usize> = letters.iter().map(|l| {
                    let i = rest % l.0;
                    rest /= l.0;
                    i
                }).collect();
                let at = |indices: &[usize]| indices.iter().fold(0, |at, &i| at * letters[i].0 + index[i]);
                expected[at(&result)] += a.values()[at(&first)] * b.values()[at(&second)];
            }
            prop_assert_eq!(found.shape(), &shape(&result)[..]);
            prop_assert_eq!(found.values(), &expected[..], "{}", equation);
        }
    }
}
