"""A private naive Bayes classifier under scikit-learn, and what cross-validation really costs."""

from __future__ import annotations

import sys
from pathlib import Path

from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_score, train_test_split

import dpgraph as dg

sys.path.append(str(Path(__file__).parents[1] / "datasets"))
import export

DOMAIN = dg.read_domain(export.HERE / "affairs.toml")
TARGET = "affairs"


def main() -> None:
    """Fits at three budgets, then cross-validates on one shared budget."""
    rows = export.rows("affairs")
    features, labels = rows.drop(columns=TARGET), rows[TARGET]
    train, test, train_labels, test_labels = train_test_split(
        features, labels, test_size=0.25, stratify=labels, random_state=0
    )
    share = (test_labels == "no").mean()
    print(f"Trained on {len(train)} respondents, tested on {len(test)}, of whom {share:.3f} had no affair.")
    for epsilon in ("0.1", "1", "10"):
        model = dg.PrivateNaiveBayes(DOMAIN, epsilon=epsilon).fit(train, train_labels)
        loss = log_loss(test_labels, model.predict_proba(test), labels=model.classes_)
        print(f"  {model.privacy_cost_!s:18} accuracy {model.score(test, test_labels):.3f}  log-loss {loss:.3f}")
    print(f"Each model protects: {model.release_.unit}. The levels and labels come from the declared domain,")
    print("not from the rows. The scores are exact functions of private test rows: for study, not for publication.")

    budget = dg.Budget("1", unit=dg.PrivacyUnit("replace"))
    shared = dg.PrivateNaiveBayes(DOMAIN, epsilon="0.2", budget=budget)
    scores = cross_val_score(shared, features, labels, cv=5)
    print(
        f"\nFive folds at epsilon 0.2 each: accuracy {scores.mean():.3f} on average. The folds are clones of one model,"
    )
    print(f"and clones share its budget: {len(budget.events)} releases, {budget.spent} spent, {budget.remaining} left.")
    try:
        shared.fit(features, labels)
    except dg.BudgetExceededError as error:
        print(f"The final fit is refused: {error}")
    print("Shown: a private classifier, and cross-validation counted in full; leave room for the final fit.")


if __name__ == "__main__":
    main()
