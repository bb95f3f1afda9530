"""A private naive Bayes classifier under scikit-learn, and cross-validation at its exact price."""

from __future__ import annotations

import sys
from pathlib import Path

from sklearn.model_selection import train_test_split

import dpgraph as dg

sys.path.append(str(Path(__file__).parents[1] / "datasets"))
import export

DOMAIN = dg.read_domain(export.HERE / "affairs.toml")
TARGET = "affairs"


def main() -> None:
    """Fits at three budgets, evaluates each on respondents held out, then cross-validates and fits on one budget."""
    rows = export.rows("affairs")
    features, labels = rows.drop(columns=TARGET), rows[TARGET]
    # By position: a split by the labels would move others when one label changes.
    train, test, train_labels, test_labels = train_test_split(features, labels, test_size=0.25, random_state=0)
    print(f"Trained on {len(train)} respondents, evaluated on {len(test)}, who are private too: each evaluation is one")
    print("release at epsilon 1, and its 90 % intervals account for the noise and for sampling.")
    held_out = dg.Budget("3", unit=dg.PrivacyUnit("replace"))
    trained = dg.Budget("11.1", unit=dg.PrivacyUnit("replace"))  # three fits of the same people add up
    for epsilon in ("0.1", "1", "10"):
        model = dg.PrivateNaiveBayes(DOMAIN, epsilon=epsilon, budget=trained).fit(train, train_labels)
        evaluation = dg.evaluate(model, test, test_labels, epsilon="1", budget=held_out)
        shown = [f"{name} {s.estimate:.3f} ({s.low:.3f} to {s.high:.3f})" for name, s in evaluation.scores.items()]
        print(f"  {model.privacy_cost_!s:18} {', '.join(shown)}")
    print(f"Each model protects: {model.release_.unit}. The levels and labels come from the declared domain,")
    print("not from the rows.")

    budget = dg.Budget("3", unit=dg.PrivacyUnit("replace"))
    model = dg.PrivateNaiveBayes(DOMAIN, epsilon="0.5", budget=budget)
    found = dg.cross_validate(model, features, labels, folds=5, epsilon="2.5", training_epsilon="0.5", budget=budget)
    score = found.evaluation["accuracy"]
    print(
        f"\nCross-validation, five fits at epsilon {float(found.training_epsilon)}, one released score: {found.cost}."
    )
    print(f"Accuracy {score.estimate:.3f} ({score.low:.3f} to {score.high:.3f}), noise and sampling included.")
    print(
        "Folds do not depend on the rows, and each row is in four training sets of five: four fits and an evaluation."
    )
    model.fit(features, labels)
    print(f"The final fit is at the epsilon that was evaluated: {budget.spent} spent, {budget.remaining} left.")
    print("Shown: a private classifier, and cross-validation at its exact price, with scores that may be published.")


if __name__ == "__main__":
    main()
