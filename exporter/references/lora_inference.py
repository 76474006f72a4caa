"""Goldens of a small causal transformer with LoRA on queries and values, named as peft names a saved adapter.

Run with: cargo xtask regenerate-fixtures lora/inference
"""

import torch
from torch import nn
from torch.nn import functional as F

from parity_export import main


class LoraLinear(nn.Module):
    """A linear layer with a product of two thin matrices beside it."""

    def __init__(self, dim, rank, alpha):
        super().__init__()
        self.base = nn.Linear(dim, dim, bias=False)
        self.lora_A = nn.Linear(dim, rank, bias=False)
        self.lora_B = nn.Linear(rank, dim, bias=False)
        self.scale = alpha / rank

    def forward(self, x):
        return self.base(x) + self.lora_B(self.lora_A(x)) * self.scale


class Block(nn.Module):
    def __init__(self, dim, hidden, heads, rank, alpha):
        super().__init__()
        self.norm1 = nn.RMSNorm(dim, eps=1e-6)
        self.q = LoraLinear(dim, rank, alpha)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = LoraLinear(dim, rank, alpha)
        self.o = nn.Linear(dim, dim, bias=False)
        self.norm2 = nn.RMSNorm(dim, eps=1e-6)
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)
        self.heads = heads

    def forward(self, x):
        normed = self.norm1(x)
        q, k, v = (
            layer(normed).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        probs = scores.masked_fill(hidden, float("-inf")).softmax(dim=-1)
        x = x + self.o((probs @ v).transpose(1, 2).flatten(2))
        return x + self.down(F.silu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self, vocab, dim, hidden, blocks, heads, rank, alpha):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim, hidden, heads, rank, alpha) for _ in range(blocks))
        self.norm = nn.RMSNorm(dim, eps=1e-6)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def reference(rec, batch=2, tokens=6, **sizes):
    """Token ids to logits, with the adapters beside their layers."""
    torch.manual_seed(0)
    model = Model(**sizes)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0) if parameter.ndim == 2 else parameter.add_(torch.randn_like(parameter) * 0.1)
    # The names of peft's files. Adapters come first, so that the weights leave them out.
    model = rec.adapters(model, alpha=sizes["alpha"], prefix="base_model.model.")
    model = rec.weights(model)
    rec.hook(model, {"embed": True, "blocks.*": "blocks.*.out", "blocks.*.q": True, "blocks.*.v": True, "head": True})
    model(rec.input("input_ids", torch.randint(0, model.embed.num_embeddings, (batch, tokens))))


if __name__ == "__main__":
    main(reference)
