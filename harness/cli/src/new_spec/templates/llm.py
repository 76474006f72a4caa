{{environment}}"""Goldens of {{model}}/{{component}}.

Run with: {{program}} regenerate-fixtures {{model}}/{{component}}
"""

from parity_export import main

# Import the reference here, at the top. A module that is imported inside the function is not tracked.


def reference(rec, hidden_size=64, intermediate_size=96, layers=2, heads=4, kv_heads=2, vocab_size=61, tokens=7):
    """Logits of one prompt, given as token ids."""
    raise NotImplementedError(
        "fill in: the reference of {{model}}/{{component}} in {{script}}, its tiny config, and token ids"
    )
    # config = LlamaConfig(hidden_size=hidden_size, intermediate_size=intermediate_size, num_hidden_layers=layers,
    #                      num_attention_heads=heads, num_key_value_heads=kv_heads, vocab_size=vocab_size,
    #                      attn_implementation="eager")
    # model = rec.weights(LlamaForCausalLM(config).eval(), vary=0.1)   # saved; the port loads them
    # input_ids = rec.input("input_ids", torch.randint(0, vocab_size, (1, tokens)))
    # rec.hook(model, {"root": None, "**": True},                      # every module; only what the spec declares is kept
    #          ops=["softmax"], functions=["transformers.models.llama.modeling_llama:apply_rotary_pos_emb"],
    #          rename={"model": "", "self_attn": "attn", "apply_rotary_pos_emb": "rope"})
    # model(input_ids=input_ids, use_cache=False)


if __name__ == "__main__":
    main(reference)
