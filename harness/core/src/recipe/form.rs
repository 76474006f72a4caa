//! Operations that move elements, and compute little or nothing.

/// An operation that moves elements. Its operands are `[x]` unless stated otherwise.
///
/// All of these operations but `upsample` also take complex numbers.
#[derive(Debug, Clone, PartialEq)]
pub enum Form {
    /// The same elements, in row-major order, with another shape.
    Reshape {
        /// The new shape.
        shape: Vec<usize>,
    },
    /// Axis `i` of the result is axis `axes[i]` of `x`.
    Permute {
        /// Each axis once.
        axes: Vec<usize>,
    },
    /// Repeats axes of length 1, and adds axes in front.
    Expand {
        /// The new shape.
        shape: Vec<usize>,
    },
    /// A range of indices along an axis.
    Slice(Slice),
    /// Operands one after the other along an axis: `[a, b, …]`.
    Cat {
        /// The axis.
        axis: usize,
    },
    /// Operands along a new axis: `[a, b, …]`.
    Stack {
        /// The new axis.
        axis: usize,
    },
    /// Adds elements at the ends of axes.
    Pad {
        /// Elements before and after, per axis.
        pads: Vec<[usize; 2]>,
        /// What is added.
        mode: PadMode,
        /// The number that mode `constant` adds.
        value: f64,
    },
    /// Shifts elements along axes. Elements that leave an axis at one end enter it at the other.
    Roll {
        /// The shift of each of the axes.
        shifts: Vec<i64>,
        /// The axes.
        axes: Vec<usize>,
    },
    /// The reversed order along axes.
    Flip {
        /// The axes.
        axes: Vec<usize>,
    },
    /// Copies of the whole tensor, as torch's `Tensor.repeat` makes them.
    Tile {
        /// The number of copies per axis. If `x` has fewer axes, axes of length 1 are added in front.
        times: Vec<usize>,
    },
    /// Copies of each element along an axis.
    RepeatInterleave {
        /// The number of copies.
        repeats: usize,
        /// The axis.
        axis: usize,
    },
    /// Zeros above a diagonal of the last two axes.
    Tril {
        /// 0 for the main diagonal; a larger number is further above it.
        diagonal: i64,
    },
    /// Zeros below a diagonal of the last two axes.
    Triu {
        /// 0 for the main diagonal; a larger number is further above it.
        diagonal: i64,
    },
    /// `x` with the elements of the slices replaced by `value`: `[x, value]`. With one slice, a file may write `put`.
    PutSlices {
        /// At most one slice per axis.
        slices: Vec<Slice>,
    },
    /// Changes the resolution of the last axes.
    Upsample {
        /// The new lengths.
        size: Vec<usize>,
        /// How new elements are computed from the old ones.
        how: Resampling,
    },
    /// Channels become space: (…, c f², h, w) to (…, c, h f, w f).
    PixelShuffle {
        /// The factor `f`.
        factor: usize,
    },
    /// Space becomes channels: (…, c, h f, w f) to (…, c f², h, w).
    PixelUnshuffle {
        /// The factor `f`.
        factor: usize,
    },
}

/// Indices `start`, `start + step`, … below `end` along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are their own names")]
pub struct Slice {
    pub axis: usize,
    pub start: usize,
    pub end: usize,
    pub step: usize,
}

/// What padding adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PadMode {
    /// A number.
    Constant,
    /// The mirror image without the outermost element.
    Reflect,
    /// The outermost element.
    Replicate,
    /// Elements from the other end.
    Circular,
}

/// How a change of resolution computes new elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resampling {
    /// The function that weights the old elements.
    pub mode: Upsampling,
    /// Whether the centres of the corner elements stay in place.
    pub align: bool,
    /// Whether the function becomes wider where the resolution decreases, so that every old element counts.
    pub antialias: bool,
    /// The number `a` of cubic convolution.
    pub cubic: f64,
}

impl Resampling {
    /// `a` of cubic convolution, as torch chooses it: as OpenCV without antialiasing, as Pillow with it.
    pub const fn usual_cubic(antialias: bool) -> f64 {
        if antialias { -0.5 } else { -0.75 }
    }
}

/// The function that weights the old elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are their own names")]
pub enum Upsampling {
    Nearest,
    NearestExact,
    Linear,
    Bilinear,
    Bicubic,
    Trilinear,
}

impl Form {
    /// The name in `recipes.json`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Reshape { .. } => "reshape",
            Self::Permute { .. } => "permute",
            Self::Expand { .. } => "expand",
            Self::Slice(_) => "slice",
            Self::Cat { .. } => "cat",
            Self::Stack { .. } => "stack",
            Self::Pad { .. } => "pad",
            Self::Roll { .. } => "roll",
            Self::Flip { .. } => "flip",
            Self::Tile { .. } => "tile",
            Self::RepeatInterleave { .. } => "repeat_interleave",
            Self::Tril { .. } => "tril",
            Self::Triu { .. } => "triu",
            Self::PutSlices { .. } => "put_slices",
            Self::Upsample { .. } => "upsample",
            Self::PixelShuffle { .. } => "pixel_shuffle",
            Self::PixelUnshuffle { .. } => "pixel_unshuffle",
        }
    }
}
