//! The grammar of spec files. `schema.json` is generated from these types.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::decode::{At, Decode, Reader, entries, mapping};
use super::external::FileHashes;
use super::keywords::{Compare, Device, NanRule, Stage, TwinGate};
use super::requirement::Requirement;
use super::values::{Bytes, DimFile, Loop, Params, PartFile, Range, Rename, Timeout};
use super::yaml::Node;
use crate::tensor::Dtype;

mapping! {
    /// A spec: the port to run, its inputs, and the checkpoints to compare.
    struct SpecFile ("a spec", required: [version, port, checkpoints]) {
        /// Version of the grammar: 1.
        #[schemars(extend("const" = 1))]
        version: u32,
        /// Name of the closure, registered in the test binary, that runs the port.
        #[schemars(length(min = 1, max = 200))]
        port: String,
        /// What is under test, in a sentence.
        about: String,
        /// The reference that made the goldens; required if a checkpoint needs one.
        reference: ReferenceFile,
        /// Folder under the fixture root; the spec's own path by default.
        fixtures: String,
        /// Tensors of the fixture set that the port asks for.
        inputs: Vec<At<String>>,
        /// Weight files that the port asks for.
        weights: WeightsFile,
        /// Weight files of adapters, such as LoRA, that the port applies to its weights.
        #[schemars(length(min = 1))]
        adapters: Vec<At<String>>,
        /// Where the port runs; `default` by default.
        device: Device,
        /// How long a run of the port may take, e.g. `90s`, `5m`, `2h`; 10 minutes by default, 24 hours at most.
        timeout: Timeout,
        /// Limits on the port's memory, each with a trial of its own.
        memory: MemoryFile,
        /// Conditions for the spec to run; if one is not met, its trials are ignored with the reason.
        requires: Vec<At<Requirement>>,
        /// Checkpoints that are injected in every run; the name of a loop stands for all of its checkpoints.
        inject: Vec<At<String>>,
        /// Checkpoints up to this level are on by default; 0 by default.
        #[schemars(range(max = 9))]
        level: u32,
        /// The checkpoints, in execution order.
        #[schemars(length(min = 1))]
        checkpoints: Vec<At<CheckpointFile>>,
        /// Variants of the run, each compared with the run itself or with another variant.
        twins: Twins,
    }
}

mapping! {
    /// A variant of the run: what it is compared with, and how near both must be.
    struct TwinFile ("a twin", required: [of]) {
        /// The run that it is compared with: `main`, or a twin that is declared before.
        of: String,
        /// What the variant does differently, in a sentence.
        about: String,
        /// Where the variant runs; as the spec by default.
        device: Device,
        /// Inputs that the variant asks for; those of the spec by default.
        inputs: Vec<At<String>>,
        /// Only these checkpoints are compared: names or `*` patterns. All of the spec by default.
        only: Vec<At<String>>,
        /// These checkpoints are not compared: names or `*` patterns.
        except: Vec<At<String>>,
        /// Checkpoints inside compiled code, where no tensor can be evaluated: names or `*` patterns.
        unseen: Vec<At<String>>,
        /// `same`: the gate that each checkpoint has itself.
        gate: TwinGate,
        /// Relative tolerance, times the other run's value; goes with `atol`.
        #[schemars(range(min = 0))]
        rtol: f64,
        /// Absolute tolerance; goes with `rtol`.
        #[schemars(range(min = 0))]
        atol: f64,
        /// Name of a tolerance in `policies.yaml`.
        policy: String,
        /// Multiples of the noise floor of the checkpoint's golden; past 8, `why` is needed.
        #[schemars(range(min = 0))]
        noise: f64,
        /// The least difference between both runs, as relative rms; 0.01 is 1 %.
        #[schemars(extend("exclusiveMinimum" = 0))]
        at_least: f64,
        /// Why the gate is loose.
        #[schemars(length(min = 1))]
        why: String,
        /// The part of the variant's tensors that is compared, e.g. `[1:2, 3:]`.
        slice: PartFile,
        /// The part of the other run's tensors that is compared.
        of_slice: PartFile,
        /// The axis along which the variant's hits follow one another in the other run's tensors.
        #[schemars(range(max = 15))]
        along: u32,
        /// How often the variant reaches each tap, exactly; as often as the other run by default.
        #[schemars(range(min = 1, max = 1_000_000))]
        hits: u32,
        /// An input that is 0 for the rows of the variant's tensors that are not compared.
        mask: String,
        /// Checkpoints that correspond in another way, or have another gate. The first entry that names a checkpoint counts.
        parts: Vec<At<TwinPartFile>>,
    }
}

