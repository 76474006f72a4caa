"""Goldens of diffusers' Euler scheduler for flow matching: each way of spacing its sigmas, and every step.

Run with: cargo xtask regenerate-fixtures flow_match/euler
"""

import numpy as np
import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from diffusers.pipelines.flux.pipeline_flux import calculate_shift

from parity_export import main


def reference(rec, tokens, channels, cases):
    """Every case makes its schedule and then walks down it, with velocities that are inputs."""
    steps = max(case["steps"] for case in cases)
    given = {
        "noise": torch.randn(1, tokens, channels),
        "image": torch.randn(1, tokens, channels),
        "velocity": torch.randn(steps, 1, tokens, channels),
    }
    given = {name: rec.input(name, tensor) for name, tensor in given.items()}
    rounded = {
        name: rec.input(f"{name}_bf16", given[name].to(torch.bfloat16)) for name in ("noise", "velocity")
    }
    for case in cases:
        with rec.scope(case["name"]):
            walk(rec, case, {**given, **rounded} if case.get("bfloat16") else given)


def walk(rec, case, given):
    scheduler = FlowMatchEulerDiscreteScheduler(**case.get("config", {}))
    rec.watch(scheduler)
    if "image_tokens" in case:
        config = scheduler.config
        # As the pipelines of Flux and Qwen-Image call it.
        mu = calculate_shift(
            case["image_tokens"],
            config.base_image_seq_len,
            config.max_image_seq_len,
            config.base_shift,
            config.max_shift,
        )
        rec.save("mu", np.array(mu, dtype=np.float32))
        sigmas = np.linspace(1.0, 1 / case["steps"], case["steps"])
        scheduler.set_timesteps(sigmas=sigmas, mu=mu)
    else:
        scheduler.set_timesteps(case["steps"])
    rec.save("sigmas", scheduler.sigmas)
    rec.save("timesteps", scheduler.timesteps)

    begin = case.get("begin")
    sample = given["noise"]
    if begin is not None:
        scheduler.set_begin_index(begin)
        timestep = scheduler.timesteps[begin : begin + 1]
        sample = rec.save("noised", scheduler.scale_noise(given["image"], timestep, given["noise"]))
    for step in rec.axis("step", range(begin or 0, case["steps"])):
        timestep = scheduler.timesteps[step]
        sample = rec.save("sample", scheduler.step(given["velocity"][step], timestep, sample).prev_sample)


if __name__ == "__main__":
    main(reference, source="diffusers:FlowMatchEulerDiscreteScheduler")
