"""The Python examples of the guide work."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from debug_tools import answers, environment, write_script

from parity_export.debug_commands import COMMANDS

GUIDE = Path(__file__).parent.parent.parent / "docs" / "src"
pytestmark = pytest.mark.skipif(not GUIDE.is_dir(), reason="the guide is in the repository, not in the package")


def example(page: str, word: str) -> str:
    """The only Python example of the page with this word."""
    text = (GUIDE / page).read_text(encoding="utf-8")
    blocks: list[str] = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    (found,) = [block for block in blocks if word in block]
    return found


def space_of(text: str, **names: Any) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "guide", "__file__": __file__, **names}
    exec(compile(text, str(Path(__file__)), "exec"), space)
    return space


def test_the_numpy_example_writes_a_sound_set(export: Any) -> None:
    made = export(space_of(example("exporting.md", "np.linspace"))["reference"], lint="refuse", script=__file__)
    assert list(made.goldens) == ["sigmas"]


def test_the_mlx_example_writes_a_sound_set(export: Any) -> None:
    pytest.importorskip("mlx.core", reason="needs MLX: install the `mlx` group of references/")
    made = export(space_of(example("exporting.md", "mlx.nn"))["reference"], lint="refuse", script=__file__)
    assert list(made.goldens) == ["layers.0", "layers.1", "layers.2"]


def test_the_llama_example_writes_a_sound_set_with_the_rotation(export: Any) -> None:
    pytest.importorskip("transformers", reason="needs transformers: install the `torch` group of references/")
    text = example("exporting.md", "LlamaConfig")
    made = export(space_of(text)["reference"], lint="refuse", script=__file__)
    shapes = {name: entry["shape"] for name, entry in made.goldens.items()}
    assert shapes["layers.0.attn.q_heads"] == shapes["layers.0.attn.q_rope"] == [1, 4, 6, 8]
    assert shapes["layers.1.attn.probs"] == [1, 4, 6, 6]
    assert shapes["layers.1.after_attn"] == shapes["layers.1.attn.context"] == shapes["layers.1"] == [1, 6, 32]
    assert shapes["layers.0.mlp.product"] == [1, 6, 48]
    assert len(shapes) == 41, "a hook records more or less than the example says"


def test_the_example_of_floors_by_block_writes_a_sound_set(export: Any) -> None:
    pytest.importorskip("torch", reason="needs torch: install the `torch` group of references/")
    made = export(space_of(example("exporting.md", "rec.floors("))["reference"], lint="refuse", script=__file__)
    # The first layer receives the input of the set, so its floor is that of the whole.
    blocks = {name: entry.get("floor_block") for name, entry in made.goldens.items()}
    assert blocks == {"layers.0": None, "layers.1": "layers.1", "layers.2": "layers.2"}


def test_the_training_example_writes_a_sound_set(export: Any) -> None:
    pytest.importorskip("torch", reason="needs torch: install the `torch` group of references/")
    made = export(space_of(example("gradients.md", "torch"))["reference"], lint="refuse", script=__file__)
    assert list(made.goldens)[:3] == ["loss", "grad.2.bias", "grad.2.weight"]
    assert made.goldens["step.1.param.0.weight"]["step"]["gradient"] == "grad.0.weight"


def test_the_adapter_example_writes_a_sound_set(export: Any) -> None:
    pytest.importorskip("torch", reason="needs torch: install the `torch` group of references/")
    made = export(space_of(example("adapters.md", "torch"))["reference"], lint="refuse", script=__file__)
    assert list(made.goldens) == ["0", "2"]
    assert made.entries["weight", "base_model.model.0.lora_A.weight"]["file"] == "adapters.safetensors"


def test_the_external_example_writes_a_set_without_weights(
    export: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch", reason="needs torch: install the `torch` group of references/")
    from safetensors.torch import save_file

    shards = []
    for layer in (0, 2):
        path = tmp_path / f"model-{layer}.safetensors"
        made = torch.nn.Linear(16, 16)
        save_file({f"{layer}.{name}": tensor for name, tensor in made.state_dict().items()}, path)
        shards.append({"name": path.name, "path": str(path), "size": path.stat().st_size, "sha256": "0" * 64})
    (tmp_path / "external.json").write_text(json.dumps(shards))
    monkeypatch.setenv("PARITY_EXTERNAL", str(tmp_path / "external.json"))
    made = export(space_of(example("large-models.md", "external_tensors"))["reference"], lint="refuse", script=__file__)
    assert list(made.goldens) == ["0", "2"]
    assert not [entry for entry in made.manifest["tensors"] if entry["role"] == "weight"]
    assert made.report["counts"]["recipes"] == 2


def test_the_second_reference_computes_what_the_numpy_example_computes(export: Any, tmp_path: Path) -> None:
    first = export(space_of(example("exporting.md", "np.linspace"))["reference"], script=__file__)
    second = export(space_of(example("exporting.md", "np.arange(steps"))["reference"], tmp_path / "b", script=__file__)
    np.testing.assert_allclose(
        first.tensor("golden", "sigmas").wide(), second.tensor("golden", "sigmas").wide(), rtol=1e-6
    )


def test_the_sound_example_writes_a_sound_set(export: Any) -> None:
    pytest.importorskip("torch", reason="needs torch: install the `torch` group of references/")
    made = export(space_of(example("front-ends.md", "torch"))["reference"], lint="refuse", script=__file__)
    assert {name: entry["shape"] for name, entry in made.goldens.items()} == {"frames": [23, 400], "power": [23, 201]}


def test_the_hooks_of_the_rotation_are_the_same_on_both_pages() -> None:
    text = example("exporting.md", "LlamaConfig")
    assert all(line in text for line in example("what-to-tap.md", "apply_rotary_pos_emb").splitlines())


def test_the_pipeline_example_writes_a_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    record = space_of(example("exporting.md", "with Recorder("))["record"]
    record(lambda _, latents: latents * 2, "", np.arange(4.0))
    manifest = json.loads((tmp_path / "fixtures" / "flux" / "latents" / "manifest.json").read_text())
    assert [entry["name"] for entry in manifest["tensors"]] == ["latents", "image"]


def test_the_debug_session_is_what_is_printed() -> None:
    text = (GUIDE / "stepping-reference.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```console\n\$ (.*?)```", text, flags=re.DOTALL)
    command, *expected = block.splitlines()
    command = command.replace("| python ", f"| {sys.executable} ")
    done = subprocess.run(
        command, shell=True, check=False, capture_output=True, text=True, env=environment(), cwd=GUIDE.parent.parent
    )
    # The last digits depend on the machine.
    assert _rounded(done.stdout.splitlines()) == _rounded(expected), done.stderr


def _rounded(lines: list[str]) -> list[str]:
    return [re.sub(r"(\.\d\d\d)\d+", r"\1", line) for line in lines]


def test_every_command_and_field_of_a_debug_session_is_described(tmp_path: Path) -> None:
    text = (GUIDE / "stepping-reference.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"`{name}" not in text] == []
    lines = [
        "break o*",
        "continue",
        "location",
        "vars",
        "show x",
        "eval 1",
        "save x x.npy",
        "status",
        "note a",
        "help",
        "show y",
    ]
    for answer in answers(write_script(tmp_path), *lines):
        fields = {*answer, *(answer.get("tap") or {})}
        kinds = {"kind", "ok", "command"}
        assert [name for name in fields | kinds if f"`{name}" not in text] == [], answer["kind"]
        assert f"`{answer['kind']}`" in text


def test_the_conversion_of_a_torch_file_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="needs torch: install the `torch` group of references/")
    from safetensors.numpy import load_file

    monkeypatch.chdir(tmp_path)
    torch.save({"x": torch.arange(3.0)}, "tensors.pt")
    space_of(example("exporting.md", "torch.load"))
    assert load_file("tensors.safetensors")["x"].tolist() == [0.0, 1.0, 2.0]
