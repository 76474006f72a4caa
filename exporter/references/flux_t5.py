"""Goldens of a small T5 encoder, the long text encoder of Flux: every module, and the inside of attention.

Run with: cargo xtask regenerate-fixtures flux/t5
"""

import copy

import torch
from transformers import T5Config, T5EncoderModel, T5Tokenizer
from transformers.models.t5.modeling_t5 import T5Attention

from parity_export import main


def reference(rec, prompts, max_length, **config):
    """The prompts through tokeniser and encoder; the rest of the parameters is the model's own config."""
    config = T5Config(**config, is_encoder_decoder=False, attn_implementation="eager")
    model = rec.weights(T5EncoderModel(config).eval(), vary=0.1)
    unseen = copy.deepcopy(model)
    hook(rec, model)

    # The tokeniser is the real one, with a vocabulary of these prompts' words. Splitting a text is left to it: the port is
    # given the pieces, and puts the end and the padding there itself.
    words = sorted({word for prompt in prompts for word in prompt.split()})
    pieces = ["<pad>", "</s>", "<unk>", *(f"▁{word}" for word in words)]
    tokenizer = T5Tokenizer(vocab=[(piece, -1.0) for piece in pieces], extra_ids=0)
    texts = []
    for index, prompt in enumerate(prompts):
        tokens = tokenizer(prompt, add_special_tokens=False, return_tensors="pt")["input_ids"][0]
        texts.append(tokenizer.decode(rec.input(f"prompt.{index}", tokens.int())))
    batch = tokenizer(texts, padding="max_length", max_length=max_length, truncation=True, return_tensors="pt")
    ids = rec.save("ids", batch["input_ids"].int())
    mask = rec.save("mask", batch["attention_mask"].int())

    with torch.no_grad():
        model(input_ids=ids, attention_mask=mask)
        # Flux itself lets its prompts see their padding.
        rec.save("unmasked.out", unseen(input_ids=ids).last_hidden_state)

    # Further apart than any two tokens here.
    offsets = torch.arange(-160, 161)
    buckets = T5Attention._relative_position_bucket(
        offsets,
        num_buckets=config.relative_attention_num_buckets,
        max_distance=config.relative_attention_max_distance,
    )
    rec.save("far_buckets", buckets.int())


def hook(rec, model):
    block = "encoder.block.*"
    attention, mlp = f"{block}.layer.0", f"{block}.layer.1"
    first = "encoder.block.0.layer.0.SelfAttention"
    rec.hook(
        model,
        {
            "encoder.embed_tokens": "embed",
            f"{attention}.layer_norm": "blocks.*.norm1",
            f"{attention}.SelfAttention.q": "blocks.*.attn.q",
            f"{attention}.SelfAttention.k": "blocks.*.attn.k",
            f"{attention}.SelfAttention.v": "blocks.*.attn.v",
            # The first block computes the bias that all of them add, so its sums are counted differently.
            f"{first}.add.3": "blocks.0.attn.buckets",
            f"{first}.relative_attention_bias": "blocks.0.attn.bias",
            f"{first}.add.4": "blocks.0.attn.biased",
            f"{first}.add": None,
            f"{attention}.SelfAttention.matmul": "blocks.*.attn.scores",
            f"{attention}.SelfAttention.add": "blocks.*.attn.biased",
            f"{attention}.SelfAttention.softmax": "blocks.*.attn.probs",
            f"{attention}.SelfAttention.matmul.1": "blocks.*.attn.context",
            f"{attention}.SelfAttention.o": "blocks.*.attn.out",
            f"{attention}.add": "blocks.*.attended",
            f"{mlp}.layer_norm": "blocks.*.norm2",
            f"{mlp}.DenseReluDense.wi_0": "blocks.*.mlp.wi_0",
            f"{mlp}.DenseReluDense.act": "blocks.*.mlp.act",
            f"{mlp}.DenseReluDense.wi_1": "blocks.*.mlp.wi_1",
            f"{mlp}.DenseReluDense.mul": "blocks.*.mlp.gated",
            f"{mlp}.DenseReluDense.wo": "blocks.*.mlp.out",
            f"{mlp}.add": "blocks.*.out",
            "encoder.final_layer_norm": "out",
        },
        ops=["add", "matmul", "mul", "softmax"],
    )


if __name__ == "__main__":
    main(reference, source="transformers:T5EncoderModel")
