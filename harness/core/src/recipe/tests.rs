//! Valid and invalid recipes.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::tensor::Dtype;

fn recipe() -> Value {
    json!({
        "format": 1,
        "sources": ["pkg/model.py"],
        "nodes": [
            ["input", [], {"name": "ids"}],
            ["weight", [], {"name": "table"}],
            ["embedding", [1, 0], {}, 0, 412],
            ["pow", [2, [2.0]], {}, 0, 64],
            ["add", [3, ["-inf"]], {}],
            ["layer_norm", [4, null, null], {"rank": 1, "eps": 1e-6}],
            ["fft", [5], {"n": {"deep": [1, 2]}}, 0, 70],
        ],
        "goldens": {"embed": 2, "embed@1": 3},
        "missing": {"margin": "it comes from NumPy"}
    })
}

fn parse(value: &Value) -> Result<Recipe, RecipeError> {
    Recipe::parse(value.to_string().as_bytes())
}

/// A recipe with two inputs and one more node.
fn with_node(op: &str, inputs: Value, attributes: Value) -> Result<Op, String> {
    let value = json!({
        "format": 1, "sources": [], "goldens": {}, "missing": {},
        "nodes": [["input", [], {"name": "a"}], ["input", [], {"name": "b"}], [op, inputs, attributes]]
    });
    let parsed = parse(&value).map_err(|error| error.to_string())?;
    Ok(parsed.nodes[2].op.clone())
}

#[test]
fn a_sound_recipe_is_read() {
    let recipe = parse(&recipe()).unwrap();
    assert_eq!(recipe.nodes[2].op, Op::Lookup(Lookup::Embedding));
    assert_eq!(recipe.nodes[2].inputs, [Operand::Node(1), Operand::Node(0)]);
    assert_eq!(recipe.nodes[3].inputs, [Operand::Node(2), Operand::Number(2.0)]);
    assert_eq!(recipe.nodes[4].inputs[1], Operand::Number(f64::NEG_INFINITY));
    assert_eq!(recipe.nodes[5].inputs[1], Operand::Absent);
    assert_eq!(recipe.place(3).as_deref(), Some("pkg/model.py:64"));
    assert_eq!(recipe.place(4), None);
    assert_eq!(recipe.goldens_of(3).collect::<Vec<_>>(), ["embed@1"]);
    assert_eq!(recipe.missing["margin"], "it comes from NumPy");
    let Op::Unknown { why } = &recipe.nodes[6].op else { panic!("it is not known") };
    assert_eq!(why, "uses `fft`, which this mlx-parity does not know");
}

