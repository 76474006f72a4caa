{{environment}}"""Goldens of {{model}}/{{component}}.

Run with: cargo xtask regenerate-fixtures {{model}}/{{component}}
"""

from parity_export import main

# Import the reference here, at the top: what is imported while the function runs is not watched.


def reference(rec):
    """Fill in what it computes."""
    raise NotImplementedError(
        "fill in: the reference of {{model}}/{{component}} in {{script}}, an input, and a golden for each checkpoint of the spec"
    )
    # x = rec.input("x", np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32))
    # w = rec.weights({"up": …})
    # rec.save("out", np.tanh(x @ w["up"]))


if __name__ == "__main__":
    main(reference)
