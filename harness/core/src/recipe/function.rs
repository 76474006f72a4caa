//! Functions of one element, of two elements, and of groups of elements.

/// A function of one element.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "the variants are their own names")]
pub enum Unary {
    Neg,
    Abs,
    Exp,
    Log,
    Log2,
    Sqrt,
    Rsqrt,
    Reciprocal,
    Sin,
    Cos,
    Tan,
    Atan,
    Tanh,
    Sigmoid,
    Silu,
    Relu,
    Erf,
    Square,
    Floor,
    Ceil,
    /// Rounds to the nearest integer. Halves go to the even one.
    Round,
    Sign,
    /// 1 if the element is 0, else 0.
    Not,
    Isfinite,
    Softplus,
    /// Exact, or its approximation by `tanh`.
    Gelu {
        tanh: bool,
    },
    LeakyRelu {
        slope: f64,
    },
    Elu {
        alpha: f64,
    },
    /// `None` is no bound.
    Clamp {
        min: Option<f64>,
        max: Option<f64>,
    },
}

impl Unary {
    /// The functions without parameters.
    pub const PLAIN: [Self; 25] = [
        Self::Neg,
        Self::Abs,
        Self::Exp,
        Self::Log,
        Self::Log2,
        Self::Sqrt,
        Self::Rsqrt,
        Self::Reciprocal,
        Self::Sin,
        Self::Cos,
        Self::Tan,
        Self::Atan,
        Self::Tanh,
        Self::Sigmoid,
        Self::Silu,
        Self::Relu,
        Self::Erf,
        Self::Square,
        Self::Floor,
        Self::Ceil,
        Self::Round,
        Self::Sign,
        Self::Not,
        Self::Isfinite,
        Self::Softplus,
    ];

    /// The name in `recipes.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Neg => "neg",
            Self::Abs => "abs",
            Self::Exp => "exp",
            Self::Log => "log",
            Self::Log2 => "log2",
            Self::Sqrt => "sqrt",
            Self::Rsqrt => "rsqrt",
            Self::Reciprocal => "reciprocal",
            Self::Sin => "sin",
            Self::Cos => "cos",
            Self::Tan => "tan",
            Self::Atan => "atan",
            Self::Tanh => "tanh",
            Self::Sigmoid => "sigmoid",
            Self::Silu => "silu",
            Self::Relu => "relu",
            Self::Erf => "erf",
            Self::Square => "square",
            Self::Floor => "floor",
            Self::Ceil => "ceil",
            Self::Round => "round",
            Self::Sign => "sign",
            Self::Not => "not",
            Self::Isfinite => "isfinite",
            Self::Softplus => "softplus",
            Self::Gelu { .. } => "gelu",
            Self::LeakyRelu { .. } => "leaky_relu",
            Self::Elu { .. } => "elu",
            Self::Clamp { .. } => "clamp",
        }
    }
}

/// A function of two elements. For the logical ones, every number but 0 is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are their own names")]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    /// The quotient, rounded down.
    FloorDiv,
    /// The remainder, with the sign of the divisor.
    Mod,
    Pow,
    Maximum,
    Minimum,
    Atan2,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    And,
    Or,
    Xor,
}

impl Binary {
    /// Every function.
    pub const ALL: [Self; 19] = [
        Self::Add,
        Self::Sub,
        Self::Mul,
        Self::Div,
        Self::FloorDiv,
        Self::Mod,
        Self::Pow,
        Self::Maximum,
        Self::Minimum,
        Self::Atan2,
        Self::Eq,
        Self::Ne,
        Self::Lt,
        Self::Le,
        Self::Gt,
        Self::Ge,
        Self::And,
        Self::Or,
        Self::Xor,
    ];

    /// The name in `recipes.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Sub => "sub",
            Self::Mul => "mul",
            Self::Div => "div",
            Self::FloorDiv => "floor_div",
            Self::Mod => "mod",
            Self::Pow => "pow",
            Self::Maximum => "maximum",
            Self::Minimum => "minimum",
            Self::Atan2 => "atan2",
            Self::Eq => "eq",
            Self::Ne => "ne",
            Self::Lt => "lt",
            Self::Le => "le",
            Self::Gt => "gt",
            Self::Ge => "ge",
            Self::And => "and",
            Self::Or => "or",
            Self::Xor => "xor",
        }
    }
}

/// A function that computes one number per group of elements.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "the variants are their own names")]
pub enum Reduction {
    Sum,
    Mean,
    Prod,
    Max,
    Min,
    Argmax,
    Argmin,
    Any,
    All,
    /// The sum of squared distances from the mean, divided by the number of elements less `ddof`.
    Var {
        ddof: f64,
    },
    Std {
        ddof: f64,
    },
    Norm {
        p: f64,
    },
    Logsumexp,
}

impl Reduction {
    /// The functions without parameters.
    pub const PLAIN: [Self; 10] = [
        Self::Sum,
        Self::Mean,
        Self::Prod,
        Self::Max,
        Self::Min,
        Self::Argmax,
        Self::Argmin,
        Self::Any,
        Self::All,
        Self::Logsumexp,
    ];

    /// The name in `recipes.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Mean => "mean",
            Self::Prod => "prod",
            Self::Max => "max",
            Self::Min => "min",
            Self::Argmax => "argmax",
            Self::Argmin => "argmin",
            Self::Any => "any",
            Self::All => "all",
            Self::Var { .. } => "var",
            Self::Std { .. } => "std",
            Self::Norm { .. } => "norm",
            Self::Logsumexp => "logsumexp",
        }
    }
}
