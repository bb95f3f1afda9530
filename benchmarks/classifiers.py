"""Log-loss of PrivateClassifier beside naive Bayes, the learned network and the base rate, on held-out rows.

    python benchmarks/classifiers.py [--tables adult,titanic] [--seeds 10] [--settings "1:1e-6,0.1:0"] [--data FOLDER]

Adult, mushroom, titanic, votes, CPS and PUMS from a folder of yours (columns of more than 16 levels in equal public
bins, but for the country); rows sampled from bundled networks, and anes96, anywhere. Three quarters of the rows are
fitted. Constants were set by looking at adult's income, titanic, votes, child and asia; ``JUDGED`` were not looked at.
``--peers`` needs ``pip install diffprivlib opacus "scikit-learn==1.6.1"`` for all of them.
Printed: means over seeds with their standard deviation, the calibration error over ten bins, and seconds of a fit.
"""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

import dpgraph as dg

DATA = Path(__file__).parents[2] / "shared" / "data"
MOST = 16


def adult(target: str) -> tuple[pd.DataFrame, dict[str, int], str]:
    """Adult's rows."""
    rows, sizes = pd.read_csv(DATA / "adult.csv"), json.loads((DATA / "adult-domain.json").read_text())
    for name, size in sizes.items():
        if size > MOST and name != "native-country":
            width = -(-size // MOST)
            rows[name], sizes[name] = rows[name] // width, -(-size // width)
    return rows, sizes, target


def coded(frame: pd.DataFrame, target: str) -> tuple[pd.DataFrame, dict[str, int], str]:
    """Rows as codes."""
    found = {str(name): pd.factorize(column.astype(str), sort=True) for name, column in frame.items()}
    return (
        pd.DataFrame({name: codes for name, (codes, _) in found.items()}),
        {n: len(u) for n, (_, u) in found.items()},
        target,
    )


def titanic() -> tuple[pd.DataFrame, dict[str, int], str]:
    """Titanic's passengers."""
    rows = pd.read_csv(DATA / "titanic_survival.csv").iloc[:, 1:]
    rows["age"] = pd.cut(rows["age"].fillna(-1), [-2, 0, 10, 20, 30, 40, 60, 100]).astype(str)
    return coded(rows, "survived")


def mushroom() -> tuple[pd.DataFrame, dict[str, int], str]:
    """Mushrooms, edible or not."""
    return coded(pd.read_csv(DATA / "mushroom.csv"), "class")


def votes() -> tuple[pd.DataFrame, dict[str, int], str]:
    """Congressional votes."""
    return coded(pd.read_csv(DATA / "house_votes_84.csv"), "party")


def cps() -> tuple[pd.DataFrame, dict[str, int], str]:
    """Workers of the Current Population Survey of 1988."""
    rows = pd.read_csv(DATA / "cps1988.csv").iloc[:, 1:]
    rows["wage"] = pd.cut(rows["wage"], [0, 100, 200, 300, 400, 500, 600, 800, 1000, 1500, 99999])
    rows["education"] = pd.cut(rows["education"], [-1, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 99])
    rows["experience"] = pd.cut(rows["experience"], [-9, 2, 5, 10, 15, 20, 25, 30, 40, 99])
    return coded(rows, "parttime")


def pums() -> tuple[pd.DataFrame, dict[str, int], str]:
    """Californians."""
    rows = pd.read_csv(DATA / "pums_ca_1000.csv")
    rows["income"] = pd.cut(rows["income"], [-1e9, 0, 1e4, 2e4, 3e4, 5e4, 8e4, 1e9])
    return coded(rows.assign(age=rows["age"] // 10), "married")


def anes96() -> tuple[pd.DataFrame, dict[str, int], str]:
    """Voters; wide columns in eight bins of their ranks."""
    rows = dg.datasets.load("anes96")
    wide = [name for name in rows if rows[name].nunique() > MOST]
    ranks = {name: pd.qcut(rows[name].rank(method="first"), 8, labels=False) for name in wide}
    return coded(rows.assign(**ranks), "vote")


def sampled(network: str, target: str, n: int = 5000) -> tuple[pd.DataFrame, dict[str, int], str]:
    """Rows of a bundled network."""
    rows = dg.sample_rows(dg.load(f"example:{network}"), n, 5)
    return coded(rows, target)


TABLES: dict[str, Any] = {
    "adult": lambda: adult("income>50K"),
    "adult-marital": lambda: adult("marital-status"),
    "adult-sex": lambda: adult("sex"),
    "titanic": titanic,
    "votes": votes,
    "mushroom": mushroom,
    "asia": lambda: sampled("asia", "lung"),
    "child": lambda: sampled("child", "Disease"),
    "alarm": lambda: sampled("alarm", "LVFAILURE"),
    "insurance": lambda: sampled("insurance", "PropCost"),
    "anes96": anes96,
    "pums": pums,
    "cps": cps,
}
#: No constant was set by these.
JUDGED = ("anes96", "pums", "mushroom", "alarm", "insurance", "cps", "adult-sex", "adult-marital")


def log_loss(found: Any, truth: Any) -> float:
    """The mean loss in nats."""
    return float(-np.log(np.maximum(np.asarray(found)[np.arange(len(truth)), truth], 1e-12)).mean())


def off(found: Any, truth: Any) -> float:
    """The mean distance of what a label's probability says from its share, over ten parts of the rows."""
    label = np.ones(len(truth), int) if found.shape[1] == 2 else found.argmax(axis=1)
    said = found[np.arange(len(truth)), label]
    parts = np.array_split(np.argsort(said), 10)
    return float(np.mean([abs(said[part].mean() - (truth == label)[part].mean()) for part in parts]))


def losses(
    rows: pd.DataFrame, sizes: dict[str, int], target: str, epsilon: float, delta: float, unit: Any, seed: int
) -> dict[str, float]:
    """The losses of one split."""
    order = np.random.default_rng(seed).permutation(len(rows))
    train, held = rows.iloc[order[: len(rows) * 3 // 4]], rows.iloc[order[len(rows) * 3 // 4 :]]
    domain = {name: list(range(size)) for name, size in sizes.items()}
    features, truth = [name for name in sizes if name != target], held[target].to_numpy()
    start = time.perf_counter()
    model = dg.PrivateClassifier(domain, target, epsilon, delta, unit=unit).fit(train[features], train[target])
    found = {"seconds": time.perf_counter() - start}
    said = model.predict_proba(held[features])
    found |= {"classifier": log_loss(said, truth), "off": off(said, truth)}
    how = dg.GaussianMechanism(epsilon, delta) if delta else "laplace"
    naive = dg.PrivateNaiveBayes(domain, epsilon, how, "plug-in", target=target, unit=unit)
    found["naive"] = log_loss(naive.fit(train[features], train[target]).predict_proba(held[features]), truth)
    network = dg.learn_network(train, domain, epsilon=epsilon, delta=delta, unit=unit)
    found["network"] = log_loss(dg.classifier(network.probabilities, target).predict_proba(held[features]), truth)
    base = np.bincount(train[target], minlength=sizes[target]) / len(train)
    return found | {"base": log_loss(np.tile(base, (len(truth), 1)), truth)}


#: Steps and rate of DP-SGD, and 1 over the penalty of diffprivlib's regression: tried on Adult's income, split 100.
TRIED = {0.01: (30, 0.5, 1e-5), 0.1: (300, 0.3, 1e-4), 1: (100, 10, 0.01), 10: (100, 30, 0.01)}


def rivals(
    rows: pd.DataFrame, sizes: dict[str, int], target: str, epsilon: float, delta: float, unit: Any, seed: int
) -> dict[str, float]:
    """The losses of other libraries where they are installed, and without privacy, on the split of ``losses``.

    Their settings are those that did best on held-out rows of split 100, which nobody was charged for.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import CategoricalNB

    order = np.random.default_rng(seed).permutation(len(rows))
    train, held = order[: len(rows) * 3 // 4], order[len(rows) * 3 // 4 :]
    features = [name for name in sizes if name != target]
    codes, label = rows[features].to_numpy(), rows[target].to_numpy()
    hot = np.hstack([np.eye(sizes[name], dtype=np.float32)[rows[name]] for name in features])
    most = np.array([sizes[name] for name in features])
    steps, rate, loose = TRIED[min(TRIED, key=lambda one: abs(np.log(one / epsilon)))]
    models: dict[str, tuple[Any, Any]] = {
        "plain naive": (CategoricalNB(min_categories=most), codes),
        "plain logistic": (LogisticRegression(max_iter=1000), hot),
        "plain boosting": (HistGradientBoostingClassifier(), codes),
    }
    try:
        import diffprivlib.models as theirs

        given = {"epsilon": epsilon, "data_norm": len(features) ** 0.5, "random_state": seed}
        naive = theirs.GaussianNB(epsilon=epsilon, bounds=(np.zeros(len(most)), most - 1), random_state=seed)
        models["diffprivlib naive"] = (naive, codes.astype(float))
        models["diffprivlib logistic"] = (theirs.LogisticRegression(**given), hot)
        models["diffprivlib logistic, tried"] = (theirs.LogisticRegression(C=loose, **given), hot)
    except ImportError:
        print("no diffprivlib; skipped")
    fitted = {name: (model.fit(X[train], label[train]), X) for name, (model, X) in models.items()}
    found = {name: log_loss(model.predict_proba(X[held]), label[held]) for name, (model, X) in fitted.items()}
    if delta and sizes[target] == 2:
        try:
            said = sgd(hot[train], label[train], hot[held], epsilon, delta, steps, rate, seed)
            found["DP-SGD"] = log_loss(np.column_stack([1 - said, said]), label[held])
        except ImportError:
            print("no opacus; skipped")
    return found


def sgd(X: Any, y: Any, held: Any, epsilon: float, delta: float, steps: int, rate: float, seed: int) -> Any:
    """Logistic regression by opacus, all rows in each step: together a Gaussian mechanism, priced exactly.

    A row's gradient is at most 1 long, so that nothing is clipped; add-remove with the number of rows public.
    """
    import torch
    from opacus import PrivacyEngine
    from scipy.optimize import brentq
    from scipy.special import ndtr

    def slack(mu: float) -> float:
        return float(ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu) - delta)

    torch.manual_seed(seed)
    scale, mu = np.float32((held[0].sum() + 1) ** 0.5), brentq(slack, 1e-4, 50)
    net: Any = torch.nn.Linear(X.shape[1], 1)
    for one in net.parameters():
        torch.nn.init.zeros_(one)
    moves: Any = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9)
    rows = torch.utils.data.TensorDataset(torch.tensor(X / scale), torch.tensor(y, dtype=torch.float32))
    loader: Any = torch.utils.data.DataLoader(rows, batch_size=len(rows))
    noise = {"noise_multiplier": steps**0.5 / mu, "max_grad_norm": 1.0, "poisson_sampling": False}
    net, moves, loader = PrivacyEngine().make_private(module=net, optimizer=moves, data_loader=loader, **noise)
    ((inputs, labels),) = loader
    for _ in range(steps):
        moves.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(net(inputs)[:, 0], labels).backward()
        moves.step()
    with torch.no_grad():
        return torch.sigmoid(net(torch.tensor(held / scale))[:, 0]).numpy()


@click.command()
@click.option("--tables", default=",".join(TABLES), show_default=True)
@click.option("--settings", default="1:1e-6,0.1:1e-6,0.01:1e-6,1:0,0.1:0,0.01:0", show_default=True)
@click.option("--seeds", default=10, show_default=True)
@click.option("--unit", default="add-remove", show_default=True)
@click.option("--data", default=DATA, type=Path, show_default=True)
@click.option("--peers", is_flag=True, help="Other libraries, and no privacy, in place of dpgraph.")
def main(tables: str, settings: str, seeds: int, unit: str, data: Path, peers: bool) -> None:
    """Prints a line for each table and setting."""
    global DATA
    DATA = data
    judge = rivals if peers else losses
    warnings.simplefilter("ignore")
    for name in tables.split(","):
        try:
            rows, sizes, target = TABLES[name]()
        except FileNotFoundError:
            print(f"{name}: no data; skipped")
            continue
        for setting in settings.split(","):
            epsilon, delta = map(float, setting.split(":"))
            made = [judge(rows, sizes, target, epsilon, delta, dg.PrivacyUnit(unit), seed) for seed in range(seeds)]
            table = pd.DataFrame(made)
            means = " ".join(f"{one} {table[one].mean():.3f} ({table[one].std():.3f})" for one in table)
            print(f"{name} epsilon {epsilon:g} delta {delta:g} {unit} n {len(rows) * 3 // 4}: {means}", flush=True)


if __name__ == "__main__":
    main()
