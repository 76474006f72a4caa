//! Another function of the same kind.

use super::super::candidate::{Candidate, Expression};
use super::super::stage::Stage;
use super::chain::Chain;
use crate::diagnose::CauseKind;
use crate::number::Short;
use crate::recipe::{
    Binary, Complex, Form, Normalizer, Op, Operand, PadMode, Pooling, Reduction, Resampling, Unary,
    Upsampling,
};
use crate::replay::{Change, NewOperand};

/// Activations that are tried in place of each other.
const ACTIVATIONS: [Unary; 10] = [
    Unary::Gelu { tanh: false },
    Unary::Gelu { tanh: true },
    Unary::Silu,
    Unary::Relu,
    Unary::Tanh,
    Unary::Sigmoid,
    Unary::Softplus,
    Unary::LeakyRelu { slope: 0.01 },
    Unary::Elu { alpha: 1.0 },
    Unary::Erf,
];
/// Functions that are tried in place of each other.
const GROUPS: [&[Unary]; 4] = [
    &[Unary::Sin, Unary::Cos, Unary::Tan],
    &[Unary::Sqrt, Unary::Rsqrt, Unary::Reciprocal, Unary::Square],
    &[Unary::Floor, Unary::Ceil, Unary::Round],
    &[Unary::Exp, Unary::Log, Unary::Log2],
];
const UPSAMPLING: [Upsampling; 5] = [
    Upsampling::Nearest,
    Upsampling::NearestExact,
    Upsampling::Linear,
    Upsampling::Bilinear,
    Upsampling::Bicubic,
];

pub(super) fn candidates(stage: &Stage, node: usize) -> Vec<Candidate> {
    let mut found = Vec::new();
    let name = stage.op(node).name();
    for op in siblings(stage, node) {
        let old = if matches!(op, Op::Form(Form::Upsample { .. })) {
            shown(stage.op(node))
        } else {
            name.to_owned()
        };
        let text = format!("`{}` in place of `{old}`", shown(&op));
        let (kind, cost) = match stage.op(node) {
            Op::Binary(Binary::And | Binary::Or) => (CauseKind::MaskChange, 2),
            op if op.is_comparison() => (CauseKind::MaskChange, 2),
            Op::Binary(_) => (CauseKind::Function, 3),
            _ => (CauseKind::Function, 2),
        };
        found.push(Candidate::new(kind, cost, Change::op(stage.recipe, node, op), text));
    }
    found.extend(activations(stage, node));
    found.extend(norms(stage, node));
    found.extend(inserted(stage, node));
    found.extend(unnormalised(stage, node));
    found
}

/// A softmax without its division.
fn unnormalised(stage: &Stage, node: usize) -> Vec<Candidate> {
    let Op::Normalize(Normalizer::Softmax { axis }) = *stage.op(node) else { return Vec::new() };
    let Some((_, x)) = stage.operands(node).next() else { return Vec::new() };
    let mut new = Expression::default();
    let x = NewOperand::Old(x);
    let largest = new.add(Op::Reduce { function: Reduction::Max, axes: vec![axis], keep: true }, vec![x]);
    let moved = new.add(Op::Binary(Binary::Sub), vec![x, largest]);
    let result = new.add(Op::Unary(Unary::Exp), vec![moved]);
    let text = "the division of `softmax` by the sum left out".to_owned();
    vec![Candidate::new(CauseKind::LeftOut, 2, new.replaces(node, result), text)]
}

/// The operation's name, with the attributes that distinguish operations of the same name.
fn shown(op: &Op) -> String {
    match op {
        Op::Unary(Unary::Gelu { tanh: true }) => "gelu by tanh".to_owned(),
        Op::Unary(Unary::Gelu { tanh: false }) => "gelu by erf".to_owned(),
        Op::Form(Form::Upsample { how, .. }) => upsampling(how),
        Op::Form(Form::Pad { mode, .. }) => format!("pad {mode:?}").to_lowercase(),
        op => op.name().to_owned(),
    }
}

