{{environment}}"""Goldens of {{model}}/{{component}}.

Run with: {{program}} regenerate-fixtures {{model}}/{{component}}
"""

from parity_export import main

# Import the reference here, at the top. A module that is imported inside the function is not tracked.


def reference(rec, channels=16, size=8):
    """Decodes latents."""
    raise NotImplementedError(
        "fill in: the reference of {{model}}/{{component}} in {{script}}, its model, the latents, and a hook per checkpoint of the spec"
    )
    # model = rec.weights(AutoencoderKL(…tiny…).eval(), vary=0.1)      # saved; the port loads them
    # latents = rec.pin("latents", torch.randn(1, 4, size, size))      # saved; the port gets the same
    # rec.hook(model.decoder, {                                        # {{program}} regenerate-fixtures --list shows all names
    #     "conv_in": True,
    #     "mid_block.resnets.0.norm1": "mid.resnets.0.norm1",
    #     "mid_block.resnets.0.conv1": "mid.resnets.0.conv1",
    #     "mid_block.attentions.0": "mid.attn",
    #     "mid_block": "mid.out",
    #     "up_blocks.*": "up.*.out",
    #     "conv_norm_out": "norm_out",
    # })
    # rec.save("image", model.decode(latents).sample)


if __name__ == "__main__":
    main(reference)
