{{environment}}"""Goldens of {{model}}/{{component}}.

Run with: {{program}} regenerate-fixtures {{model}}/{{component}}
"""

from parity_export import main

# Import the reference here, at the top. A module that is imported inside the function is not tracked.


def reference(rec, dim=64, heads=4, layers=4, tokens=7):
    """Encodes one prompt, given as token ids."""
    raise NotImplementedError(
        "fill in: the reference of {{model}}/{{component}} in {{script}}, its model, token ids and mask, and a hook per checkpoint of the spec"
    )
    # config = T5Config(d_model=dim, num_heads=heads, num_layers=layers, attn_implementation="eager", …)
    # model = rec.weights(T5EncoderModel(config).eval(), vary=0.1)     # saved; the port loads them
    # input_ids = rec.input("input_ids", torch.randint(0, config.vocab_size, (1, tokens)))
    # attention_mask = rec.input("attention_mask", torch.tensor([[1] * (tokens - 2) + [0] * 2]))
    # rec.hook(model, {                                                # {{program}} regenerate-fixtures --list shows all names
    #     "encoder.embed_tokens": "embeddings",
    #     "encoder.block.0.layer.0.SelfAttention.softmax": "layers.0.attn.probs",
    #     "encoder.block.*": "layers.*.out",
    #     "encoder.final_layer_norm": "final_norm",
    # }, ops=["softmax"])
    # model(input_ids=input_ids, attention_mask=attention_mask)


if __name__ == "__main__":
    main(reference)