/// Words for a change of resolution.
fn upsampling(how: &Resampling) -> String {
    let Resampling { mode, align, antialias, cubic } = how;
    let mut text = format!("upsample {mode:?}, align {align}").to_lowercase();
    if *mode == Upsampling::Bicubic {
        text += &format!(", a {}", Short(*cubic));
    }
    if matches!(mode, Upsampling::Bilinear | Upsampling::Bicubic) {
        text += if *antialias { ", with antialias" } else { ", without antialias" };
    }
    text
}

/// Other ways to change the resolution. Libraries differ in `a` of cubic convolution: -0.5 in Pillow, -0.75 in OpenCV, and in
/// torch one or the other, depending on antialiasing.
fn other_resamplings(own: Resampling) -> Vec<Resampling> {
    let mut found = Vec::new();
    for mode in UPSAMPLING {
        let numbers: &[f64] = if mode == Upsampling::Bicubic { &[-0.75, -0.5, -1.0] } else { &[own.cubic] };
        let widths: &[bool] = match mode {
            Upsampling::Bilinear | Upsampling::Bicubic => &[false, true],
            _ => &[false],
        };
        for (&cubic, &antialias) in
            numbers.iter().flat_map(|cubic| widths.iter().map(move |wide| (cubic, wide)))
        {
            // Nothing here is both antialiased and aligned at the corners.
            let aligned: &[bool] = if antialias { &[false] } else { &[false, true] };
            found.extend(aligned.iter().map(|&align| Resampling { mode, align, antialias, cubic }));
        }
    }
    found.retain(|how| *how != own);
    found
}

