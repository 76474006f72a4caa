//! What can be told from values, causes and facts: one word each, what it means and what to look at next.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! kinds {
    (
        $(#[doc = $about_all:literal])+
        $enum:ident:
        $($(#[doc = $doc:literal])+ $variant:ident $name:literal $about:literal $next:literal;)+
    ) => {
        $(#[doc = $about_all])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $enum {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl $enum {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The word, as records and messages have it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// What it means, in a line.
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
    /// What kind of wrong a failing tensor is. Each predicts the actual, so that what it leaves of the error is known.
    Kind:
    /// The golden with its axes in another order.
    AxesPermuted "axes_permuted"
        "the golden with its axes in another order, such as NCHW for NHWC; also where the shapes are equal"
        "a transpose that is missing, doubled or of other axes; the spec's `layout`";
    /// Shapes that differ by axes of length one only.
    UnitAxis "unit_axis"
        "the golden with axes of length one added or dropped"
        "an `expand_dims` or a `squeeze`; declare `squeeze` in the spec if the port is right";
    /// All values are there, in another memory order.
    MemoryOrder "memory_order"
        "the golden's values in another memory order under the same shape: a reshape where a transpose was needed (heads), \
         or strided memory read as if it were contiguous"
        "reshapes of heads, patches and groups; whether a transposed array was copied before its memory was read";
    /// One axis, grouped the other way round.
    Regrouped "regrouped"
        "one axis grouped the other way round: (3, heads, d) for (heads, 3, d), interleaved pairs for halves"
        "how the fused axis is split; whether the checkpoint's rows have to be permuted when they are loaded";
    /// A slice of a larger buffer, read as if it were contiguous.
    StridedRead "strided_read"
        "the first elements of a larger tensor's memory where a slice of it was meant"
        "slices whose memory is read without a copy; call `contiguous` first";
    /// The golden read backwards along axes.
    Flipped "flipped"
        "the golden read backwards along an axis"
        "the order of timesteps, of channels (RGB, BGR), of padding sides, of kernels";
    /// Equal parts of an axis in another order.
    ChunksSwapped "chunks_swapped"
        "equal parts of an axis in another order: scale, shift and gate; q, k and v; the halves of a GLU"
        "the order in which the fused projection is split, and that of the weights it is loaded from";
    /// The golden moved along an axis.
    Shifted "shifted"
        "the golden moved along an axis: a timestep, a sigma or a token too early or too late"
        "indices that start at zero or one; what is prepended or dropped; the order of step and increment";
    /// A vector applied along another axis than the golden has it.
    BroadcastAxis "broadcast_axis"
        "a vector added or multiplied along another axis than in the golden"
        "the axis that a bias, a position or a modulation is broadcast along: add axes of length one by hand";
    /// Interleaved pairs rotated as halves, or the other way round.
    RopePairs "rope_pairs"
        "rotary pairs of the other kind: halves rotated as interleaved pairs, or the other way round"
        "`traditional` of MLX's rope; how the model's own rotation pairs its features";
    /// Rotated the wrong way.
    RopeSign "rope_sign"
        "rotary angles with the opposite sign"
        "the sign of `rotate_half`, of the sines, of the frequencies";
    /// Rotated by another base.
    RopeBase "rope_base"
        "rotary angles of another base"
        "`rope_theta` of the config, its scaling, and the length of the axis that the exponents are divided by";
    /// Rotated by other positions.
    RopePosition "rope_position"
        "rotary angles of other positions, by a constant"
        "the offset of the cache; positions that start at one; padding that counts as positions";
    /// The opposite sign.
    Sign "sign"
        "the golden with the opposite sign"
        "a subtraction the wrong way round; a velocity that points from noise to image, or back";
    /// One factor throughout.
    Factor "factor"
        "the golden times one factor; known ones are named"
        "a scale that is missing or applied twice: 1/sqrt(d), a VAE's scaling factor, 1/255, a guidance";
    /// One offset throughout.
    Offset "offset"
        "the golden plus one constant"
        "a shift that is missing or applied twice: a VAE's shift factor, a mean, the 1 of (1 + scale)";
    /// One factor and one offset throughout.
    Affine "affine"
        "the golden times one factor plus one constant"
        "the order of scaling and shifting; (x - mean) / std against x * std + mean; [0, 1] against [-1, 1]";
    /// A factor for each channel.
    ChannelFactor "channel_factor"
        "each index of one axis has a factor of its own: a norm's weight that is missing, doubled or stored as 1 + w"
        "the weight of the norm or layer scale before this tap, and whether it is stored as an offset from 1";
    /// An offset for each channel.
    ChannelOffset "channel_offset"
        "each index of one axis has an offset of its own: a bias that is missing or added twice"
        "the bias of the layer before this tap, and whether the layer was made with one";
    /// A factor for each token.
    TokenFactor "token_factor"
        "each token has a factor of its own: another normalisation, its eps, a temperature"
        "what each row is divided by: a norm's eps and kind, a softmax's sum, a length";
    /// An offset for each token.
    TokenOffset "token_offset"
        "each token has an offset of its own: a mean that is not subtracted, a bias along the wrong axis"
        "whether the norm before this tap subtracts the mean; what is added to each row";
    /// A tap or a weight too few or too many in a sum.
    Term "term"
        "the golden without another tensor that belongs to the sum, or with it twice: a residual, a position embedding"
        "the residual connection, or the embedding that is added here";
    /// Values cut off at a bound.
    Clamped "clamped"
        "the golden with its largest or smallest values cut off"
        "a clamp that the reference has elsewhere or not at all; saturation of a narrow dtype";
    /// Rounded to a narrower format on the way.
    Rounded "rounded"
        "precision, not structure: the golden as if rounded to a narrower format somewhere before"
        "dtypes on the way: weights loaded in half precision, a norm or softmax that the reference does in float32";
    /// Another activation of the same input.
    Activation "activation"
        "another activation of the same input: gelu by erf or tanh, quick gelu, silu, relu, none"
        "`hidden_act` of the config; `nn::gelu` against `nn::gelu_approximate` and `nn::gelu_fast_approximate`";
    /// Gate and value of a gated unit exchanged.
    GateSwapped "gate_swapped"
        "a gated unit whose activation is on the other half"
        "which projection the activation belongs to: gate and up, wi_0 and wi_1, the halves of a fused one";
    /// Another normalisation of the same input.
    NormKind "norm_kind"
        "another normalisation of the same input: layer norm for RMS norm, other groups"
        "the reference's norm class; `pytorch_compatible` of `nn::GroupNorm`, and its number of groups";
    /// The same normalisation with another eps.
    NormEps "norm_eps"
        "the same normalisation with another eps"
        "eps of the config: mlx-rs takes 1e-5 by default";
    /// Another modulation of the same input.
    Modulation "modulation"
        "another modulation of the same input: scale and shift exchanged, scale for 1 + scale"
        "the order of the modulation's chunks: [shift, scale, gate] in FLUX and Qwen, [scale, shift] in \
         AdaLayerNormContinuous; the 1 of (1 + scale)";
    /// A softmax of scores that were scaled otherwise.
    SoftmaxScale "softmax_scale"
        "a softmax at another temperature: 1/sqrt(d) missing, doubled, or of another d"
        "the scale that scores get: by head_dim, not by the model's dim; not twice where q is scaled already";
    /// A softmax without its mask, or with another one.
    Mask "mask"
        "attention to what the golden masks, or a mask where the golden has none"
        "whether the mask reaches this layer, is causal, and is added before the softmax";
    /// Attention that is spread evenly.
    UniformAttention "uniform_attention"
        "attention that is spread nearly evenly over all keys, where the golden's is not"
        "queries or keys that are zero or constant: weights that were not loaded, a scale that is far too small";
    /// The stage left its input as it was, or did what the next one does.
    NotExecuted "not_executed"
        "the golden of the stage before: this stage has not run"
        "whether the stage's result is used, or its input is passed on; a tap that stands one line too early";
    /// The stage ran twice.
    ExecutedTwice "executed_twice"
        "the golden of the next stage, or the stage applied to its own output: it ran once too often"
        "a loop that runs the stage again; a tap that stands one line too late; in-place reuse of a variable";
    /// Another checkpoint's golden.
    Crossed "crossed"
        "another checkpoint's golden altogether: names or weights are crossed"
        "the names of the two taps; q for k, image for text, one layer's weights for another's";
}

kinds! {
    /// What can be seen in a failing tensor and predicts nothing. A fact is no cause.
    FactKind:
    /// NaN or infinity.
    NonFinite "non_finite"
        "NaN or infinity where the golden has none"
        "the first rows that have it: overflow of a narrow dtype, a row that is masked whole, a division by zero";
    /// Subnormal numbers that look like foreign memory.
    Subnormal "subnormal"
        "tiny numbers that no computation gives, like 1.4e-45, where the golden has none"
        "reads out of bounds: indices past the end, which MLX does not check; a timestep used as an index";
    /// Constant where the golden is not.
    Constant "constant"
        "constant, or all zero, where the golden is not"
        "weights that were not loaded, a scale of zero, a mask over everything, scale and shift exchanged";
    /// A part of the tensor is right.
    PartAgrees "part_agrees"
        "a part of the tensor agrees with the golden, such as the first rows or all elements but one"
        "what is done to the other part alone: another stream, padding, the last batch, a loop that ends too early";
    /// An error that grows along the positions.
    GrowsWithPosition "grows_with_position"
        "right at the first positions, and the further from the golden the later the position"
        "position ids, rotary frequencies, relative positions; what accumulates from token to token";
    /// Another quantisation geometry.
    Quantisation "quantisation"
        "values on a grid of other bits or groups than the golden's"
        "`bits` and `group_size` of the layer against those that the weights were packed with";
    /// Numbers of a narrower format.
    NarrowFormat "narrow_format"
        "every element is a number of a narrower format than the dtype, and the golden's are not"
        "dtypes on the way: weights loaded in half precision, a norm or softmax that the reference does in float32";
    /// No correlation with the golden.
    Uncorrelated "uncorrelated"
        "no correlation with the golden"
        "weights that were never loaded; rows of another stream; noise that is drawn here: export it and take it as an \
         input; `training_mode(false)`";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_records() {
        for kind in Kind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        for kind in FactKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
