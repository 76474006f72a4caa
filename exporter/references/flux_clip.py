"""Goldens of a small CLIP text encoder, the pooled one of Flux: every module, and the inside of attention.

Run with: cargo xtask regenerate-fixtures flux/clip
"""

import copy
from string import ascii_lowercase

import torch
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from parity_export import main


def reference(rec, prompts, **config):
    """The prompts through tokeniser and encoder; the rest of the parameters is the model's own config."""
    config = CLIPTextConfig(**config, attn_implementation="eager")
    model = rec.weights(CLIPTextModel(config).eval(), vary=0.1)
    # Configs of before 2023, Flux's among them, give 2 for the end mark. Those models pool at the largest token.
    legacy = copy.deepcopy(model)
    legacy.eos_token_id = 2
    hook(rec, model)

    # The tokeniser is the real one, with letters for a vocabulary and one token that was added to it, as textual inversion
    # does. Splitting a text is left to it: the port is given the pieces, and puts marks and padding there itself.
    letters = [*ascii_lowercase, *(f"{letter}</w>" for letter in ascii_lowercase)]
    vocabulary = [*letters, "<|startoftext|>", "<|endoftext|>"]
    tokenizer = CLIPTokenizer(vocab={piece: index for index, piece in enumerate(vocabulary)}, merges=[])
    tokenizer.add_tokens("<style>")
    length = config.max_position_embeddings
    texts = []
    for index, prompt in enumerate(prompts):
        tokens = tokenizer(prompt, add_special_tokens=False, return_tensors="pt")["input_ids"][0]
        texts.append(tokenizer.decode(rec.input(f"prompt.{index}", tokens.int())))
    batch = tokenizer(texts, padding="max_length", max_length=length, truncation=True, return_tensors="pt")
    ids = rec.save("ids", batch["input_ids"].int())

    with torch.no_grad():
        model(input_ids=ids)
        rec.save("legacy.pooled", legacy(input_ids=ids).pooler_output)


def hook(rec, model):
    layer = "encoder.layers.*"
    rec.hook(
        model,
        {
            "embeddings.token_embedding": "embed.token",
            "embeddings.position_embedding": "embed.position",
            "embeddings.add": "embed.out",
            f"{layer}.layer_norm1": "layers.*.norm1",
            f"{layer}.self_attn.q_proj": "layers.*.attn.q",
            f"{layer}.self_attn.k_proj": "layers.*.attn.k",
            f"{layer}.self_attn.v_proj": "layers.*.attn.v",
            f"{layer}.self_attn.mul": "layers.*.attn.scores",
            f"{layer}.self_attn.softmax": "layers.*.attn.probs",
            f"{layer}.self_attn.matmul.1": "layers.*.attn.context",
            f"{layer}.self_attn.out_proj": "layers.*.attn.out",
            f"{layer}.add": "layers.*.attended",
            f"{layer}.layer_norm2": "layers.*.norm2",
            f"{layer}.mlp.fc1": "layers.*.mlp.fc1",
            f"{layer}.mlp.activation_fn": "layers.*.mlp.act",
            f"{layer}.mlp.fc2": "layers.*.mlp.out",
            f"{layer}.add.1": "layers.*.out",
            "final_layer_norm": "out",
            "root.pooler_output": "pooled",
        },
        ops=["add", "matmul", "mul", "softmax"],
    )


if __name__ == "__main__":
    main(reference, source="transformers:CLIPTextModel")
