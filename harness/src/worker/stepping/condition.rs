//! Which breakpoints stop at a tap, and the numbers of a tap that expressions know.

use mlx_parity_core::calculate::{Calculator, Limits, Tensors};
use mlx_parity_core::debug::{Breakpoint, Breakpoints, On, TapPattern, loops};
use mlx_parity_core::record::{Record, Status};

/// The limits of one condition: it is evaluated at every matching tap.
const LIMITS: Limits = Limits { steps: 1 << 33, bytes: 1 << 30 };

/// Breakpoints that stop at a tap, and what could not be evaluated.
#[derive(Default)]
pub(super) struct Met {
    pub(super) numbers: Vec<u32>,
    pub(super) note: Option<String>,
}

/// Counts the hits of the breakpoints at this tap, and returns those that stop. A condition that cannot be evaluated stops
/// too: nobody knows whether it holds.
pub(super) fn met(
    breakpoints: &mut Breakpoints,
    name: &str,
    hit: u64,
    record: Option<&Record>,
    tensors: impl Fn() -> Box<dyn Tensors>,
) -> Met {
    let mut met = Met::default();
    let tap = numbers(name, hit, record);
    for breakpoint in &mut breakpoints.list {
        let Ok(pattern) = TapPattern::new(&breakpoint.pattern) else { continue };
        let Some(axes) = pattern.matches(name) else { continue };
        let has_result = match breakpoint.on {
            On::Any => true,
            On::Failed => record.is_some_and(|record| record.verdict.status == Status::Fail),
            On::Nan => record.and_then(|record| record.metrics.as_ref()).is_some_and(|m| m.actual.nan > 0),
        };
        let holds = match &breakpoint.when {
            Some(when) if has_result => holds(when, &tap, &axes, &*tensors()),
            _ => Ok(has_result),
        };
        if let Err(problem) = &holds {
            let number = breakpoint.number;
            met.note.get_or_insert(format!(
                "the condition of breakpoint {number} cannot be evaluated: {problem}"
            ));
        }
        if holds.unwrap_or(true) && counts(breakpoint) {
            met.numbers.push(breakpoint.number);
        }
    }
    met
}

/// Counts a matching hit, and returns whether the breakpoint stops at it.
fn counts(breakpoint: &mut Breakpoint) -> bool {
    breakpoint.hits += 1;
    breakpoint.hit.is_none_or(|hit| hit == breakpoint.hits)
}

fn holds(
    when: &str,
    tap: &[(String, f64)],
    axes: &[(&str, u64)],
    tensors: &dyn Tensors,
) -> Result<bool, String> {
    let mut calculator = Calculator::new(tensors, LIMITS);
    let axes = axes.iter().map(|&(axis, number)| (axis.to_owned(), number as f64));
    learn(&mut calculator, tap.iter().cloned().chain(axes));
    let answers = calculator.run(when).map_err(|error| error.to_string())?;
    let Some(answer) = answers.last() else { return Ok(false) };
    match answer.value.values() {
        [value] => Ok(*value != 0.0),
        values => Err(format!("its value has {} elements, expected one", values.len())),
    }
}

/// The numbers of a tap: its loops, such as `blocks` in `blocks.3.out`, then `hit`, from 1, `failed` and `used`.
pub(super) fn numbers(name: &str, hit: u64, record: Option<&Record>) -> Vec<(String, f64)> {
    let failed = record.is_some_and(|record| record.verdict.status == Status::Fail);
    let own = [("hit", hit as f64 + 1.0), ("failed", f64::from(u8::from(failed))), ("used", used(record))];
    let loops = loops(name).into_iter().map(|(word, number)| (word, number as f64));
    loops.chain(own).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The axes of the breakpoints with these numbers, at a tap.
pub(super) fn axes(breakpoints: &Breakpoints, numbers: &[u32], name: &str) -> Vec<(String, f64)> {
    let met = breakpoints.list.iter().filter(|one| numbers.contains(&one.number));
    let mut all = Vec::new();
    for pattern in met.filter_map(|one| TapPattern::new(&one.pattern).ok()) {
        let axes = pattern.matches(name).into_iter().flatten();
        all.extend(axes.map(|(axis, number)| (axis.to_owned(), number as f64)));
    }
    all
}

/// Gives numbers to an expression. A tensor of the same name keeps its name.
pub(super) fn learn(calculator: &mut Calculator<'_>, numbers: impl IntoIterator<Item = (String, f64)>) {
    for (name, value) in numbers {
        let _ = calculator.set_number(&name, value);
    }
}

/// The used part of the tolerance. Without one, a failure has used infinitely much, and anything else nothing.
pub(super) fn used(record: Option<&Record>) -> f64 {
    let difference = record.and_then(|record| record.metrics.as_ref()?.difference.as_ref());
    let failed = record.is_some_and(|record| record.verdict.status == Status::Fail);
    difference.and_then(|difference| difference.used).unwrap_or(if failed { f64::INFINITY } else { 0.0 })
}
