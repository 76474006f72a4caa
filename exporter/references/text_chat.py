"""Goldens of a chat template and of a byte-level BPE tokenizer, which is trained here on a few sentences.

Run with: cargo xtask regenerate-fixtures text/chat
"""

import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from parity_export import main

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# How Qwen2's tokenizer splits text into words.
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEXT = [
    "You are a helpful assistant. You answer in one short sentence.",
    "What is the capital of France? The capital of France is Paris.",
    "Write a function that adds two numbers:\n\n    def add(a, b):\n        return a + b\n",
    "A port of a model computes what its reference computes, token by token.",
    "user system assistant answer question sentence number model token text",
    "Où est la bibliothèque ? Grüße aus Köln. 東京は日本の首都です。",
    "It's 12:30, isn't it? We'll see at 17:45; they've got 3,141.59 of them.",
]


def reference(rec, vocabulary, template, conversations, batch, pad):
    """Each conversation as text and as ids, and a batch of texts that is filled up on the left."""
    tokenizer = trained(vocabulary)
    rec.input("tokenizer", as_bytes(tokenizer.to_str()))
    rec.accept("unused-input", "tokenizer", why="the reference makes it, and the port reads it")
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=pad, padding_side="left")
    for conversation in conversations:
        with rec.scope(conversation["name"]):
            rendered = fast.apply_chat_template(
                conversation["messages"], chat_template=template, tokenize=False, add_generation_prompt=True
            )
            rec.save("rendered", as_bytes(rendered))
            ids = fast(rendered, add_special_tokens=False)["input_ids"]
            rec.save("ids", np.array(ids, dtype=np.int32))
            decoded = fast.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
            rec.save("decoded", as_bytes(decoded))
    rows = fast(batch, padding=True, add_special_tokens=False)
    rec.save("batch.ids", np.array(rows["input_ids"], dtype=np.int32))
    rec.save("batch.mask", np.array(rows["attention_mask"], dtype=np.int32))


def trained(vocabulary):
    """A tokenizer that is built as Qwen2's is."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=SPECIAL,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    return tokenizer


def as_bytes(text):
    """A text as a tensor of its bytes in UTF-8."""
    return np.frombuffer(text.encode(), dtype=np.uint8).copy()


if __name__ == "__main__":
    main(reference, source="transformers:PreTrainedTokenizerFast")
