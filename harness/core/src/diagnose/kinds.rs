//! The kinds of causes and facts: for each its word, its meaning and what to look at next.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! kinds {
    (
        $(#[doc = $about_all:literal])+
        $enum:ident:
        $($(#[doc = $doc:literal])+ $variant:ident $name:literal $about:literal $next:literal;)+
    ) => {
        $(#[doc = $about_all])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $enum {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl $enum {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The word for it in records and messages.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Its meaning, in one line.
            pub const fn about(self) -> &'static str {
                match self {
                    $(Self::$variant => $about,)+
                }
            }

            /// What to look at next.
            pub const fn next(self) -> &'static str {
                match self {
                    $(Self::$variant => $next,)+
                }
            }
        }

        impl fmt::Display for $enum {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

kinds! {
    /// The kinds of causes. Each predicts the actual, so that the part of the error it leaves is known.
    CauseKind:
    /// The golden with its axes in another order.
    AxesPermuted "axes_permuted"
        "the golden with its axes in another order, such as NCHW in place of NHWC; the shapes may still be equal"
        "a missing, doubled or wrong transpose; the spec's `layout`";
    /// The golden with axes of length one added or dropped.
    UnitAxis "unit_axis"
        "the golden with axes of length one added or dropped"
        "an `expand_dims` or a `squeeze`; declare `squeeze` in the spec if the port is right";
    /// The golden's values in another memory order.
    MemoryOrder "memory_order"
        "the golden's values in another memory order under the same shape: a reshape in place of a transpose (heads), or \
         strided memory read as if it were contiguous"
        "reshapes of heads, patches and groups; whether a transposed array is copied before its memory is read";
    /// One axis split into groups in another order.
    Regrouped "regrouped"
        "one axis split into groups in another order: (3, heads, d) in place of (heads, 3, d), interleaved pairs in place \
         of halves"
        "how the fused axis is split; whether the rows of the weight have to be permuted when it is loaded";
    /// A slice of a larger tensor, read as if the slice were contiguous.
    StridedRead "strided_read"
        "neighbouring elements of a larger tensor's memory, where a slice of that tensor was meant"
        "slices whose memory is read without a copy; call `contiguous` first";
    /// The golden in reverse order along some axes.
    Flipped "flipped"
        "the golden in reverse order along an axis"
        "the order of timesteps, of channels (RGB or BGR), of padding sides, of kernels";
    /// Equal parts of an axis in another order.
    ChunksSwapped "chunks_swapped"
        "equal parts of an axis in another order: scale, shift and gate; q, k and v; the halves of a GLU"
        "the order in which the fused projection is split, and the order of the weights that it is loaded from";
    /// The golden moved along an axis.
    Shifted "shifted"
        "the golden moved along an axis: each timestep, sigma or token is too early or too late"
        "indices that start at zero or one; entries that are prepended or dropped; the order of step and increment";
    /// A vector applied along the wrong axis.
    BroadcastAxis "broadcast_axis"
        "a vector added or multiplied along a different axis than in the golden"
        "the axis that a bias, a position or a modulation is broadcast along; add axes of length one explicitly";
    /// Rotary pairs of the wrong kind.
    RopePairs "rope_pairs"
        "rotary embedding with the wrong pairs: halves rotated as interleaved pairs, or interleaved pairs as halves"
        "`traditional` of MLX's rope; how the reference pairs features";
    /// Rotary angles with the opposite sign.
    RopeSign "rope_sign"
        "rotary embedding by the opposite angles"
        "the sign of `rotate_half`, of the sines, of the frequencies";
    /// Rotary angles of another base.
    RopeBase "rope_base"
        "rotary embedding with another base"
        "`rope_theta` of the config, its scaling, and the dimension that the exponents are divided by";
    /// Rotary angles of shifted positions.
    RopePosition "rope_position"
        "rotary embedding with all positions off by a constant"
        "the offset of the cache; positions that start at one; padding that is counted as positions";
    /// The opposite sign.
    Sign "sign"
        "the golden with the opposite sign"
        "a subtraction with its operands exchanged; a velocity from noise to image in place of image to noise";
    /// One factor for the whole tensor.
    Factor "factor"
        "the golden times one factor; well-known factors are named"
        "a scale that is missing or applied twice: 1/sqrt(d), a VAE's scaling factor, 1/255, a guidance scale";
    /// One offset for the whole tensor.
    Offset "offset"
        "the golden plus one constant"
        "a shift that is missing or applied twice: a VAE's shift factor, a mean, the 1 of (1 + scale)";
    /// One factor and one offset for the whole tensor.
    Affine "affine"
        "the golden times one factor plus one constant"
        "the order of scaling and shifting; (x - mean) / std or x * std + mean; values in [0, 1] or in [-1, 1]";
    /// A factor per channel.
    ChannelFactor "channel_factor"
        "the golden times one factor per channel: a norm's weight that is missing, applied twice or stored as w - 1"
        "the weight of the norm or layer scale before this tap, and whether the file stores w or w - 1";
    /// An offset per channel.
    ChannelOffset "channel_offset"
        "the golden plus one offset per channel: a bias that is missing or added twice"
        "the bias of the layer before this tap, and whether the layer was made with a bias";
    /// A factor per token.
    TokenFactor "token_factor"
        "the golden times one factor per token: another normalisation, another eps, a temperature"
        "the divisor of each row: the kind and eps of a norm, the sum of a softmax, a length";
    /// An offset per token.
    TokenOffset "token_offset"
        "the golden plus one offset per token: a mean that is not subtracted, a bias along the wrong axis"
        "whether the norm before this tap subtracts the mean; what is added to each row";
    /// A sum with a term too few or too many.
    Term "term"
        "the golden without one term of its sum, or with the term twice: a residual, a position embedding"
        "the residual connection, or the embedding that is added here";
    /// Values cut off at a bound.
    Clamped "clamped"
        "the golden with its largest or smallest values cut off"
        "a clamp that the reference has elsewhere or not at all; saturation of a narrow dtype";
    /// Values rounded to a narrower format.
    Rounded "rounded"
        "the golden with lower precision: values were rounded to a narrower format somewhere before this tap"
        "dtypes before this tap: weights loaded in half precision, a norm or softmax that the reference does in float32";
    /// Another activation of the same input.
    Activation "activation"
        "another activation of the same input: gelu by erf or tanh, quick gelu, silu, relu, none"
        "`hidden_act` of the config; `nn::gelu`, `nn::gelu_approximate` or `nn::gelu_fast_approximate`";
    /// The activation of a gated unit on the wrong half.
    GateSwapped "gate_swapped"
        "a gated unit with its activation on the wrong half"
        "which projection gets the activation: gate or up, wi_0 or wi_1, which half of a fused projection";
    /// Another normalisation of the same input.
    NormKind "norm_kind"
        "another normalisation of the same input: layer norm in place of RMS norm, other groups"
        "the class of the norm in the reference; `pytorch_compatible` and the number of groups of `nn::GroupNorm`";
    /// The same normalisation with another eps.
    NormEps "norm_eps"
        "the same normalisation with another eps"
        "eps of the config; mlx-rs uses 1e-5 by default";
    /// Another modulation of the same input.
    Modulation "modulation"
        "another modulation of the same input: scale and shift exchanged, scale in place of 1 + scale"
        "the order of the modulation's parts: [shift, scale, gate] in FLUX and Qwen, [scale, shift] in \
         AdaLayerNormContinuous; the 1 of (1 + scale)";
    /// A softmax of scores with another scale.
    SoftmaxScale "softmax_scale"
        "a softmax of scores with another scale: 1/sqrt(d) missing, applied twice, or with another d"
        "the scale of the scores: from head_dim, not from the model's width; applied twice if q is already scaled";
    /// A softmax without its mask, or with another one.
    Mask "mask"
        "attention to keys that the golden masks, or a mask on keys that the golden attends to"
        "whether the mask reaches this layer, is causal, and is added before the softmax";
    /// Attention that is spread evenly.
    UniformAttention "uniform_attention"
        "attention spread evenly over all keys, where the golden's is not"
        "queries or keys that are zero or constant: weights that were not loaded, a scale that is far too small";
    /// The golden of the stage before.
    NotExecuted "not_executed"
        "the golden of the stage before: this stage did not run"
        "whether the stage's result is used, or its input is passed on; a tap that is one line too early";
    /// The stage ran once too often.
    ExecutedTwice "executed_twice"
        "the golden of the next stage, or the stage applied to its own output: it ran once too often"
        "a loop that runs the stage again; a tap that is one line too late; a variable that is reused in place";
    /// The reference's operation with another constant.
    Constant "constant"
        "the reference's computation with another number: an eps, a scale, a base, a slope, a count of groups"
        "the number in the port and in its config; defaults of mlx-rs that differ from the reference's";
    /// An operation of the reference that is left out.
    LeftOut "left_out"
        "the reference's computation without one operation or operand: a bias, a scale, a residual, a transpose"
        "the line of the reference that has it";
    /// An operation of the reference that is applied twice.
    Repeated "repeated"
        "the reference's computation with one operation applied twice"
        "whether the layer before or a fused function already does it";
    /// Two operations in the other order.
    Order "order"
        "the reference's computation with two neighbouring operations in the other order"
        "the order of both lines in the reference";
    /// Another function of the same kind.
    Function "function"
        "the reference's computation with another function of the same kind: an activation, a norm, an interpolation"
        "the function's name in the reference and its config; variants with the same name in mlx-rs";
    /// Another tensor in place of an operand.
    Operand "operand"
        "the reference's computation with another tensor: another layer's weight, another part, a value before or after"
        "the variable that the line uses, and the name of the weight that is loaded";
    /// Operands that are exchanged.
    Exchanged "exchanged"
        "the reference's computation with two operands or parts exchanged"
        "the order of the operands, of the parts of a fused projection, and of what is concatenated";
    /// Another axis, or another order of axes.
    Axis "axis"
        "the reference's computation along another axis, or with axes split, merged or ordered otherwise"
        "axes of the operation, transposes before reshapes, and how heads are split, merged and repeated";
    /// Another mask.
    MaskChange "mask_change"
        "the reference's computation with another mask: none, inverted, moved, or with another fill value"
        "whether the mask reaches this layer, which side it hides, and its offset with a cache";
    /// Another window function.
    Window "window"
        "the reference's computation with another window: symmetric in place of periodic, another shape or another length"
        "how the window is made: `periodic` or `sym`, its length, and where a short window lies in a longer frame";
    /// Another bank of filters.
    FilterBank "filter_bank"
        "the reference's computation with other mel filters: another scale, without their norm, another range of frequencies"
        "the mel scale (HTK or Slaney), the norm, the sample rate, and the lowest and the highest frequency";
    /// Other positions or indices.
    Position "position"
        "the reference's computation with positions or indices shifted, scaled or reversed"
        "where positions start, with a cache too; indices that are off by one";
    /// Rounding at one place.
    Precision "precision"
        "the reference's computation with a value rounded to a narrower format"
        "dtypes of the operands there; casts that the reference does before and after";
    /// A gradient times or over a whole number.
    GradientScale "gradient_scale"
        "the gradient times or over a whole number: a sum in place of a mean over samples, tokens or micro-batches"
        "the reduction of the loss, labels that it ignores, and whether accumulated gradients are divided by their number";
    /// A gradient that is not clipped, or clipped otherwise.
    Clipping "clipping"
        "the gradient without clipping, or clipped by another norm or by value"
        "the norm over the gradients of all parameters together; the order of accumulating and clipping";
    /// Adam without its bias correction.
    BiasCorrection "bias_correction"
        "a step of Adam without the correction of its moments, or with a correction that the reference lacks"
        "the optimiser of the port: mlx-rs's `Adam` and `AdamW` do not correct the moments, and torch's do";
    /// Weight decay added to the gradient, left out, or applied to other parameters.
    WeightDecay "weight_decay"
        "weight decay added to the gradient in place of the parameter, left out, or applied where the reference has none"
        "Adam against AdamW; parameters without decay, such as norms and biases";
    /// Eps added in another place.
    EpsPlace "eps_place"
        "a step of Adam with eps inside the root, or added before the bias correction"
        "the divisor of the optimiser: torch divides by sqrt(v / c) + eps";
    /// A parameter that a step did not change.
    NotTrained "not_trained"
        "the parameter from before the step"
        "frozen parameters, `trainable_parameters`, and the names of the gradients that the optimiser gets";
    /// The golden of another checkpoint.
    Crossed "crossed"
        "the golden of another checkpoint, or this stage with the weight of another: names or weights are exchanged"
        "the names of the two taps; q and k, image and text, or the weights of two layers exchanged";
}

kinds! {
    /// The kinds of facts: observations that predict nothing, and so are no causes.
    FactKind:
    /// NaN or infinity where the golden has numbers.
    NonFinite "non_finite"
        "NaN or infinity where the golden has none"
        "the first rows that have them: overflow of a narrow dtype, a row that is masked completely, a division by zero";
    /// Subnormal numbers, which look like foreign memory.
    Subnormal "subnormal"
        "tiny numbers such as 1.4e-45, which look like foreign memory, where the golden has ordinary ones"
        "reads out of bounds: indices past the end, which MLX does not check; a timestep used as an index";
    /// A constant tensor where the golden is not constant.
    Constant "constant"
        "the same number everywhere, where the golden is not constant"
        "weights that were not loaded, a scale of zero, a mask over everything, scale and shift exchanged";
    /// A part of the tensor agrees.
    PartAgrees "part_agrees"
        "a part of the tensor agrees with the golden, such as the first rows or all elements but one"
        "code that handles only the other part: another stream, padding, the last batch, a loop that ends too early";
    /// An error that grows along an axis.
    GrowsWithPosition "grows_with_position"
        "right at the first position, with an error that grows from position to position"
        "position ids, rotary frequencies, relative positions; anything that accumulates from token to token";
    /// Another quantisation.
    Quantisation "quantisation"
        "values quantised with different bits or groups than the golden's"
        "`bits` and `group_size` of the layer, and those that the weights were packed with";
    /// Numbers of a narrower format.
    NarrowFormat "narrow_format"
        "every element fits a narrower format than its dtype, and the golden's elements do not"
        "dtypes before this tap: weights loaded in half precision, a norm or softmax that the reference does in float32";
    /// No correlation with the golden.
    Uncorrelated "uncorrelated"
        "no correlation with the golden"
        "weights that were not loaded; rows of another stream; noise that is drawn here (export it and declare it as an \
         input); `training_mode(false)`";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_what_records_contain() {
        for kind in CauseKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        for kind in FactKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
