"""Rules for torch's views, indices, assignments and new tensors, and tensors that share their elements."""

from __future__ import annotations

import gc
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch, which is large: install the `torch` group of references/")

from recipe_tools import Traced, draw  # noqa: E402

F = torch.nn.functional
X, Y = draw(2, 3, 4), draw(2, 3, 4, seed=1)
MASK = draw(2, 3, seed=2) > 0
IDS = torch.tensor([[1, 0, 2], [2, 2, 1]])

# The call, its operands, and the operations that it becomes.
CASES: dict[str, tuple[Any, list[Any], str | None]] = {
    "view": (lambda x: x.view(6, -1).flatten(), [X], "reshape reshape"),
    "a view of the same shape": (lambda x: x.view(2, 3, 4) * 2, [X], "mul"),
    "unsqueeze and squeeze": (lambda x: x.unsqueeze(1).squeeze(1) * 2, [X], "mul"),
    "unflatten": (lambda x: x.unflatten(-1, (2, 2)), [X], "reshape"),
    "transpose": (lambda x: x.transpose(-1, 0), [X], "permute"),
    "permute": (lambda x: x.permute(2, 0, 1) + x.permute((2, 0, 1)), [X], "permute add"),
    "T": (lambda x: x[0].T + x[1].t(), [X], "slice reshape permute slice reshape permute add"),
    "movedim": (lambda x: x.movedim(-1, 0), [X], "permute"),
    "expand": (lambda x: x[:, :1].expand(-1, 5, -1), [X], "slice expand"),
    "expand with a new axis": (lambda x: x.expand(5, 2, 3, 4), [X], "reshape expand"),
    "chunk": (lambda x: x.chunk(2, dim=-1), [X], "slice slice"),
    "split": (lambda x: x.split([1, 2], dim=1), [X], "slice slice"),
    "unbind": (lambda x: x.unbind(1)[0], [X], "slice reshape"),
    "a loop over rows": (list, [X], "slice reshape slice reshape"),
    "select and narrow": (lambda x: x.select(1, -1) + x.narrow(1, 1, 1)[:, 0], [X], "slice reshape slice reshape add"),
    "cat and stack": (
        lambda x, y: torch.stack([torch.cat([x, y], -1), torch.cat([y, x], -1)]),
        [X, Y],
        "cat cat stack",
    ),
    "pad": (lambda x: F.pad(x, (1, 2, 0, 1), value=0.5), [X], "pad"),
    "pad that cuts": (lambda x: F.pad(x, (-1, 2)), [X], "slice pad"),
    "reflect": (lambda x: F.pad(x, (1, 2), mode="reflect"), [X], "pad"),
    "replicate": (lambda x: F.pad(x, (2, 1), mode="replicate"), [X], "pad"),
    "circular": (lambda x: F.pad(x, (1, 1), mode="circular"), [X], "pad"),
    "roll": (lambda x: x.roll((1, -1), (0, 2)), [X], "roll"),
    "roll of all": (lambda x: x.roll(2), [X], "reshape roll reshape"),
    "flip": (lambda x: x.flip(-1), [X], "flip"),
    "repeat": (lambda x: x.repeat(2, 1, 1, 3), [X], "reshape tile"),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, dim=1), [X], "repeat_interleave"),
    "repeats of a tensor": (lambda x: x.repeat_interleave(torch.tensor([2, 1, 0]), dim=1), [X], "take"),
    "tril and triu": (lambda x: x.tril(1) + x.triu(), [X], "tril triu add"),
    "meshgrid": (
        lambda x: torch.meshgrid(x[0, 0], x[0, :, 0], indexing="xy")[0],
        [X],
        "slice slice reshape reshape expand",
    ),
    "arange": (lambda x: x * torch.arange(1, 8, 2), [X], "arange mul"),
    "full": (lambda x: x + torch.full((4,), 0.1, dtype=x.dtype) + torch.ones_like(x), [X], "full add full add"),
    "tensor of a number": (lambda x: x * torch.tensor(0.1, dtype=x.dtype), [X], "full mul"),
    "tensor of numbers": (lambda x: x * torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=x.dtype), [X], "mul"),
    "linspace": (lambda x: x * torch.linspace(0.5, 2, 4, dtype=x.dtype), [X], "arange mul add mul"),
    "eye": (lambda x: x @ torch.eye(4, dtype=x.dtype), [X], "arange reshape arange eq matmul"),
    "as_strided": (lambda x: x.as_strided((3, 2), (4, 2), 1), [X], "slice slice reshape"),
    "slices": (lambda x: x[..., 1:], [X], "slice"),
    "steps": (lambda x: x[:, ::2, -3:-1], [X], "slice slice"),
    "numbers and new axes": (lambda x: x[None, :, -1], [X], "slice reshape"),
    "indices": (lambda x, i: x[:, i], [X, IDS], "take"),
    "indices of two axes": (
        lambda x, i: x[torch.arange(2), i[:, 0]],
        [X, IDS],
        "arange slice reshape reshape mul add take",
    ),
    "indices of axes apart": (lambda x, i: x[i[:, 0] - 1, :, i[:, 1]], [X, IDS], None),
    "indices from the end": (lambda x, i: x[:, -i], [X, IDS], "neg mod take"),
    "a list of indices": (lambda x: x[:, [2, 0]], [X], "take"),
    "a mask": (lambda x, m: x[m], [X, MASK], "reshape take"),
    "index_select": (lambda x, i: x.index_select(1, i[0]), [X, IDS], "slice reshape take"),
    "gather": (lambda x, i: x[:, :, 0].gather(1, i), [X, IDS], "slice reshape gather"),
    "masked_select": (lambda x: x.masked_select(x > 0), [X], "reshape take"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_call_becomes_its_operations(name: str) -> None:
    call, inputs, ops = CASES[name]
    traced = Traced(call, *inputs)
    if ops is not None:
        assert traced.ops == ops.split()
    traced.check()


def _assigned(x: Any, y: Any) -> Any:
    x = x.clone()
    x[:, 1:, 0] = y[:, 1:, 0] * 2
    x[0] = 7
    return x


def _through_a_view(x: Any, y: Any) -> Any:
    x = x.clone()
    first = x[:, 0]
    turned = x.transpose(0, 2)
    first.mul_(3)
    turned[1:3] += 1
    return x, first, turned, x.view(-1)[5]


def _through_a_flat_view(x: Any) -> Any:
    x = x.clone()
    x.view(-1).add_(1)
    return x


def _masked(x: Any) -> Any:
    x = x.clone()
    x[x > 0.5] = 0.0
    x.masked_fill_(x < -0.5, 1.0)
    return x


def _out(x: Any, y: Any) -> Any:
    room = torch.empty_like(x)
    torch.mul(x, y, out=room)
    return F.relu(room, inplace=True) + room


def _filled(x: Any) -> Any:
    room = torch.zeros(2, 6, dtype=x.dtype)
    room[:, ::2].copy_(x[:, :, 0])
    room[:, 1].fill_(2)
    return room


@pytest.mark.parametrize(
    ("call", "count", "ops"),
    [
        (_assigned, 2, "slice slice reshape mul reshape put_slices put_slices"),
        (_through_a_view, 2, None),
        (_through_a_flat_view, 1, "reshape add reshape"),
        (_masked, 1, "gt where lt where"),
        (_out, 2, "mul relu add"),
        (_filled, 1, None),
    ],
)
def test_a_change_in_place_is_seen_through_every_view(call: Any, count: int, ops: str | None) -> None:
    traced = Traced(call, *[X, Y][:count])
    traced.check()
    assert "unknown" not in traced.ops
    if ops is not None:
        assert traced.ops == ops.split()


def test_a_change_that_cannot_be_expressed_makes_other_views_unknown() -> None:
    def call(x: Any) -> Any:
        x = x.clone()
        windows = x.as_strided((3, 2), (2, 1))
        windows.mul_(2)
        return x[0, 0], x

    why = Traced(call, X).recipe.blocked()
    assert list(why) == ["0", "1"]
    assert "changed in place" in why["1"]


def test_operands_that_are_changed_on_the_side_are_unknown() -> None:
    def call(x: Any) -> Any:
        mean, other = torch.zeros(3, dtype=x.dtype), x * 2
        F.batch_norm(x, mean, torch.ones(3, dtype=x.dtype), training=True)
        torch._foreach_mul_([other], 3.0)
        table = torch.ones(5, 3, dtype=x.dtype)
        F.embedding(torch.tensor([0]), table, max_norm=1.0)
        return mean * 2, other * 2, table * 2, x * 2

    why = Traced(call, X).recipe.blocked()
    assert why == {
        "0": "was changed in place by `torch.batch_norm`",
        "1": "uses `torch._foreach_mul_`, which recipes do not know",
        "2": "was changed in place by `torch.embedding`",
    }


def test_the_value_at_the_time_of_the_call_counts() -> None:
    def call(x: Any) -> Any:
        x = x.clone()
        before = x * 1.5
        x.add_(1)
        return before, x * 1.5

    traced = Traced(call, X)
    assert traced.ops == ["mul", "add", "mul"]
    traced.check()


def test_addresses_that_are_used_again_are_not_confused() -> None:
    def call(x: Any) -> Any:
        kept = x * 0
        for number in range(200):
            # Each of these tensors dies at once, and the next one often gets its address.
            kept = kept + (x + number) * 2
            if number % 50 == 0:
                gc.collect()
        return kept

    Traced(call, X).check()


def test_a_weight_is_found_through_transposes_ties_and_copies() -> None:
    def call(x: Any, weight: Any) -> Any:
        tied = torch.nn.Parameter(weight)
        return x @ tied.T, tied.data.detach()[None][0], x @ weight.view(3, 4).transpose(0, 1)

    traced = Traced(call, X, Y[0])
    assert "constant" not in {node.op for node in traced.recipe.nodes}
    assert traced.recipe.nodes[traced.nodes[1]].attributes == {"name": "1"}
    traced.check()


def test_a_view_that_was_made_before_is_found_by_its_elements() -> None:
    whole = X.clone()
    part = whole[:, 1:, ::2].transpose(0, 1)

    traced = Traced(lambda x: None, X)
    traced.tracer.bind(whole, traced.recipe.leaf("input", "0"))
    node = traced.recipe.nodes[traced.tracer.node_of(part)]
    assert node.op == "permute"
    traced.outputs, traced.nodes = [part], [traced.tracer.node_of(part)]
    traced.recipe.goldens = {"0": traced.nodes[0]}
    traced.check()


def test_small_tensors_without_history_are_constants_and_large_ones_unknown() -> None:
    small, large, same = draw(3, 4), draw(70, 70), torch.full((9,), 2.0)
    traced = Traced(lambda x: (x + small, large * 2, same * 1), X)
    assert [constant.value.shape for constant in traced.recipe.constants.values()] == [(3, 4)]
    assert traced.recipe.blocked()["1"] == "a tensor of 4900 elements has no history"
    assert "full" in traced.ops


def test_an_error_of_the_tracer_costs_one_recipe_and_not_the_export() -> None:
    def call(x: Any) -> Any:
        return torch.sparse_coo_tensor(torch.tensor([[0]]), torch.tensor([1.0])).to_dense(), x * 2

    traced = Traced(call, X, strict=False)
    assert list(traced.recipe.blocked()) == ["0"]