mapping! {
    /// Checkpoints of a twin that correspond in another way, or have another gate.
    struct TwinPartFile ("a part of a twin", required: [checkpoints]) {
        /// Names or `*` patterns.
        #[schemars(length(min = 1))]
        checkpoints: Vec<At<String>>,
        /// `same`: the gate that each checkpoint has itself.
        gate: TwinGate,
        /// Relative tolerance, times the other run's value; goes with `atol`.
        #[schemars(range(min = 0))]
        rtol: f64,
        /// Absolute tolerance; goes with `rtol`.
        #[schemars(range(min = 0))]
        atol: f64,
        /// Name of a tolerance in `policies.yaml`.
        policy: String,
        /// Multiples of the noise floor of the checkpoint's golden; past 8, `why` is needed.
        #[schemars(range(min = 0))]
        noise: f64,
        /// The least difference between both runs, as relative rms; 0.01 is 1 %.
        #[schemars(extend("exclusiveMinimum" = 0))]
        at_least: f64,
        /// Why the gate is loose.
        #[schemars(length(min = 1))]
        why: String,
        /// The part of the variant's tensors that is compared, e.g. `[1:2, 3:]`.
        slice: PartFile,
        /// The part of the other run's tensors that is compared.
        of_slice: PartFile,
        /// The axis along which the variant's hits follow one another in the other run's tensors.
        #[schemars(range(max = 15))]
        along: u32,
        /// How often the variant reaches each tap, exactly; as often as the other run by default.
        #[schemars(range(min = 1, max = 1_000_000))]
        hits: u32,
        /// An input that is 0 for the rows of the variant's tensors that are not compared.
        mask: String,
    }
}

mapping! {
    /// Limits on the memory that MLX has in use while the port runs.
    struct MemoryFile ("`memory`", required: [peak]) {
        /// The most memory at any time, e.g. `512MiB` or `2GB`.
        peak: Bytes,
    }
}

mapping! {
    /// The code that was ported and the script that exports its goldens.
    struct ReferenceFile ("`reference`", required: [script]) {
        /// Path of the script, relative to the project's root.
        script: String,
        /// The code that was ported, e.g. `module:Name`.
        source: String,
        /// Parameters of the script; a change makes goldens stale.
        params: Params,
        /// Names of environment variables that the script needs besides the usual ones, e.g. `HF_TOKEN`.
        env: Vec<At<String>>,
        /// How long the script may run, e.g. `30m`, which is the default.
        timeout: Timeout,
        /// Path of a second, independent script, whose goldens must agree with those of the first.
        also: String,
    }
}

mapping! {
    /// The weight files and the requirements on them. One of `file`, `shards` and `external` is required.
    #[schemars(extend(
        "oneOf" = [{"required": ["file"]}, {"required": ["shards"]}, {"required": ["external"]}],
        "dependentRequired" = {"sha256": ["external"]},
    ))]
    struct WeightsFile ("`weights`", required: []) {
        /// The file in the fixture folder.
        file: String,
        /// The files in the fixture folder, if the weights are in several.
        #[schemars(length(min = 1))]
        shards: Vec<At<String>>,
        /// Files outside the project that are never copied: an absolute path with variables and wildcards, e.g.
        /// `${HF_HOME}/hub/models--org--name/snapshots/*/*.safetensors`, or that of one `*.index.json`.
        #[schemars(extend("pattern" = "^[/$].*\\.(safetensors|index\\.json)$"))]
        external: String,
        /// The SHA-256 of the external file, or one per name of a file; by default those that the manifest records.
        sha256: FileHashes,
        /// Parts of the reference's tensor names and what they are called in the port.
        rename: Rename,
        /// Names or `*` patterns of parameters that the files need not have.
        allow_missing: Vec<At<String>>,
        /// Names that must exist after renaming.
        expect: Vec<At<String>>,
        /// Names or `*` patterns of parameters that a training step must not change, as the port names them.
        frozen: Vec<At<String>>,
        /// Dtype that every floating-point weight of the files must have.
        #[schemars(extend("enum" = ["float16", "bfloat16", "float32", "float64"]))]
        dtype: Dtype,
        /// How every quantised weight is packed; without this key, any packing that MLX has is accepted.
        quantized: QuantizedFile,
    }
}

