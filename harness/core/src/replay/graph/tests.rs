//! Replays of a small graph, with and without changes.

use std::cell::Cell;
use std::slice::from_ref;

use super::*;
use crate::recipe::{Binary, Form, Node, Reduction, Unary};
use crate::replay::change::NewNode;

/// Values by name and node, which count how often they are read.
#[derive(Default)]
struct Known {
    leaves: Vec<(&'static str, Array)>,
    cuts: Vec<(usize, Array)>,
    reads: Cell<usize>,
}

impl Leaves for Known {
    fn leaf(&self, leaf: &Leaf, _: &Work) -> Result<Array, ReplayError> {
        self.reads.set(self.reads.get() + 1);
        let (Leaf::Input { name } | Leaf::Weight { name } | Leaf::Constant { name }) = leaf else {
            return Err(ReplayError::operands("not a tensor of a set"));
        };
        let found = self.leaves.iter().find(|(known, _)| known == name);
        let missing = || ReplayError::Leaf { what: name.clone(), problem: "it does not exist".into() };
        found.map(|(_, value)| value.clone()).ok_or_else(missing)
    }

    fn cut(&self, node: usize, _: &Work) -> Result<Array, ReplayError> {
        self.reads.set(self.reads.get() + 1);
        let found = self.cuts.iter().find(|(known, _)| *known == node);
        found.map(|(_, value)| value.clone()).ok_or(ReplayError::NoNode { node, problem: "is not known" })
    }
}

fn input(name: &str) -> Node {
    Node { op: Op::Leaf(Leaf::Input { name: name.into() }), inputs: vec![], place: None }
}

fn node(op: Op, inputs: &[Operand]) -> Node {
    Node { op, inputs: inputs.to_vec(), place: None }
}

const ADD: Op = Op::Binary(Binary::Add);
const MUL: Op = Op::Binary(Binary::Mul);
const NEG: Op = Op::Unary(Unary::Neg);

/// `(x + w) * 2`, `-x`, and the product of both with its sum: nodes 3, 4, 5 and 6.
fn recipe() -> Recipe {
    use Operand::{Node, Number};
    let sum = Op::Reduce { function: Reduction::Sum, axes: vec![0], keep: false };
    Recipe {
        nodes: vec![
            input("x"),
            input("w"),
            node(ADD, &[Node(0), Node(1)]),
            node(MUL, &[Node(2), Number(2.0)]),
            node(NEG, &[Node(0)]),
            node(MUL, &[Node(3), Node(4)]),
            node(sum, &[Node(5)]),
        ],
        ..Recipe::default()
    }
}

fn known() -> Known {
    let array = |values: &[f64]| Array::new(vec![values.len()], values.to_vec()).unwrap();
    Known { leaves: vec![("x", array(&[1., 2.])), ("w", array(&[10., 20.]))], ..Known::default() }
}

fn work() -> Work {
    Work::new(1 << 20, 1 << 20)
}

#[track_caller]
fn check(found: Result<Array, ReplayError>, values: &[f64]) {
    assert_eq!(found.unwrap().values(), values);
}

#[test]
fn the_target_is_computed_from_leaves_or_from_the_cut() {
    let (recipe, work) = (recipe(), work());
    let mut known = known();
    let replay = Replay::new(&recipe, 5, BTreeSet::new(), &known, &work).unwrap();
    assert_eq!(replay.nodes(), [0, 1, 2, 3, 4, 5]);
    check(replay.target(), &[-22., -88.]);
    check(replay.value(3), &[22., 44.]);
    check(replay.value(6), &[-110.]);
    check(replay.target(), &[-22., -88.]);
    assert_eq!(known.reads.get(), 2, "values are kept");

    known.cuts = vec![(3, Array::scalar(100.0))];
    known.reads.set(0);
    // The target itself is computed, even if its value is known.
    let replay = Replay::new(&recipe, 5, BTreeSet::from([3, 5]), &known, &work).unwrap();
    assert_eq!(replay.nodes(), [0, 3, 4, 5]);
    assert!(replay.is_cut(3) && !replay.is_cut(5));
    check(replay.target(), &[-100., -200.]);
    assert_eq!(known.reads.get(), 2);
}

#[test]
fn a_change_replaces_a_node() {
    let (recipe, work, known) = (recipe(), work(), known());
    let replay = Replay::new(&recipe, 5, BTreeSet::new(), &known, &work).unwrap();
    let sub = Change::op(&recipe, 2, Op::Binary(Binary::Sub));
    check(replay.with(from_ref(&sub)), &[18., 72.]);
    let left_out = Change::value(4, NewOperand::Old(0));
    check(replay.with(from_ref(&left_out)), &[22., 88.]);
    check(replay.with(&[sub.clone(), left_out.clone()]), &[-18., -72.]);
    check(replay.with(&[]), &[-22., -88.]);
    let scaled = Change::node(5, MUL, vec![NewOperand::Old(5), NewOperand::Number(0.5)]);
    check(replay.with(from_ref(&scaled)), &[-11., -44.]);
    // The scaled node has its value without changes, a node before it has its value with them.
    check(replay.with(&[scaled, sub.clone()]), &[-11., -44.]);
    let of_changed = Change::node(4, NEG, vec![NewOperand::Old(2)]);
    check(replay.with(&[of_changed, sub.clone()]), &[-162., -648.]);
    let other_weight = Op::Leaf(Leaf::Weight { name: "x".into() });
    check(replay.with(&[Change::node(1, other_weight, vec![])]), &[-4., -16.]);
    let two_steps = Change {
        node: 4,
        with: vec![
            NewNode { op: ADD, inputs: vec![NewOperand::Old(0), NewOperand::Old(1)] },
            NewNode { op: NEG, inputs: vec![NewOperand::New(0)] },
        ],
        result: NewOperand::New(1),
    };
    check(replay.with(&[two_steps]), &[-242., -968.]);
    // A change to a node that does not lead to the target has no effect.
    check(replay.with(&[Change::value(6, NewOperand::Number(1.0))]), &[-22., -88.]);
    assert_eq!(known.reads.get(), 3);
}

#[test]
fn a_known_node_can_be_changed_too() {
    let (recipe, work) = (recipe(), work());
    let known = Known { cuts: vec![(3, Array::scalar(100.0))], ..known() };
    let replay = Replay::new(&recipe, 5, BTreeSet::from([3]), &known, &work).unwrap();
    check(replay.with(&[Change::value(3, NewOperand::Number(7.0))]), &[-7., -14.]);
    // A change before the cut has no effect on nodes after the cut.
    check(replay.with(&[Change::value(2, NewOperand::Number(7.0))]), &[-100., -200.]);
}

#[test]
fn a_change_that_does_not_fit_is_an_error() {
    let (recipe, work, known) = (recipe(), work(), known());
    let replay = Replay::new(&recipe, 5, BTreeSet::new(), &known, &work).unwrap();
    let one = Change::value(4, NewOperand::Number(1.0));
    let error = |changes: &[Change]| crate::text::error_chain(&replay.with(changes).unwrap_err());
    assert_eq!(error(&[one.clone(), one]), "node 4 has two changes");
    assert_eq!(error(&[Change::value(70, NewOperand::Absent)]), "node 70 does not exist");
    assert_eq!(error(&[Change::value(4, NewOperand::Old(70))]), "node 70 does not exist");
    assert_eq!(error(&[Change::value(4, NewOperand::Absent)]), "node 4 (`neg`): the change has no result");
    let new = "node 4 (`neg`): new node 0 does not come earlier";
    assert_eq!(error(&[Change::value(4, NewOperand::New(0))]), new);
    let wrong = Change::op(&recipe, 4, Op::Form(Form::Reshape { shape: vec![3] }));
    assert_eq!(error(&[wrong]), "node 4 (`neg`): shape [2] cannot become [3]");
    assert!(Replay::new(&recipe, 70, BTreeSet::new(), &known, &work).is_err());
}

#[test]
fn an_unknown_value_is_reported_unless_the_cut_is_behind_it() {
    let (mut recipe, work) = (recipe(), work());
    recipe.nodes[2] = node(Op::Unknown { why: "uses `fft`".into() }, &[Operand::Node(0)]);
    let known = Known { cuts: vec![(3, Array::scalar(1.0))], ..known() };
    let Err(error) = Replay::new(&recipe, 5, BTreeSet::new(), &known, &work) else { panic!("it is unknown") };
    assert_eq!(crate::text::error_chain(&error), "node 2 (`unknown`): a value is unknown: uses `fft`");
    let replay = Replay::new(&recipe, 5, BTreeSet::from([3]), &known, &work).unwrap();
    check(replay.target(), &[-1., -2.]);
}

#[test]
fn memory_is_bounded_by_what_lives_at_once() {
    // A chain of 1000 sums over 1000 numbers: 8 MB if all were kept.
    let mut nodes = vec![node(Op::Leaf(Leaf::Full { shape: vec![1000], value: 0.0 }), &[])];
    nodes.extend((0..1000).map(|i| node(ADD, &[Operand::Node(i), Operand::Number(1.0)])));
    let recipe = Recipe { nodes, ..Recipe::default() };
    let (known, work) = (Known::default(), Work::new(1 << 40, 100_000));
    let replay = Replay::new(&recipe, 1000, BTreeSet::new(), &known, &work).unwrap();
    assert!(replay.target().unwrap().values().iter().all(|&x| x == 1000.0));
    let late = Change::op(&recipe, 999, Op::Binary(Binary::Sub));
    assert!(replay.with(&[late]).unwrap().values().iter().all(|&x| x == 998.0));
    assert!(work.bytes_left() >= 50_000);
    drop(replay);
    assert_eq!(work.bytes_left(), 100_000);
}

#[test]
fn kept_values_make_room_for_what_is_computed() {
    // Half of the memory is kept, then one value needs more than the other half.
    let full = |length| node(Op::Leaf(Leaf::Full { shape: vec![length], value: 1.0 }), &[]);
    let nodes = vec![full(500), full(600), node(ADD, &[Operand::Node(1), Operand::Number(1.0)])];
    let recipe = Recipe { nodes, ..Recipe::default() };
    let (known, work) = (Known::default(), Work::new(1 << 40, 10_000));
    let replay = Replay::new(&recipe, 2, BTreeSet::new(), &known, &work).unwrap();
    assert_eq!(replay.value(0).unwrap().len(), 500);
    assert_eq!(replay.target().unwrap().len(), 600);
    assert!(replay.value(0).is_ok());
    assert_eq!(work.bytes_left(), 10_000, "nothing is kept any more");
}

#[test]
fn only_what_depends_on_a_change_is_computed_again() {
    let mut nodes = vec![node(Op::Leaf(Leaf::Full { shape: vec![1000], value: 0.0 }), &[])];
    nodes.extend((0..100).map(|i| node(ADD, &[Operand::Node(i), Operand::Number(1.0)])));
    let recipe = Recipe { nodes, ..Recipe::default() };
    let (known, work) = (Known::default(), Work::new(1 << 40, 1 << 30));
    let replay = Replay::new(&recipe, 100, BTreeSet::new(), &known, &work).unwrap();
    let spent = |run: &dyn Fn()| {
        let before = work.steps_left();
        run();
        before - work.steps_left()
    };
    let all = spent(&|| drop(replay.target().unwrap()));
    let last = spent(&|| drop(replay.with(&[Change::op(&recipe, 100, MUL)]).unwrap()));
    assert!(last * 50 < all, "{last} of {all}");
}
