{{environment}}"""Goldens of {{model}}/{{component}}.

Run with: {{program}} regenerate-fixtures {{model}}/{{component}}
"""

from parity_export import main

# Import the reference here, at the top. A module that is imported inside the function is not tracked.


def reference(rec, text="What is the capital of France?"):
    """A conversation as text, as ids, and as text again."""
    raise NotImplementedError(
        "fill in: the reference of {{model}}/{{component}} in {{script}}, its tokenizer, its chat template, and conversations"
    )
    # tokenizer = AutoTokenizer.from_pretrained(…)
    # rec.input("tokenizer", as_bytes(tokenizer.backend_tokenizer.to_str()))
    # messages = [{"role": "user", "content": text}]
    # rendered = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    # rec.save("rendered", as_bytes(rendered))                         # np.frombuffer(text.encode(), np.uint8).copy()
    # ids = tokenizer(rendered, add_special_tokens=False)["input_ids"]
    # rec.save("ids", np.array(ids, dtype=np.int32))
    # rec.save("decoded", as_bytes(tokenizer.decode(ids, skip_special_tokens=True)))


if __name__ == "__main__":
    main(reference)