#[test]
fn every_fault_has_its_own_words() {
    type Damage = (&'static str, Value, &'static str);
    let faults: &[Damage] = &[
        ("/format", json!(2), "its format is 2, this mlx-parity reads up to 1"),
        ("/format", json!(0), "its format is 0, expected 1"),
        ("/extra", json!(0), "unknown field `extra`"),
        ("/nodes/0", json!(["input", []]), "invalid length 2, expected a node `[op, inputs, attributes]`"),
        ("/nodes/0", json!(["input", [], {"name": "a"}, 0]), "invalid length 4, expected a node"),
        ("/nodes/0", json!(["input", [], {"name": "a"}, 0, 0]), "a line is 0, expected a number from 1"),
        ("/nodes/0", json!(["input", [], {"name": "a"}, 0, 1, 2]), "invalid length 6, expected a node"),
        ("/nodes/0", json!(["input", [], {}]), "node 0 (`input`): its attribute `name` is missing"),
        ("/nodes/0", json!(["input", [], {"name": 7}]), "node 0 (`input`): its `name` is 7, expected a text"),
        (
            "/nodes/0",
            json!(["input", [], {"name": "a", "b": 1}]),
            "node 0 (`input`): its attribute `b` is unknown",
        ),
        ("/nodes/2/1/0", json!(2), "node 2 (`embedding`): its operand 2 is not an earlier node"),
        (
            "/nodes/2/1/0",
            json!(-1),
            "an operand is -1, expected a node's number, [x] for a number x, or null",
        ),
        ("/nodes/2/1/0", json!([1, 2]), "an operand is [1, 2], expected a node's number"),
        ("/nodes/2/1/0", json!("a"), "an operand is \"a\", expected a node's number"),
        ("/nodes/2/1/0", json!(null), "node 2 (`embedding`): operand 0 of `embedding` is missing"),
        (
            "/nodes/2/1",
            json!([1, 0, 0]),
            "node 2 (`embedding`): `embedding` has 3 operands, at most 2 are allowed",
        ),
        ("/nodes/2/3", json!(1), "node 2 comes from source 1, but only 1 are listed"),
        ("/nodes/5/2/rank", json!(1.5), "its `rank` is 1.5, expected a whole number from 0"),
        ("/nodes/5/2/rank", json!(-1), "its `rank` is -1, expected a whole number from 0"),
        ("/nodes/5/2/eps", json!("big"), "its `eps` is \"big\", expected a number"),
        ("/goldens/embed", json!(7), "golden `embed` is node 7, but only 7 exist"),
        (
            "/missing/embed",
            json!("why"),
            "golden `embed` is in `goldens` and in `missing`, expected one of them",
        ),
        ("/sources/0", json!("x".repeat(5000)), "a text has 5000 bytes, at most 4096 are allowed"),
    ];
    for (at, value, words) in faults {
        let mut broken = recipe();
        let (parent, key) = at.rsplit_once('/').unwrap();
        let parent = broken.pointer_mut(parent).unwrap();
        match key.parse::<usize>() {
            Ok(index) if parent.is_array() => parent[index] = value.clone(),
            _ => parent[key] = value.clone(),
        }
        let error = parse(&broken).unwrap_err().to_string();
        assert!(error.contains(words), "{at}: {error}");
    }
}

#[test]
fn attributes_are_checked() {
    let one = json!([0]);
    let error = |op: &str, attributes: Value| with_node(op, one.clone(), attributes).unwrap_err();
    for (op, attributes, words) in [
        (
            "reshape",
            json!({"shape": [1u64 << 40, 1u64 << 40]}),
            "expected at most 64 lengths of at most 2^40 elements",
        ),
        ("reshape", json!({"shape": vec![1; 65]}), "expected at most 64 lengths"),
        ("reshape", json!({"shape": vec![1; 5000]}), "its `shape` is a list of 5000, expected"),
        ("reshape", json!({"shape": [2, -1]}), "its `shape` is [2, -1], expected"),
        ("permute", json!({"axes": [0, 0]}), "expected axes from 0 to 63, each at most once"),
        ("softmax", json!({"axis": 64}), "its `axis` is 64, expected an axis from 0 to 63"),
        ("cast", json!({"dtype": "float8"}), "its `dtype` is \"float8\", expected one of bool, uint8"),
        (
            "pad",
            json!({"pads": [[1, 2, 3]], "mode": "constant", "value": 0}),
            "expected a list of at most 64 pairs",
        ),
        (
            "pad",
            json!({"pads": [], "mode": "mirror", "value": 0}),
            "expected one of constant, reflect, replicate, circular",
        ),
        ("roll", json!({"shifts": [1], "axes": [0, 1]}), "it has 1 shifts for 2 axes"),
        (
            "slice",
            json!({"axis": 0, "start": 3, "end": 2, "step": 1}),
            "start 3, end 2 and step 1, expected start <= end",
        ),
        (
            "slice",
            json!({"axis": 0, "start": 0, "end": 2, "step": 0}),
            "its `step` is 0, expected a whole number from 1",
        ),
        ("sum", json!({"axes": [0], "keep": 1}), "its `keep` is 1, expected true or false"),
        ("tril", json!({"diagonal": 0.5}), "its `diagonal` is 0.5, expected a whole number"),
    ] {
        let found = error(op, attributes);
        assert!(found.contains(words), "{op}: {found}");
    }
    let twice = r#"{"format":1,"sources":[],"nodes":[["input",[],{"name":"a","name":"b"}]],"goldens":{},"missing":{}}"#;
    assert!(
        Recipe::parse(twice.as_bytes())
            .unwrap_err()
            .to_string()
            .contains("attribute \"name\" is given twice")
    );
    let twice = r#"{"format":1,"sources":[],"nodes":[["input",[],{"name":"a"}]],"goldens":{"g":0,"g":0},"missing":{}}"#;
    assert!(Recipe::parse(twice.as_bytes()).unwrap_err().to_string().contains("golden \"g\" is given twice"));
    let error =
        with_node("put_slices", json!([0, 1]), json!({"slices": [[0, 0, 1, 1], [0, 1, 2, 1]]})).unwrap_err();
    assert!(error.contains("it has two slices of one axis"), "{error}");
    let attention = |mask: Value| json!({"scale": 1, "causal": false, "groups": 1, "mask": mask});
    let error = with_node("attention", json!([0, 0, 0, 1]), attention(json!(null))).unwrap_err();
    assert!(error.contains("`attention` has a mask, but its attribute `mask` is null"), "{error}");
    let error = with_node("attention", json!([0, 0, 0, null]), attention(json!("add"))).unwrap_err();
    assert!(error.contains("operand 3 of `attention` is missing"), "{error}");
}