mapping! {
    /// How weights are packed.
    struct QuantizedFile ("`quantized`", required: [bits, group_size]) {
        /// Bits of one element: 2, 3, 4, 5, 6 or 8.
        #[schemars(extend("enum" = [2, 3, 4, 5, 6, 8]))]
        bits: u32,
        /// Elements that share a scale and a bias: 32, 64 or 128.
        #[schemars(extend("enum" = [32, 64, 128]))]
        group_size: u32,
    }
}

mapping! {
    /// One place in the port whose tensor is compared.
    #[schemars(extend(
        "dependentRequired" = {
            "rtol": ["atol", "dtype"], "atol": ["rtol"], "policy": ["dtype"], "noise": ["dtype"],
            "when": ["for"], "gate": ["why"], "at_least": ["against"],
            "compare": ["dtype"], "kl": ["compare"], "top1": ["compare"], "topk": ["compare"], "top": ["compare"],
            "ties": ["compare"], "with": ["compare"], "scores": ["ties"],
        },
        "anyOf" = [
            {"required": ["rtol"]}, {"required": ["policy"]}, {"required": ["noise"]},
            {"required": ["compare"]}, {"required": ["shape"]}, {"required": ["range"]},
        ],
        "not" = {"anyOf": [
            {"required": ["rtol", "policy"]}, {"required": ["rtol", "noise"]}, {"required": ["policy", "noise"]},
            {"required": ["compare", "rtol"]}, {"required": ["compare", "policy"]}, {"required": ["compare", "noise"]},
            {"required": ["compare", "against"]},
        ]},
    ))]
    struct CheckpointFile ("a checkpoint", required: [name]) {
        /// The tap's name; `{axis}` stands for the value of a loop's axis.
        #[schemars(length(min = 1))]
        name: String,
        /// Axes and their values, nested in the order written: `{i: 0..4}`, which excludes 4, or `{i: [0, 3]}`.
        r#for: Loop,
        /// Condition over the axes, e.g. `t % 5 == 0`; combinations for which it does not hold are left out.
        #[schemars(length(max = 500))]
        when: String,
        /// How often the port reaches the tap in one run, exactly; 1 by default.
        #[schemars(range(min = 1, max = 1_000_000))]
        hits: u32,
        /// 0, the default, for coarse checkpoints; higher for inner ones.
        #[schemars(range(max = 9))]
        level: u32,
        /// The kind of computation that ends here.
        stage: Stage,
        /// Dtype that the port must produce; required with a value gate.
        dtype: Dtype,
        /// Shape that the port must produce; a name means the same length everywhere in the spec.
        #[schemars(length(max = 16))]
        shape: Vec<At<DimFile>>,
        /// Relative tolerance, times the golden's value; goes with `atol`.
        #[schemars(range(min = 0))]
        rtol: f64,
        /// Absolute tolerance; goes with `rtol`.
        #[schemars(range(min = 0))]
        atol: f64,
        /// Name of a tolerance in `policies.yaml`.
        policy: String,
        /// Multiples of the reference's own noise floor; past 8, `why` is needed.
        #[schemars(range(min = 0))]
        noise: f64,
        /// Judges the tensor as choices, in place of a tolerance.
        compare: Compare,
        /// With `compare: distribution`: limits on the Kullback-Leibler divergence of the rows, in nats.
        kl: DivergenceFile,
        /// With `compare: distribution`: the least share of rows whose most probable id is the golden's.
        #[schemars(range(min = 0, max = 1))]
        top1: f64,
        /// With `compare: distribution`: the least overlap of the most probable ids.
        topk: TopKFile,
        /// With `compare: distribution`: how many ids per row the golden has, as `rec.distribution(…, top=…)` made it.
        #[schemars(range(min = 2, max = 65536))]
        top: u32,
        /// With `compare: tokens` or `set`: how many floors two scores of the reference may be apart in a tie; past 8, `why`
        /// is needed.
        #[schemars(extend("exclusiveMinimum" = 0))]
        ties: f64,
        /// With `compare: tokens`: the checkpoint of the logits. With `compare: set`: the later checkpoint of the weights,
        /// which are compared by id.
        with: String,
        /// With `compare: set`: the checkpoint of the scores that the ids are chosen by.
        scores: String,
        /// The golden's axes and the port's, by any names: `n c h w -> n h w c`.
        layout: String,
        /// Axes of the golden, each of length 1, that are dropped before `layout`.
        squeeze: Vec<At<u32>>,
        /// Dtype that the golden is cast to; must be `dtype`.
        cast: Dtype,
        /// The axis with the slots of a cache, which are matched by the positions that they hold.
        positions: PositionsFile,
        /// Smallest and largest value that the port may produce.
        range: Range,
        /// `equal` lets a NaN agree with a NaN.
        nan: NanRule,
        /// An earlier checkpoint of this spec whose actual stands in for the golden.
        against: String,
        /// The least difference from the actual of `against`, as relative rms; 0.01 is 1 %.
        #[schemars(extend("exclusiveMinimum" = 0))]
        at_least: f64,
        /// `false`: measured and shown, not judged; needs `why`.
        #[schemars(extend("const" = false))]
        gate: bool,
        /// Why the gate is loose or off.
        #[schemars(length(min = 1))]
        why: String,
    }
}

