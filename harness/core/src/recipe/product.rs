//! Normalisers, matrix products, convolutions and attention.

/// Softmax, and norms with their weights.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "fields are described with their variant")]
pub enum Normalizer {
    /// `[x]`
    Softmax { axis: usize },
    /// `[x]`
    LogSoftmax { axis: usize },
    /// Over the last `rank` axes: `[x, weight?, bias?]`.
    LayerNorm { rank: usize, eps: f64 },
    /// Over the last `rank` axes: `[x, weight?]`.
    RmsNorm { rank: usize, eps: f64 },
    /// Over groups of channels, which are axis 1: `[x, weight?, bias?]`.
    GroupNorm { groups: usize, eps: f64 },
    /// Per channel, with stored statistics: `[x, mean, var, weight?, bias?]`.
    BatchNorm { eps: f64 },
    /// `x / max(norm(x), eps)` along an axis: `[x]`.
    L2Normalize { axis: usize, eps: f64 },
}

impl Normalizer {
    /// The name in `recipes.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Softmax { .. } => "softmax",
            Self::LogSoftmax { .. } => "log_softmax",
            Self::LayerNorm { .. } => "layer_norm",
            Self::RmsNorm { .. } => "rms_norm",
            Self::GroupNorm { .. } => "group_norm",
            Self::BatchNorm { .. } => "batch_norm",
            Self::L2Normalize { .. } => "l2_normalize",
        }
    }
}

/// Sums of products. Lists have one item per spatial axis.
#[derive(Debug, Clone, PartialEq)]
pub enum Product {
    /// `[x, weight (out, in), bias?]`
    Linear,
    /// By NumPy's rules: `[a, b]`.
    Matmul,
    /// As `torch.einsum`, with one operand per term of the equation.
    Einsum {
        /// E.g. `bhqd,bhkd->bhqk`.
        equation: String,
    },
    /// `[x (batch, channels, space…), weight (out, channels / groups, kernel…), bias?]`
    Conv {
        /// Distance between windows.
        stride: Vec<usize>,
        /// Zeros added before and after each axis.
        padding: Vec<[usize; 2]>,
        /// Distance between the elements of a window.
        dilation: Vec<usize>,
        /// Groups of channels that do not mix.
        groups: usize,
    },
    /// `[x (batch, channels, space…), weight (channels, out / groups, kernel…), bias?]`
    ConvTranspose {
        /// Distance between windows of the output.
        stride: Vec<usize>,
        /// Elements removed from both ends of each axis.
        padding: Vec<usize>,
        /// Elements added to the end of each axis.
        output_padding: Vec<usize>,
        /// Distance between the elements of a window.
        dilation: Vec<usize>,
        /// Groups of channels that do not mix.
        groups: usize,
    },
    /// `[q, k, v, mask?]`, each (…, heads, tokens, dim).
    Attention {
        /// The factor of the scores.
        scale: f64,
        /// Whether a token attends only to itself and to tokens before it.
        causal: bool,
        /// Query heads per key head.
        groups: usize,
        /// What the mask holds; `None` without a mask.
        mask: Option<Mask>,
    },
}

/// What an attention mask holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mask {
    /// 0 where a token is ignored.
    Bool,
    /// Numbers that are added to the scores.
    Add,
}

impl Product {
    /// The name in `recipes.json`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Matmul => "matmul",
            Self::Einsum { .. } => "einsum",
            Self::Conv { .. } => "conv",
            Self::ConvTranspose { .. } => "conv_transpose",
            Self::Attention { .. } => "attention",
        }
    }
}