/// Every operation of the format with its attributes, and the number of its operands.
fn every_op() -> Vec<(&'static str, usize, Value)> {
    let plain = |functions: &[&'static str], operands: usize| {
        functions.iter().map(|name| (*name, operands, json!({}))).collect::<Vec<_>>()
    };
    let reduced = json!({"axes": [0], "keep": true});
    let mut ops = plain(&Unary::PLAIN.map(Unary::name), 1);
    ops.extend(plain(&Binary::ALL.map(Binary::name), 2));
    ops.extend(Reduction::PLAIN.map(|function| (function.name(), 1, reduced.clone())));
    ops.extend(plain(&["view_as_complex", "view_as_real", "real", "imag", "conj"], 1));
    ops.extend(plain(&["linear", "matmul", "embedding", "complex", "polar"], 2));
    ops.extend([
        ("input", 0, json!({"name": "a"})),
        ("weight", 0, json!({"name": "a"})),
        ("constant", 0, json!({"name": "a"})),
        ("full", 0, json!({"shape": [2], "value": "nan"})),
        ("arange", 0, json!({"start": 0, "end": 3, "step": 1})),
        ("unknown", 1, json!({"why": "because"})),
        ("gelu", 1, json!({"tanh": true})),
        ("leaky_relu", 1, json!({"slope": 0.1})),
        ("elu", 1, json!({"alpha": 1})),
        ("clamp", 1, json!({"min": null, "max": "inf"})),
        ("cast", 1, json!({"dtype": "bfloat16"})),
        ("where", 3, json!({})),
        ("var", 1, json!({"axes": [0], "keep": false, "ddof": 1})),
        ("std", 1, json!({"axes": [0], "keep": false, "ddof": 0})),
        ("norm", 1, json!({"axes": [0], "keep": false, "p": 2})),
        ("cumsum", 1, json!({"axis": 0})),
        ("topk", 1, json!({"k": 1, "axis": 0, "largest": true, "output": "indices"})),
        ("sort", 1, json!({"axis": 0, "descending": true, "output": "values"})),
        ("softmax", 1, json!({"axis": 0})),
        ("log_softmax", 1, json!({"axis": 0})),
        ("layer_norm", 1, json!({"rank": 1, "eps": 0.1})),
        ("rms_norm", 2, json!({"rank": 1, "eps": 0.1})),
        ("group_norm", 3, json!({"groups": 2, "eps": 0.1})),
        ("batch_norm", 5, json!({"eps": 0.1})),
        ("l2_normalize", 1, json!({"axis": 0, "eps": 0})),
        ("einsum", 2, json!({"equation": "i,i->"})),
        ("conv", 2, json!({"stride": [1], "padding": [[0, 1]], "dilation": [1], "groups": 1})),
        (
            "conv_transpose",
            3,
            json!({"stride": [1], "padding": [0], "output_padding": [0], "dilation": [1], "groups": 1}),
        ),
        ("attention", 3, json!({"scale": 1, "causal": true, "groups": 1, "mask": null})),
        ("attention", 4, json!({"scale": 1, "causal": true, "groups": 1, "mask": "bool"})),
        ("avg_pool", 1, json!({"kernel": [2], "stride": [2], "padding": [0]})),
        ("max_pool", 1, json!({"kernel": [2], "stride": [2], "padding": [[0, 0]]})),
        ("take", 2, json!({"axis": 0})),
        ("gather", 2, json!({"axis": 0})),
        ("one_hot", 1, json!({"classes": 3})),
        ("reshape", 1, json!({"shape": [2, 1]})),
        ("permute", 1, json!({"axes": [0]})),
        ("expand", 1, json!({"shape": [2, 1]})),
        ("slice", 1, json!({"axis": 0, "start": 0, "end": 1, "step": 1})),
        ("cat", 2, json!({"axis": 0})),
        ("stack", 2, json!({"axis": 0})),
        ("pad", 1, json!({"pads": [[0, 1]], "mode": "reflect", "value": 0})),
        ("roll", 1, json!({"shifts": [-1], "axes": [0]})),
        ("flip", 1, json!({"axes": [0]})),
        ("tile", 1, json!({"times": [2]})),
        ("repeat_interleave", 1, json!({"repeats": 2, "axis": 0})),
        ("tril", 1, json!({"diagonal": -1})),
        ("triu", 1, json!({"diagonal": 1})),
        ("put_slices", 2, json!({"slices": [[0, 0, 1, 1]]})),
        ("upsample", 1, json!({"mode": "nearest-exact", "size": [4], "align": false})),
        (
            "upsample",
            1,
            json!({"mode": "bicubic", "size": [4, 4], "align": false, "antialias": true, "cubic": -0.6}),
        ),
        ("pixel_shuffle", 1, json!({"factor": 2})),
        ("pixel_unshuffle", 1, json!({"factor": 2})),
        ("dequantize", 3, json!({"bits": 4, "group_size": 64})),
    ]);
    ops
}

