# parity: environment = "numpy"
"""A second reference of `flow_match/euler`: the formulas of the schedules and of Euler's step, in float64.

It takes noise, image and velocities from the set that diffusers makes, and shares no code with it. It leaves out the
case in bfloat16, whose goldens depend on where diffusers rounds.
"""

import numpy as np

from parity_export import main

# What diffusers' scheduler assumes where a case says nothing.
DEFAULTS = {"shift": 1.0, "base_shift": 0.5, "max_shift": 1.15, "base_image_seq_len": 256, "max_image_seq_len": 4096}
TRAINED = 1000


def reference(rec, tokens, channels, cases):
    """Each schedule, and the samples on the way down."""
    noise, image, velocity = (rec.load(name).astype(np.float64) for name in ("noise", "image", "velocity"))
    for case in cases:
        if case.get("bfloat16"):
            continue
        with rec.scope(case["name"]):
            config = {**DEFAULTS, **case.get("config", {})}
            sigmas = schedule(rec, case, config)
            begin = case.get("begin", 0)
            sample = noise
            if begin:
                sample = rec.save("noised", sigmas[begin] * noise + (1 - sigmas[begin]) * image)
            for step in rec.axis("step", range(begin, case["steps"])):
                sample = rec.save("sample", sample + (sigmas[step + 1] - sigmas[step]) * velocity[step])


def schedule(rec, case, config):
    """The noise levels of a case, from pure noise to the clean image."""
    steps = case["steps"]
    if "image_tokens" in case:
        # A line through two sizes of images.
        slope = (config["max_shift"] - config["base_shift"]) / (
            config["max_image_seq_len"] - config["base_image_seq_len"]
        )
        mu = config["base_shift"] + slope * (case["image_tokens"] - config["base_image_seq_len"])
        rec.save("mu", np.array(mu))
        odds = mu if config.get("time_shift_type") == "linear" else np.exp(mu)
        sigmas = shifted(np.linspace(1, 1 / steps, steps), odds)
    else:
        # The last level of training is shifted, and the schedule that ends there is shifted again.
        last = shifted(1 / TRAINED, config["shift"])
        sigmas = shifted(np.linspace(1, last, steps), config["shift"])
    if "shift_terminal" in config:
        sigmas = 1 - (1 - sigmas) * (1 - config["shift_terminal"]) / (1 - sigmas[-1])
    share = np.linspace(0, 1, steps)
    if config.get("use_karras_sigmas"):
        sigmas = (sigmas[0] ** (1 / 7) * (1 - share) + sigmas[-1] ** (1 / 7) * share) ** 7
    if config.get("use_exponential_sigmas"):
        sigmas = sigmas[0] ** (1 - share) * sigmas[-1] ** share
    clean = 0.0
    if config.get("invert_sigmas"):
        sigmas, clean = 1 - sigmas, 1.0
    rec.save("timesteps", sigmas * TRAINED)
    return rec.save("sigmas", np.append(sigmas, clean))


def shifted(sigma, odds):
    """Multiplies the odds of noise against image."""
    return odds * sigma / (1 + (odds - 1) * sigma)


if __name__ == "__main__":
    main(reference)