/// Other operations on the same operands.
fn siblings(stage: &Stage, node: usize) -> Vec<Op> {
    match stage.op(node).clone() {
        Op::Unary(function) => (GROUPS.iter().filter(|group| group.contains(&function)))
            .flat_map(|group| group.iter().filter(|other| **other != function).map(|other| Op::Unary(*other)))
            .collect(),
        Op::Binary(function) => {
            let others: &[Binary] = match function {
                Binary::Add => &[Binary::Sub, Binary::Mul, Binary::Maximum],
                Binary::Sub => &[Binary::Add, Binary::Div],
                Binary::Mul => &[Binary::Add, Binary::Div],
                Binary::Div => &[Binary::Mul, Binary::Sub, Binary::FloorDiv],
                Binary::FloorDiv => &[Binary::Div, Binary::Mod],
                Binary::Mod => &[Binary::FloorDiv, Binary::Div],
                Binary::Pow => &[Binary::Mul],
                Binary::Maximum => &[Binary::Minimum, Binary::Add],
                Binary::Minimum => &[Binary::Maximum, Binary::Add],
                Binary::Atan2 => &[Binary::Div],
                Binary::Eq => &[Binary::Ne],
                Binary::Ne => &[Binary::Eq],
                Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge => {
                    &[Binary::Lt, Binary::Le, Binary::Gt, Binary::Ge]
                }
                Binary::And => &[Binary::Or, Binary::Xor],
                Binary::Or => &[Binary::And, Binary::Xor],
                Binary::Xor => &[Binary::And, Binary::Or],
            };
            others.iter().filter(|other| **other != function).map(|other| Op::Binary(*other)).collect()
        }
        Op::Reduce { function, axes, keep } => {
            let others = match function {
                Reduction::Sum | Reduction::Mean | Reduction::Max | Reduction::Min | Reduction::Prod => {
                    vec![Reduction::Sum, Reduction::Mean, Reduction::Max, Reduction::Min]
                }
                Reduction::Argmax => vec![Reduction::Argmin],
                Reduction::Argmin => vec![Reduction::Argmax],
                Reduction::Var { ddof } => vec![Reduction::Std { ddof }],
                Reduction::Std { ddof } => vec![Reduction::Var { ddof }],
                Reduction::Norm { p } => vec![Reduction::Sum, Reduction::Norm { p: 3.0 - p }],
                Reduction::Logsumexp => vec![Reduction::Sum, Reduction::Max],
                Reduction::Any => vec![Reduction::All],
                Reduction::All => vec![Reduction::Any],
            };
            let others = others.into_iter().filter(|other| *other != function);
            others.map(|function| Op::Reduce { function, axes: axes.clone(), keep }).collect()
        }
        Op::Normalize(Normalizer::Softmax { axis }) => {
            vec![
                Op::Normalize(Normalizer::LogSoftmax { axis }),
                Op::Unary(Unary::Sigmoid),
                Op::Unary(Unary::Exp),
            ]
        }
        Op::Normalize(Normalizer::LogSoftmax { axis }) => vec![Op::Normalize(Normalizer::Softmax { axis })],
        Op::Pool { function, kernel, stride, padding } => {
            let function = match function {
                Pooling::Average => Pooling::Maximum,
                Pooling::Maximum => Pooling::Average,
            };
            vec![Op::Pool { function, kernel, stride, padding }]
        }
        Op::Topk { k, axis, largest, output } => vec![Op::Topk { k, axis, largest: !largest, output }],
        Op::Sort { axis, descending, output } => vec![Op::Sort { axis, descending: !descending, output }],
        Op::Complex(Complex::Real) => vec![Op::Complex(Complex::Imag)],
        Op::Complex(Complex::Imag) => vec![Op::Complex(Complex::Real)],
        Op::Form(Form::Upsample { size, how }) => (other_resamplings(how).into_iter())
            .map(|how| Op::Form(Form::Upsample { size: size.clone(), how }))
            .collect(),
        Op::Form(Form::Pad { pads, mode, value }) => {
            ([PadMode::Constant, PadMode::Reflect, PadMode::Replicate, PadMode::Circular].into_iter())
                .filter(|new| *new != mode)
                .map(|mode| Op::Form(Form::Pad { pads: pads.clone(), mode, value }))
                .collect()
        }
        Op::Form(Form::Tril { diagonal }) => vec![Op::Form(Form::Triu { diagonal })],
        Op::Form(Form::Triu { diagonal }) => vec![Op::Form(Form::Tril { diagonal })],
        Op::Form(Form::RepeatInterleave { repeats, axis }) => {
            let rank = stage.operands(node).next().map_or(0, |(_, x)| stage.shape(x).len());
            let times = (0..rank).map(|at| if at == axis { repeats } else { 1 }).collect();
            vec![Op::Form(Form::Tile { times })]
        }
        Op::Form(Form::Tile { times }) => (times.iter().enumerate().filter(|(_, times)| **times > 1))
            .map(|(axis, &repeats)| Op::Form(Form::RepeatInterleave { repeats, axis }))
            .collect(),
        _ => Vec::new(),
    }
}

/// Another activation of the same input, also where the reference writes its activation as several operations.
fn activations(stage: &Stage, node: usize) -> Vec<Candidate> {
    let own = match stage.op(node) {
        Op::Unary(function) => Some(*function),
        _ => None,
    };
    let sources = match own {
        Some(function) if ACTIVATIONS.contains(&function) => {
            stage.operands(node).next().map(|(_, source)| source).into_iter().collect()
        }
        _ => Vec::new(),
    };
    let chained =
        Chain::ending_in(stage, node).filter(|chain| chain.nodes.len() > 1).map(|chain| chain.source);
    let mut found = Vec::new();
    for source in sources.into_iter().chain(chained) {
        if stage.shape(source) != stage.shape(node) {
            continue;
        }
        let x = NewOperand::Old(source);
        let name = if own.is_some() { stage.op(node).name() } else { "the function" };
        for function in ACTIVATIONS.into_iter().filter(|function| Some(*function) != own) {
            let text =
                format!("`{}` of {} in place of {name}", shown(&Op::Unary(function)), stage.name(source));
            found.push(Candidate::new(
                CauseKind::Function,
                2,
                Change::node(node, Op::Unary(function), vec![x]),
                text,
            ));
        }
        let mut new = Expression::default();
        let scaled = new.add(Op::Binary(Binary::Mul), vec![x, NewOperand::Number(1.702)]);
        let gate = new.add(Op::Unary(Unary::Sigmoid), vec![scaled]);
        let result = new.add(Op::Binary(Binary::Mul), vec![x, gate]);
        let text = format!("quick gelu of {} in place of {name}", stage.name(source));
        found.push(Candidate::new(CauseKind::Function, 2, new.replaces(node, result), text));
        let text = format!("{} unchanged in place of {name}", stage.name(source));
        found.push(Candidate::new(CauseKind::LeftOut, 1, Change::value(node, x), text));
    }
    found
}

