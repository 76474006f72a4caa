//! A tolerance means the same as in NumPy's `allclose`, on edge cases whose verdicts NumPy computed
//! (`data/compare/make_table.py`), except where a distance or a bound overflows.

use std::collections::BTreeMap;

use mlx_parity_core::compare::{Comparison, compare};
use mlx_parity_core::gate::Class;
use mlx_parity_core::gate::{Gate, Rule};
use mlx_parity_core::tensor::{Dtype, TensorView};
use serde::Deserialize;

#[derive(Deserialize)]
struct Table {
    values: Vec<String>,
    pairs: Vec<(usize, usize)>,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    rtol: f64,
    atol: f64,
    equal_nan: bool,
    close: String,
}

fn tables() -> BTreeMap<String, Table> {
    let mut all: BTreeMap<String, serde_json::Value> =
        serde_json::from_str(include_str!("../../data/compare/allclose.json")).unwrap();
    all.remove("made_with");
    all.into_iter().map(|(name, table)| (name, serde_json::from_value(table).unwrap())).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

fn judge(dtype: Dtype, expected: &[u8], actual: &[u8], row: &Row) -> Comparison {
    let shape = [expected.len() / dtype.size()];
    let gate = Gate::Tolerance { rtol: row.rtol, atol: row.atol, policy: None };
    let rule = Rule { gate: Some(gate), nan_equal: row.equal_nan, ..Rule::default() };
    let view = |data| TensorView::new(dtype, &shape, data).unwrap();
    compare(&view(expected), &view(actual), &rule)
}

/// Whether an element is NaN or infinite, so that it has no distance to another.
fn is_nonfinite(dtype: Dtype, element: &[u8]) -> bool {
    let bits = |at: usize, size: usize| {
        element[at..at + size].iter().rev().fold(0u64, |bits, &b| bits << 8 | u64::from(b))
    };
    let full = |bits: u64, mask: u64| bits & mask == mask;
    match dtype {
        Dtype::Float16 => full(bits(0, 2), 0x7c00),
        Dtype::Bfloat16 => full(bits(0, 2), 0x7f80),
        Dtype::Float32 => full(bits(0, 4), 0x7f80_0000),
        Dtype::Float64 => full(bits(0, 8), 0x7ff0 << 48),
        Dtype::Complex64 => full(bits(0, 4), 0x7f80_0000) || full(bits(4, 4), 0x7f80_0000),
        _ => false,
    }
}

/// Whether NumPy accepts a finite pair only because the distance or the bound overflows. Here such a pair never agrees.
fn overflows(dtype: Dtype, expected: &[u8], actual: &[u8], row: &Row) -> bool {
    if dtype != Dtype::Float64 {
        return false;
    }
    let [e, a] = [expected, actual].map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap()));
    let (distance, bound) = ((a - e).abs(), row.atol + row.rtol * e.abs());
    e.is_finite() && a.is_finite() && e != a && !(distance.is_finite() && bound.is_finite())
}

#[test]
fn every_dtype_has_a_table() {
    let tables = tables();
    assert!(Dtype::ALL.iter().all(|dtype| tables.contains_key(dtype.name())));
    assert_eq!(tables.len(), Dtype::ALL.len());
}

#[test]
fn each_pair_is_judged_as_numpy_judges_it() {
    for (name, table) in tables() {
        let dtype = Dtype::from_name(&name).unwrap();
        let values: Vec<Vec<u8>> = table.values.iter().map(|hex| bytes(hex)).collect();
        for row in &table.rows {
            assert_eq!(row.close.len(), table.pairs.len());
            for (&(e, a), close) in table.pairs.iter().zip(row.close.bytes()) {
                let (e, a) = (&values[e], &values[a]);
                let class = judge(dtype, e, a, row).class;
                let not_finite = [e, a].map(|x| is_nonfinite(dtype, x));
                let expected = match (close, not_finite) {
                    // If the bound overflows, NumPy accepts an infinity for a finite golden. Here finiteness comes
                    // first.
                    (_, [false, true]) => Some(Class::Finite),
                    (b'1', [false, false]) if overflows(dtype, e, a, row) => Some(Class::Value),
                    (b'1', _) => None,
                    (_, [false, false]) => Some(Class::Value),
                    _ => Some(Class::Finite),
                };
                assert_eq!(class, expected, "{name}: {e:02x?} {a:02x?} rtol {} atol {}", row.rtol, row.atol);
            }
        }
    }
}

#[test]
fn whole_blocks_are_judged_as_single_elements_are() {
    for (name, table) in tables() {
        let dtype = Dtype::from_name(&name).unwrap();
        let values: Vec<Vec<u8>> = table.values.iter().map(|hex| bytes(hex)).collect();
        for row in &table.rows {
            // Two blocks and a rest, all of the same pair, so that every lane of the vector code has it.
            for (&(e, a), close) in table.pairs.iter().zip(row.close.bytes()).step_by(83) {
                let (e, a) = (&values[e], &values[a]);
                if is_nonfinite(dtype, e) || is_nonfinite(dtype, a) {
                    continue;
                }
                let outcome = judge(dtype, &e.repeat(4100), &a.repeat(4100), row);
                let mismatched = outcome.metrics.unwrap().difference.unwrap().mismatched;
                let agrees = close == b'1' && !overflows(dtype, e, a, row);
                let expected = if agrees { 0 } else { 4100 };
                assert_eq!(
                    mismatched,
                    Some(expected),
                    "{name}: {e:02x?} {a:02x?} rtol {} atol {}",
                    row.rtol,
                    row.atol
                );
            }
        }
    }
}
