{{environment}}"""Goldens of {{model}}/{{component}}.

Run with: {{program}} regenerate-fixtures {{model}}/{{component}}
"""

from parity_export import main

# Import the reference here, at the top. A module that is imported inside the function is not tracked.


def reference(rec, dim=64, heads=4, layers=4, tokens=24):
    """One forward pass, without a loop over timesteps."""
    raise NotImplementedError(
        "fill in: the reference of {{model}}/{{component}} in {{script}}, its model, its inputs, and a hook per checkpoint of the spec"
    )
    # model = rec.weights(Transformer(…tiny…).eval(), vary=0.1)        # saved; the port loads them
    # hidden_states = rec.pin("hidden_states", torch.randn(1, tokens, dim))
    # timestep = rec.input("timestep", torch.tensor([0.5]))
    # rec.hook(model, {"blocks.0": "blocks.0.input"}, at="input")      # what the first block gets
    # rec.hook(model, {                                                # {{program}} regenerate-fixtures --list shows all names
    #     "x_embedder": "embed",
    #     "time_embed": True,
    #     "blocks.0.norm1": True,
    #     "blocks.0.attn.to_q": "blocks.0.attn.q",
    #     "blocks.0.attn.softmax": "blocks.0.attn.probs",              # with attn_implementation="eager"
    #     "blocks.0.attn": "blocks.0.attn.out",
    #     "blocks.0.add": "blocks.0.attn_residual",                    # hidden_states + attention
    #     "blocks.0.mlp": True,
    #     **{f"blocks.{i}": f"blocks.{i}.out" for i in range(0, layers, 2)},
    #     "norm_out": True,
    # }, ops=["softmax", "add"])
    # rec.save("out", model(hidden_states, timestep=timestep, return_dict=False)[0])


if __name__ == "__main__":
    main(reference)