/// Another norm of the same input, also where the reference writes an RMS norm as several operations.
fn norms(stage: &Stage, node: usize) -> Vec<Candidate> {
    let mut found = Vec::new();
    let mut push = |change: Change, text: &str| {
        found.push(Candidate::new(CauseKind::Function, 2, change, text.to_owned()));
    };
    let operand = |at: usize| -> NewOperand {
        stage.node(node).inputs.get(at).copied().map_or(NewOperand::Absent, NewOperand::from)
    };
    match *stage.op(node) {
        Op::Normalize(Normalizer::LayerNorm { rank, eps }) => {
            let mut new = Expression::default();
            let op = Op::Normalize(Normalizer::RmsNorm { rank, eps });
            let mut result = new.add(op, vec![operand(0), operand(1)]);
            if operand(2) != NewOperand::Absent {
                result = new.add(Op::Binary(Binary::Add), vec![result, operand(2)]);
            }
            push(new.replaces(node, result), "`rms_norm` in place of `layer_norm`");
        }
        Op::Normalize(Normalizer::RmsNorm { rank, eps }) => {
            let op = Op::Normalize(Normalizer::LayerNorm { rank, eps });
            let inputs = vec![operand(0), operand(1), NewOperand::Absent];
            push(Change::node(node, op, inputs), "`layer_norm` in place of `rms_norm`");
        }
        Op::Binary(Binary::Mul) => {
            if let Some((x, eps)) = decomposed_rms(stage, node) {
                let op = Op::Normalize(Normalizer::LayerNorm { rank: 1, eps });
                let inputs = vec![NewOperand::Old(x), NewOperand::Absent, NewOperand::Absent];
                push(Change::node(node, op, inputs), "the mean subtracted, as `layer_norm` does");
            }
        }
        _ => {}
    }
    found
}

/// The input and eps of `x * rsqrt(mean(x²) + eps)`.
fn decomposed_rms(stage: &Stage, node: usize) -> Option<(usize, f64)> {
    let operands: Vec<usize> = stage.operands(node).map(|(_, operand)| operand).collect();
    let [a, b] = operands[..] else { return None };
    let scale = [a, b].into_iter().find(|node| matches!(stage.op(*node), Op::Unary(Unary::Rsqrt)))?;
    let x = if scale == a { b } else { a };
    let (_, sum) = stage.operands(scale).next()?;
    let eps = stage.node(sum).inputs.iter().find_map(|operand| match operand {
        Operand::Number(number) => Some(*number),
        _ => None,
    })?;
    let (_, mean) = stage.operands(sum).next()?;
    matches!(stage.op(mean), Op::Reduce { function: Reduction::Mean, .. }).then_some((x, eps))
}

/// An activation that the reference does not have.
fn inserted(stage: &Stage, node: usize) -> Vec<Candidate> {
    if matches!(stage.op(node), Op::Form(_) | Op::Cast { .. } | Op::Complex(_)) {
        return Vec::new();
    }
    (ACTIVATIONS.into_iter())
        .map(|function| {
            let change = Change::node(node, Op::Unary(function), vec![NewOperand::Old(node)]);
            let text = format!("`{}` added after `{}`", shown(&Op::Unary(function)), stage.op(node).name());
            Candidate::new(CauseKind::Function, 4, change, text)
        })
        .collect()
}