mapping! {
    /// How the slots of a cache are matched: by the positions that they hold, in any order.
    struct PositionsFile ("`positions`", required: [axis]) {
        /// The checkpoint that holds the position of each slot: an earlier one, or by default this one itself.
        #[schemars(length(min = 1))]
        tap: String,
        /// The axis with the slots, after `squeeze` and `layout`.
        #[schemars(range(max = 15))]
        axis: u32,
    }
}

mapping! {
    /// Limits on the Kullback-Leibler divergence from golden to actual, in nats. At least one is required.
    #[schemars(extend("minProperties" = 1))]
    struct DivergenceFile ("`kl`", required: []) {
        /// The largest mean over all rows.
        #[schemars(range(min = 0))]
        mean: f64,
        /// The largest divergence of 99 % of the rows.
        #[schemars(range(min = 0))]
        p99: f64,
        /// The largest divergence of any row.
        #[schemars(range(min = 0))]
        max: f64,
    }
}

mapping! {
    /// The most probable ids that golden and actual must have in common.
    struct TopKFile ("`topk`", required: [k, overlap]) {
        /// How many ids per row are compared.
        #[schemars(range(min = 1, max = 1000))]
        k: u32,
        /// The least mean share of them in common, e.g. 0.9.
        #[schemars(range(min = 0, max = 1))]
        overlap: f64,
    }
}

/// The twins of a spec, by name, in their order in the file.
#[derive(Debug)]
pub(super) struct Twins(pub(super) Vec<(At<String>, At<TwinFile>)>);

impl Decode for Twins {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let mut twins = Vec::new();
        for (key, value) in entries(node, "`twins`", reader)? {
            let name = At { value: key.name.clone(), place: key.place.clone() };
            let file = TwinFile::decode(value, reader)?;
            twins.push((name, At { value: file, place: value.place.clone() }));
        }
        Some(Self(twins))
    }
}

impl JsonSchema for Twins {
    fn schema_name() -> Cow<'static, str> {
        "Twins".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Variants of the run by name.",
            "type": "object",
            "minProperties": 1,
            "propertyNames": { "pattern": TWIN_NAME },
            "additionalProperties": generator.subschema_for::<TwinFile>(),
        })
    }
}

/// What the name of a twin looks like.
pub(super) const TWIN_NAME: &str = "^[a-z0-9][a-z0-9_-]{0,63}$";
