//! The operations of recipes. Functions that can replace each other share an enum.
//!
//! In the comments, a list such as `[x, weight, bias?]` names the operands of an operation; `?` marks an optional one.

use std::sync::Arc;

use super::form::Form;
use super::function::{Binary, Reduction, Unary};
use super::product::{Normalizer, Product};
use crate::tensor::Dtype;

/// One operation with its attributes, but without its operands.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// A value that is not computed from other nodes.
    Leaf(Leaf),
    /// A value that recipes cannot describe.
    Unknown {
        /// The reason.
        why: String,
    },
    /// A function of each element: `[x]`.
    Unary(Unary),
    /// Rounding to a dtype: `[x]`.
    Cast {
        /// The dtype.
        dtype: Dtype,
    },
    /// A function of two elements, with NumPy's broadcasting: `[a, b]`.
    Binary(Binary),
    /// `a` where the condition is not 0, else `b`, with broadcasting: `[condition, a, b]`.
    Where,
    /// A number per group of elements: `[x]`.
    Reduce {
        /// What is computed per group.
        function: Reduction,
        /// The axes that are reduced.
        axes: Vec<usize>,
        /// Whether reduced axes stay, with length 1.
        keep: bool,
    },
    /// Cumulative sums: `[x]`.
    Cumsum {
        /// The axis.
        axis: usize,
    },
    /// The largest or smallest elements, in order: `[x]`.
    Topk {
        /// How many.
        k: usize,
        /// The axis.
        axis: usize,
        /// Whether the largest are taken.
        largest: bool,
        /// What is returned.
        output: Ranked,
    },
    /// The elements, sorted; equal elements keep their order: `[x]`.
    Sort {
        /// The axis.
        axis: usize,
        /// Whether the largest is first.
        descending: bool,
        /// What is returned.
        output: Ranked,
    },
    /// Softmax, and norms with their weights.
    Normalize(Normalizer),
    /// Matrix products, convolutions and attention.
    Product(Product),
    /// A number per window: `[x]`, with the batch and the channels as its first axes.
    Pool {
        /// What is computed per window.
        function: Pooling,
        /// Lengths of the window.
        kernel: Vec<usize>,
        /// Distance between windows.
        stride: Vec<usize>,
        /// Elements added before and after each axis. An average counts them as 0, a maximum ignores them.
        padding: Vec<[usize; 2]>,
    },
    /// Elements at given indices.
    Lookup(Lookup),
    /// Operations that move elements.
    Form(Form),
    /// Conversions to and from complex numbers.
    Complex(Complex),
    /// The numbers of a matrix that MLX quantised and packed: `[packed, scales, biases]`.
    Dequantize {
        /// Bits per number.
        bits: usize,
        /// Numbers that share a scale and a bias.
        group_size: usize,
    },
}

/// A value that is not computed from other nodes.
#[derive(Debug, Clone, PartialEq)]
pub enum Leaf {
    /// An input of the set.
    Input {
        /// Its name in the manifest.
        name: String,
    },
    /// A weight of the set.
    Weight {
        /// Its name in the manifest, before the spec's `rename`.
        name: String,
    },
    /// A constant of the set.
    Constant {
        /// Its name in the manifest.
        name: String,
    },
    /// A tensor filled with one number.
    Full {
        /// Lengths of the axes.
        shape: Vec<usize>,
        /// The number.
        value: f64,
    },
    /// Equally spaced numbers, as `numpy.arange`.
    Arange {
        /// The first number.
        start: f64,
        /// The bound, which is excluded.
        end: f64,
        /// The distance between two numbers.
        step: f64,
    },
    /// These numbers, in row-major order. Changes of a recipe use it; files cannot hold it.
    Table {
        /// Lengths of the axes.
        shape: Vec<usize>,
        /// One number per element.
        numbers: Arc<[f64]>,
    },
}

/// What an operation that orders elements returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranked {
    /// The elements.
    Values,
    /// Their indices along the axis.
    Indices,
}

/// A function of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are their own names")]
pub enum Pooling {
    Average,
    Maximum,
}

/// Elements at given indices. A negative index counts from the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// A row per id: `[weight, ids]`.
    Embedding,
    /// As `numpy.take`: `[x, indices]`.
    Take {
        /// The axis of `x` that the axes of `indices` replace.
        axis: usize,
    },
    /// As `torch.gather`: `[x, indices]`, which have the same number of axes.
    Gather {
        /// The axis that the indices count along.
        axis: usize,
    },
    /// A row of zeros with a single one per index: `[indices]`.
    OneHot {
        /// The length of the new last axis.
        classes: usize,
    },
}

/// Conversions to and from complex numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Complex {
    /// `[re, im]`
    Complex,
    /// `[abs, angle]`
    Polar,
    /// The last axis, of length 2, holds the two parts: `[x]`.
    ViewAsComplex,
    /// The two parts become a new last axis: `[x]`.
    ViewAsReal,
    /// `[x]`
    Real,
    /// `[x]`
    Imag,
    /// `[x]`
    Conj,
}

impl Op {
    /// Whether the operation compares two elements, so that its result is true or false.
    pub fn is_comparison(&self) -> bool {
        use Binary::{Eq, Ge, Gt, Le, Lt, Ne};
        matches!(self, Self::Binary(Eq | Ne | Lt | Le | Gt | Ge))
    }

    /// The name in `recipes.json`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Leaf(leaf) => match leaf {
                Leaf::Input { .. } => "input",
                Leaf::Weight { .. } => "weight",
                Leaf::Constant { .. } => "constant",
                Leaf::Full { .. } => "full",
                Leaf::Arange { .. } => "arange",
                Leaf::Table { .. } => "table",
            },
            Self::Unknown { .. } => "unknown",
            Self::Unary(function) => function.name(),
            Self::Cast { .. } => "cast",
            Self::Binary(function) => function.name(),
            Self::Where => "where",
            Self::Reduce { function, .. } => function.name(),
            Self::Cumsum { .. } => "cumsum",
            Self::Topk { .. } => "topk",
            Self::Sort { .. } => "sort",
            Self::Normalize(function) => function.name(),
            Self::Product(product) => product.name(),
            Self::Pool { function: Pooling::Average, .. } => "avg_pool",
            Self::Pool { function: Pooling::Maximum, .. } => "max_pool",
            Self::Lookup(lookup) => match lookup {
                Lookup::Embedding => "embedding",
                Lookup::Take { .. } => "take",
                Lookup::Gather { .. } => "gather",
                Lookup::OneHot { .. } => "one_hot",
            },
            Self::Form(form) => form.name(),
            Self::Complex(complex) => match complex {
                Complex::Complex => "complex",
                Complex::Polar => "polar",
                Complex::ViewAsComplex => "view_as_complex",
                Complex::ViewAsReal => "view_as_real",
                Complex::Real => "real",
                Complex::Imag => "imag",
                Complex::Conj => "conj",
            },
            Self::Dequantize { .. } => "dequantize",
        }
    }
}
