"""Golden sets of real `transformers` classes, made by real scripts in child processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch, which is large: install the `torch` group of references/")
pytest.importorskip("transformers", reason="needs transformers: install the `torch` group of references/")

EXPORTER = Path(__file__).parent.parent

T5 = '''
import torch
from transformers import T5Config, T5EncoderModel
from parity_export import main

def reference(rec, dim=32, heads=4, layers=2, tokens=7, dtype="float32"):
    """Goldens of a small T5 encoder, every module and the inside of attention."""
    config = T5Config(vocab_size=50, d_model=dim, d_kv=dim // heads, d_ff=2 * dim, num_layers=layers, num_heads=heads,
                      feed_forward_proj="gated-gelu", attn_implementation="eager")
    model = rec.weights(T5EncoderModel(config).to(getattr(torch, dtype)).eval(), vary=0.1)
    ids = rec.input("input_ids", torch.randint(0, 50, (1, tokens)))
    mask = rec.input("attention_mask", torch.tensor([[1] * (tokens - 2) + [0, 0]]))
    dropped = ["**.layer_norm.*", "**.act.*", "encoder.block.*.1", "encoder", "root"]
    rec.hook(model, {**dict.fromkeys(dropped), "**": True}, ops=["softmax"], rename={
        "encoder.block": "blocks", "encoder": "", "layer.0.SelfAttention.softmax": "attn.probs",
        "layer.0.SelfAttention": "attn", "layer.0.layer_norm": "norm1", "layer.0": "attn.out",
        "layer.1.DenseReluDense": "mlp", "layer.1.layer_norm": "norm2", "layer.1": "out"})
    model(input_ids=ids, attention_mask=mask)

if __name__ == "__main__":
    main(reference)
'''

QWEN = '''
import torch
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as qwen
from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLVisionConfig
from parity_export import main

def reference(rec, dim=32, heads=4, patches=12):
    """Goldens of one Qwen2.5-VL vision block."""
    config = Qwen2_5_VLVisionConfig(hidden_size=dim, num_heads=heads, intermediate_size=2 * dim, depth=1)
    config._attn_implementation = "eager"
    block = rec.weights(qwen.Qwen2_5_VLVisionBlock(config).eval(), vary=0.1)
    hidden = rec.input("hidden_states", torch.randn(patches, dim))
    cos, sin = (rec.input(f"rope_{name}", torch.randn(patches, dim // heads)) for name in ("cos", "sin"))
    rec.hook(block, {"root.add": "attn.residual", "**.add.**": None, "root": "out", "**": True}, ops=["softmax", "add"],
             functions=["transformers.models.qwen2_5_vl.modeling_qwen2_5_vl:apply_rotary_pos_emb_vision"],
             rename={"apply_rotary_pos_emb_vision": "rope", "softmax": "probs"})
    block(hidden, cu_seqlens=torch.tensor([0, patches]), position_embeddings=(cos, sin))

if __name__ == "__main__":
    main(reference)
'''


ATTENTION = '''
import torch
from parity_export import main

def reference(rec):
    """Goldens of attention and a convolution, which have several kernels each."""
    q, k, v = (rec.input(name, torch.randn(1, 2, 33, 24)) for name in "qkv")
    rec.save("attention", torch.nn.functional.scaled_dot_product_attention(q, k, v))
    rec.save("conv", torch.nn.functional.conv2d(q, rec.weights({"w": torch.randn(5, 2, 3, 3)})["w"]))

if __name__ == "__main__":
    main(reference)
'''


def run(tmp_path: Path, text: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "reference.py"
    script.write_text(text)
    own = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": os.pathsep.join([str(EXPORTER), *sys.path]),
        **environment,
    }
    done = subprocess.run(
        [sys.executable, str(script), *arguments], check=False, env=own, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    return done


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return found


def test_a_set_of_a_real_class_made_twice_has_the_same_bytes(tmp_path: Path) -> None:
    run(tmp_path, T5, "a", PYTHONHASHSEED="1")
    run(tmp_path, T5, "b", PYTHONHASHSEED="2")
    for path in sorted((tmp_path / "a").iterdir()):
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name
    found = manifest(tmp_path / "a")
    goldens = {entry["name"]: entry for entry in found["tensors"] if entry["role"] == "golden"}
    assert {"blocks.0.norm1", "blocks.1.attn.q", "blocks.1.attn.probs", "blocks.0.mlp.wo", "final_layer_norm"} <= set(
        goldens
    )
    assert all("floor" in entry for entry in goldens.values())
    assert all(entry["floor"]["rms"] > 0 for name, entry in goldens.items() if ".attn.q" in name or ".norm" in name)
    provenance = found["provenance"]
    source = provenance["sources"]["transformers/models/t5/modeling_t5.py"]
    assert "T5Attention" in source["hooked"]
    assert len(source["sha256"]) == 64
    assert provenance["executed"]["transformers/models/t5/modeling_t5.py"] > 10
    assert {"torch", "transformers", "numpy"} <= set(provenance["packages"])
    assert provenance["torch"]["threads"] == 1
    text = (tmp_path / "a" / "manifest.json").read_text()
    assert str(tmp_path) not in text
    assert sys.prefix not in text

    # With other kernels and the same inputs and weights, the goldens agree within their floors.
    run(tmp_path, T5, "c", PARITY_REUSE="a", ATEN_CPU_CAPABILITY="default")
    from parity_export import files
    from parity_export.floor import distance

    old, new = (files.read(tmp_path / name / "goldens.safetensors") for name in "ac")
    assert old.keys() == new.keys()
    assert any(not old[name].same_as(new[name]) for name in old)
    for name, golden in old.items():
        absmax = abs(golden.wide()).max()
        assert distance(golden, new[name]).max <= 8 * max(goldens[name]["floor"]["max"], 1.2e-7 * absmax), name


def test_a_bfloat16_set_has_floors_of_bfloat16(tmp_path: Path) -> None:
    reference = '{"params":{"dtype":"bfloat16"},"script":"reference.py"}'
    run(tmp_path, T5, "a", PARITY_REFERENCE=reference)
    goldens = {entry["name"]: entry for entry in manifest(tmp_path / "a")["tensors"] if entry["role"] == "golden"}
    assert goldens["blocks.0.attn.q"]["dtype"] == "bfloat16"
    assert 1e-4 < goldens["blocks.0.attn.q"]["floor"]["rms"] < 1e-1


def test_a_vision_block_with_the_function_that_rotates(tmp_path: Path) -> None:
    run(tmp_path, QWEN, "a")
    goldens = [entry for entry in manifest(tmp_path / "a")["tensors"] if entry["role"] == "golden"]
    names = [entry["name"] for entry in goldens]
    assert names[:6] == ["norm1", "attn.qkv", "attn.rope.0", "attn.rope.1", "attn.probs", "attn.proj"]
    assert names[-1] == "out"
    assert "attn.residual" in names
    assert "mlp.gate_proj" in names
    assert all(entry["floor"]["max"] > 0 for entry in goldens)


def test_the_spread_over_kernels_is_measured_when_asked(tmp_path: Path) -> None:
    run(tmp_path, ATTENTION, "a", "--spread")
    found = manifest(tmp_path / "a")
    assert found["provenance"]["passes"][3:] == [
        "several threads",
        "scalar kernels",
        "without oneDNN",
        "plain attention",
    ]
    goldens = [entry for entry in found["tensors"] if entry["role"] == "golden"]
    assert any(entry["spread"]["max"] > 0 for entry in goldens)
    assert all(entry["spread"]["max"] < 1e-4 for entry in goldens)