#[test]
fn every_operation_is_read_under_its_name() {
    for (name, operands, attributes) in every_op() {
        let op = with_node(name, json!(vec![0; operands]), attributes).unwrap();
        assert_eq!(op.name(), name);
        assert!(!matches!(&op, Op::Unknown { why } if why.contains("does not know")), "{name}");
    }
    let put = with_node("put", json!([0, 1]), json!({"axis": 1, "start": 0, "end": 4, "step": 2})).unwrap();
    assert_eq!(put, Op::Form(Form::PutSlices { slices: vec![Slice { axis: 1, start: 0, end: 4, step: 2 }] }));
    let cast = with_node("cast", json!([0]), json!({"dtype": "float16"})).unwrap();
    assert_eq!(cast, Op::Cast { dtype: Dtype::Float16 });
}

#[test]
fn broken_text_is_an_error() {
    assert!(Recipe::parse(b"").is_err());
    assert!(Recipe::parse(&b"[".repeat(100_000)).is_err());
    assert!(matches!(Recipe::parse(br#"{"format": 7, "new": 1}"#), Err(RecipeError::Future { found: 7 })));
    assert!(matches!(Recipe::parse(&vec![b' '; (MAX_BYTES + 1) as usize]), Err(RecipeError::TooLong { .. })));
    let many = format!(
        r#"{{"format":1,"sources":[],"nodes":[["cat",[{}],{{"axis":0}}]],"goldens":{{}},"missing":{{}}}}"#,
        vec!["[0]"; 5000].join(",")
    );
    assert!(Recipe::parse(many.as_bytes()).unwrap_err().to_string().contains("more than 4096 operands"));
}

proptest! {
    /// However the bytes are changed, reading returns a recipe or an error.
    #[test]
    fn damaged_bytes_never_panic(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = recipe().to_string().into_bytes();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = Recipe::parse(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        let _ = Recipe::parse(&bytes);
    }
}
