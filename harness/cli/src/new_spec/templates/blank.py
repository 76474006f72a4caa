{{environment}}"""Goldens of {{model}}/{{component}}.

Run with: {{program}} regenerate-fixtures {{model}}/{{component}}
"""

from parity_export import main

# Import the reference here, at the top. A module that is imported inside the function is not tracked.


def reference(rec):
    """Fill in what the reference computes."""
    raise NotImplementedError(
        "fill in: the reference of {{model}}/{{component}} in {{script}}, an input, and one golden per checkpoint of the spec"
    )
    # x = rec.input("x", np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32))
    # w = rec.weights({"up": …})
    # rec.save("out", np.tanh(x @ w["up"]))


if __name__ == "__main__":
    main(reference)
