{{environment}}"""Goldens of {{model}}/{{component}}.

Run with: {{program}} regenerate-fixtures {{model}}/{{component}}
"""

from parity_export import main

# Import the reference here, at the top. A module that is imported inside the function is not tracked.


def reference(rec, steps=4):
    """All steps of a sampling run, without the model."""
    raise NotImplementedError(
        "fill in: the reference of {{model}}/{{component}} in {{script}}, its scheduler, and one model prediction per step"
    )
    # scheduler = rec.watch(FlowMatchEulerDiscreteScheduler(…))
    # scheduler.set_timesteps(steps)
    # rec.save("timesteps", scheduler.timesteps)
    # rec.save("sigmas", scheduler.sigmas)
    # sample = rec.pin("sample", torch.randn(1, 4, 8, 8))
    # for t in rec.axis("step", steps):                                # names inside are step.0.…, step.1.…
    #     velocity = rec.pin("velocity", torch.randn(1, 4, 8, 8))
    #     sample = rec.save("sample", scheduler.step(velocity, scheduler.timesteps[t], sample).prev_sample)


if __name__ == "__main__":
    main(reference)
