"""A private linear regression: what it will cost, the fit, and whether its intervals hold."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd

import dpgraph as dg

#: Public: what each column may be, never read off the rows.
FEATURES = {"age": (15, 65), "education": (0, 25), "log_income": (4, 12)}

#: Public guesses of how wide each column's values lie, as parts of half its bounds: narrow ones are known worse.
SPREADS = {"age": 0.58, "education": 0.25, "log_income": 0.25}


def main() -> None:
    """Runs the example on simulated rows, whose coefficients are known."""
    rng = np.random.default_rng(0)
    n = 20_000
    rows = pd.DataFrame(
        {
            "age": rng.uniform(15, 65, n),
            "education": rng.normal(12, 3, n).clip(0, 25),
            "log_income": rng.normal(9, 1, n).clip(4, 12),
        }
    )
    truth = {"age": 0.06, "education": 0.1, "log_income": -0.3}
    visits = 4 + sum(rows[name] * slope for name, slope in truth.items()) + rng.normal(0, 1.5, n)

    design = dg.LinearDesign(FEATURES, "visits", (0, 12))
    print("Before any row: the standard error of each coefficient, with privacy and without.")
    moments = np.diag([1.0, *(spread**2 for spread in SPREADS.values())])
    expected = dg.privacy_cost(design, epsilon=1, n=n, spread=1.8, noise=0.7, second_moments=moments)
    print(expected.round(4).to_string(index=False), "\n")

    train, test = slice(0, 16_000), slice(16_000, n)
    model = dg.PrivateLinearRegression(FEATURES, (0, 12), epsilon=1, draws=1000)
    with warnings.catch_warnings():
        # A short run; diagnostics_ says how well it mixed.
        warnings.simplefilter("ignore", dg.errors.ConvergenceWarning)
        warnings.simplefilter("ignore", dg.errors.PriorWarning)  # the column prior says how much of each is prior
        model.fit(rows[train], visits[train])
    print(model.release_.provenance)
    print(model.coefficients_.round(3), "\n")

    evaluation = dg.evaluate(model, rows[test], visits[test], epsilon=1, budget=dg.Budget(1))
    print("Rows held out are private too. Their scores, from one release at epsilon 1, with 90 % intervals:")
    print(evaluation.to_frame().round(3).to_string(index=False), "\n")

    # Of real rows this would be an exact function of private rows: these are simulated.
    ends = model.predict_interval(rows[test], 0.9)
    inside = ((ends[:, 0] <= visits[test]) & (visits[test] <= ends[:, 1])).mean()
    held = sum(model.coefficients_.loc[name, "lower"] <= slope <= model.coefficients_.loc[name, "upper"]
               for name, slope in truth.items())  # fmt: skip
    print(
        f"Shown: scores of new rows, released; predictive intervals at 90 % hold {inside:.0%} of these simulated rows,"
    )
    print(f"and {held} of the {len(truth)} true coefficients.")


if __name__ == "__main__":
    main()
