//! Recipes with any operations and any numbers: every evaluation ends, within its limits and without a panic.

use std::collections::BTreeSet;

use mlx_parity_core::recipe::{Leaf, Recipe};
use mlx_parity_core::replay::{Array, Leaves, Replay, ReplayError, Work};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

/// What an attribute holds.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Axis,
    Axes,
    Count,
    Counts,
    Shape,
    Pairs,
    Slices,
    Number,
    Whole,
    Wholes,
    Flag,
    Text(&'static [&'static str]),
}

use Kind::{Axes, Axis, Count, Counts, Flag, Number, Pairs, Shape, Slices, Text, Whole, Wholes};

/// An operation: its name, the number of its operands, and its attributes.
type Schema = (&'static str, usize, &'static [(&'static str, Kind)]);

const RANKED: Kind = Text(&["values", "indices"]);
const REDUCED: &[(&str, Kind)] = &[("axes", Axes), ("keep", Flag)];
const SCHEMAS: &[Schema] = &[
    ("full", 0, &[("shape", Shape), ("value", Number)]),
    ("arange", 0, &[("start", Number), ("end", Number), ("step", Number)]),
    ("exp", 1, &[]),
    ("sign", 1, &[]),
    ("gelu", 1, &[("tanh", Flag)]),
    ("clamp", 1, &[("min", Number), ("max", Number)]),
    ("cast", 1, &[("dtype", Text(&["bool", "int8", "uint64", "bfloat16", "complex64"]))]),
    ("add", 2, &[]),
    ("div", 2, &[]),
    ("floor_div", 2, &[]),
    ("pow", 2, &[]),
    ("where", 3, &[]),
    ("sum", 1, REDUCED),
    ("max", 1, REDUCED),
    ("argmin", 1, REDUCED),
    ("var", 1, &[("axes", Axes), ("keep", Flag), ("ddof", Number)]),
    ("norm", 1, &[("axes", Axes), ("keep", Flag), ("p", Number)]),
    ("cumsum", 1, &[("axis", Axis)]),
    ("topk", 1, &[("k", Count), ("axis", Axis), ("largest", Flag), ("output", RANKED)]),
    ("sort", 1, &[("axis", Axis), ("descending", Flag), ("output", RANKED)]),
    ("softmax", 1, &[("axis", Axis)]),
    ("layer_norm", 3, &[("rank", Count), ("eps", Number)]),
    ("rms_norm", 1, &[("rank", Count), ("eps", Number)]),
    ("group_norm", 2, &[("groups", Count), ("eps", Number)]),
    ("batch_norm", 3, &[("eps", Number)]),
    ("l2_normalize", 1, &[("axis", Axis), ("eps", Number)]),
    ("linear", 2, &[]),
    ("matmul", 2, &[]),
    (
        "einsum",
        2,
        &[("equation", Text(&["ij,jk->ik", "...i,i->...", "ii,jk", "a,b->ba", ",", "ij->,", "xyz,zyx->y"]))],
    ),
    ("einsum", 1, &[("equation", Text(&["ii->i", "ij->ji", "iij", "...->", "->", "ab->aab"]))]),
    ("conv", 2, &[("stride", Counts), ("padding", Pairs), ("dilation", Counts), ("groups", Count)]),
    (
        "conv_transpose",
        3,
        &[
            ("stride", Counts),
            ("padding", Counts),
            ("output_padding", Counts),
            ("dilation", Counts),
            ("groups", Count),
        ],
    ),
    ("attention", 3, &[("scale", Number), ("causal", Flag), ("groups", Count), ("mask", Text(&["null"]))]),
    (
        "attention",
        4,
        &[("scale", Number), ("causal", Flag), ("groups", Count), ("mask", Text(&["bool", "add"]))],
    ),
    ("avg_pool", 1, &[("kernel", Counts), ("stride", Counts), ("padding", Pairs)]),
    ("max_pool", 1, &[("kernel", Counts), ("stride", Counts), ("padding", Pairs)]),
    ("embedding", 2, &[]),
    ("take", 2, &[("axis", Axis)]),
    ("gather", 2, &[("axis", Axis)]),
    ("one_hot", 1, &[("classes", Count)]),
    ("reshape", 1, &[("shape", Shape)]),
    ("permute", 1, &[("axes", Axes)]),
    ("expand", 1, &[("shape", Shape)]),
    ("slice", 1, &[("axis", Axis), ("start", Count), ("end", Count), ("step", Count)]),
    ("cat", 3, &[("axis", Axis)]),
    ("stack", 2, &[("axis", Axis)]),
    (
        "pad",
        1,
        &[
            ("pads", Pairs),
            ("mode", Text(&["constant", "reflect", "replicate", "circular"])),
            ("value", Number),
        ],
    ),
    ("roll", 1, &[("shifts", Wholes), ("axes", Axes)]),
    ("flip", 1, &[("axes", Axes)]),
    ("tile", 1, &[("times", Counts)]),
    ("repeat_interleave", 1, &[("repeats", Count), ("axis", Axis)]),
    ("tril", 1, &[("diagonal", Whole)]),
    ("triu", 1, &[("diagonal", Whole)]),
    ("put_slices", 2, &[("slices", Slices)]),
    (
        "upsample",
        1,
        &[
            ("mode", Text(&["nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear"])),
            ("size", Shape),
            ("align", Flag),
        ],
    ),
    ("pixel_shuffle", 1, &[("factor", Count)]),
    ("pixel_unshuffle", 1, &[("factor", Count)]),
    ("complex", 2, &[]),
    ("polar", 2, &[]),
    ("view_as_complex", 1, &[]),
    ("view_as_real", 1, &[]),
    ("imag", 1, &[]),
    ("conj", 1, &[]),
    ("dequantize", 3, &[("bits", Count), ("group_size", Count)]),
];

/// Small numbers, and a few that are as large as the format allows.
fn count() -> impl Strategy<Value = u64> {
    prop_oneof![12 => 0u64..5, 1 => select(vec![6, 16, 4096, 1 << 32, 1 << 40, i64::MAX as u64])]
}

fn value(kind: Kind) -> BoxedStrategy<Value> {
    let list = |item: BoxedStrategy<Value>| prop::collection::vec(item, 0..4).prop_map(Value::from).boxed();
    let counted = count().prop_map(Value::from).boxed();
    match kind {
        Axis => (0u64..4).prop_map(Value::from).boxed(),
        Axes => prop::collection::btree_set(0u64..4, 0..4).prop_map(|axes| json!(axes)).boxed(),
        Count => counted,
        Counts | Shape => list(counted),
        Pairs => list((count(), count()).prop_map(|(before, after)| json!([before, after])).boxed()),
        Slices => {
            let four = (0u64..4, count(), count(), count());
            list(four.prop_map(|(axis, start, end, step)| json!([axis, start, end, step])).boxed())
        }
        Number => prop_oneof![
            4 => (-4.0..4.0f64).prop_map(Value::from),
            2 => (-3i64..4).prop_map(Value::from),
            1 => select(vec![json!("inf"), json!("-inf"), json!("nan"), json!(1e300), json!(1e-300)]),
        ]
        .boxed(),
        Whole => whole(),
        Wholes => list(whole()),
        Flag => any::<bool>().prop_map(Value::from).boxed(),
        Text(words) => {
            select(words).prop_map(|word| if word == "null" { Value::Null } else { word.into() }).boxed()
        }
    }
}

fn whole() -> BoxedStrategy<Value> {
    prop_oneof![6 => -3i64..4, 1 => select(vec![i64::MIN, i64::MAX])].prop_map(Value::from).boxed()
}

/// A node whose operands are positions that are later reduced to earlier nodes.
fn node() -> impl Strategy<Value = (Schema, Vec<(usize, u8)>, Vec<Value>)> {
    select(SCHEMAS).prop_flat_map(|schema| {
        let operands = prop::collection::vec((any::<usize>(), any::<u8>()), schema.1);
        let attributes: Vec<_> = schema.2.iter().map(|(_, kind)| value(*kind)).collect();
        (Just(schema), operands, attributes)
    })
}

/// No tensors: recipes here have no leaves from a set.
struct Nothing;

impl Leaves for Nothing {
    fn leaf(&self, _: &Leaf, _: &Work) -> Result<Array, ReplayError> {
        Err(ReplayError::Work)
    }

    fn cut(&self, _: usize, _: &Work) -> Result<Array, ReplayError> {
        Err(ReplayError::Work)
    }
}

/// Values of a few shapes that operations begin with.
const STARTS: [&[usize]; 8] =
    [&[], &[2], &[0], &[3, 2], &[2, 4, 2], &[1, 2, 4, 4], &[1, 1, 2, 2, 2], &[4, 1]];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    #[ignore = "slow: `.ci/run` runs it"]
    fn any_recipe_ends_within_its_limits(drawn in prop::collection::vec(node(), 1..8)) {
        let mut nodes: Vec<Value> = STARTS
            .iter()
            .enumerate()
            .map(|(index, shape)| json!(["full", [], {"shape": shape, "value": index as f64 - 1.0}]))
            .collect();
        for ((name, _, keys), operands, values) in drawn {
            let attributes: serde_json::Map<String, Value> =
                keys.iter().map(|(key, _)| (*key).to_owned()).zip(values).collect();
            let operands: Vec<Value> = operands
                .iter()
                .map(|&(node, kind)| match kind {
                    // Recent nodes are taken more often, so that operations build on each other.
                    0..=9 => json!([f64::from(kind) - 4.0]),
                    10..=14 => Value::Null,
                    15..=130 => json!(nodes.len() - 1 - node % nodes.len().min(3)),
                    _ => json!(node % nodes.len()),
                })
                .collect();
            nodes.push(json!([name, operands, attributes]));
            // What the reader refuses is left out, so that the rest can be evaluated.
            if parse(&nodes).is_none() {
                nodes.pop();
            }
        }
        let recipe = parse(&nodes).unwrap();
        for target in STARTS.len()..recipe.nodes.len() {
            let work = Work::new(1 << 22, 1 << 20);
            if let Ok(replay) = Replay::new(&recipe, target, BTreeSet::new(), &Nothing, &work)
                && let Ok(value) = replay.target()
            {
                let numbers = value.len() * if value.is_complex() { 2 } else { 1 };
                prop_assert_eq!(value.values().len(), numbers);
                prop_assert_eq!(value.shape().iter().product::<usize>(), value.len());
                prop_assert!(value.bytes() <= 1 << 20);
            }
            prop_assert_eq!(work.bytes_left(), 1 << 20, "all memory comes back");
        }
    }
}

fn parse(nodes: &[Value]) -> Option<Recipe> {
    let recipe = json!({"format": 1, "sources": [], "nodes": nodes, "goldens": {}, "missing": {}});
    Recipe::parse(recipe.to_string().as_bytes()).ok()
}
