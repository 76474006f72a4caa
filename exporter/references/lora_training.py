"""Goldens of one training step of LoRA: two micro-batches, clipping by the global norm, and a step of AdamW.

Run with: cargo xtask regenerate-fixtures lora/training
"""

import torch
from torch import nn
from torch.nn import functional as F

from parity_export import main


class LoraLinear(nn.Module):
    """A frozen linear layer with a trained product of two thin matrices beside it."""

    def __init__(self, dim, rank, alpha):
        super().__init__()
        self.base = nn.Linear(dim, dim, bias=False)
        self.lora_a = nn.Parameter(torch.randn(rank, dim) * 0.3)
        # In a fresh adapter B is zero, and so is the gradient of A. This one was trained before.
        self.lora_b = nn.Parameter(torch.randn(dim, rank) * 0.3)
        self.scale = alpha / rank

    def forward(self, x):
        return self.base(x) + x @ self.lora_a.T @ self.lora_b.T * self.scale


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


def reference(rec, micro_batches=2, batch=2, tokens=6, lr=1e-2, weight_decay=0.01, max_norm=0.5, **sizes):
    """Gradients of two micro-batches add up to their mean, are clipped together, and move the adapters alone."""
    torch.manual_seed(0)
    model = Model(**sizes)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0) if parameter.ndim == 2 else parameter.add_(torch.randn_like(parameter) * 0.1)
    model = rec.weights(model)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.rpartition(".")[2].startswith("lora_"))
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    optimizer = torch.optim.AdamW(trained.values(), lr=lr, weight_decay=weight_decay)
    rec.hook(model, {"embed": True, "blocks.*": "blocks.*.out", "blocks.*.q": True, "blocks.*.v": True, "head": True})

    for i in rec.axis("micro", micro_batches):
        ids = rec.input("input_ids", torch.randint(0, model.embed.num_embeddings, (batch, tokens)))
        with torch.enable_grad():
            logits = model(ids)
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()) / micro_batches
        rec.save("loss", loss)
        if i < micro_batches - 1:
            loss.backward()
    rec.gradients(loss, model)
    nn.utils.clip_grad_norm_(trained.values(), max_norm, foreach=False)
    rec.save_each("clipped", {name: parameter.grad for name, parameter in trained.items()})
    rec.step(optimizer)


if __name__ == "__main__":
    main(reference)
