"""Commands that use a model that is public already: predict, sample."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpgraph.cli.options import OUT, whole, writable
from dpgraph.cli.output import delivering, say
from dpgraph.waiting import at_terminal

if TYPE_CHECKING:
    import pandas as pd

    from dpgraph.structure.tables import Probabilities

#: Synthetic rows that are drawn and written at once, and their codes.
_MOST_ROWS, _MOST_CODES = 1 << 20, 1 << 26

RAW = click.option(
    "--raw",
    is_flag=True,
    help="Write CSV cells as they are; else one that a spreadsheet would run, such as =1+1, gets a ' before it.",
)


@click.command()
@click.argument("model")
@click.argument("rows", required=False)
@whole("--forecast", 1, help="Of a hidden Markov model: fields so far ahead.", metavar="STEPS")
@RAW
@OUT
def predict(model: str, rows: str | None, forecast: int | None, raw: bool, out: Path) -> None:
    """Predict the target of MODEL for each of ROWS: a CSV of labels and probabilities (naive Bayes), or of
    prediction, std and the ends of a 90 % interval (linear regression; of sampled weights the prediction alone).

    A hidden Markov model needs no ROWS: for each cell its likeliest state, that state's probability, and the state on
    its sequence's likeliest path. With ROWS, whose sequence and time columns name cells, the probabilities of the
    fields there; with --forecast those of a later step. Both have 90 % intervals.

    Programs that read the labels back need --raw if a level begins with = + - or @.
    """
    import pandas as pd

    from dpgraph.files.atomic_write import write_text
    from dpgraph.files.documents import load
    from dpgraph.files.spreadsheet import csv_text, harmless_frame
    from dpgraph.models.hmm import HiddenMarkovModel
    from dpgraph.models.naive_bayes import NaiveBayes, NaiveBayesEnsemble
    from dpgraph.models.regression import LinearRegressionModel
    from dpgraph.privacy.errors import InferenceError

    out = writable(out, ".csv")
    found = load(model, progress=True)
    hidden = isinstance(found, HiddenMarkovModel)
    if forecast is not None and not hidden:
        raise click.UsageError("--forecast STEPS is of a hidden Markov model; give ROWS in its place")
    if forecast is not None and rows is not None:
        raise click.UsageError("--forecast STEPS takes no ROWS: a forecast goes on from the last step; leave one out")
    if rows is None and not hidden:
        raise click.UsageError("ROWS are missing")
    match found:
        case HiddenMarkovModel() as fitted if forecast is not None:
            table = fitted.forecast(forecast)
        case HiddenMarkovModel() as fitted if rows is not None:
            table = fitted.predict_fields(rows, interval=0.9)
        case HiddenMarkovModel() as fitted:
            table = fitted.predict().assign(path=fitted.most_likely_path()["state"])
        case LinearRegressionModel() as fitted:
            table = fitted.frame(rows)
        case NaiveBayes() | NaiveBayesEnsemble() as fitted:
            probability, levels = fitted.predict_proba(rows), fitted.classes_.tolist()
            table = pd.DataFrame(probability, columns=[f"P({level})" for level in levels])
            table.insert(0, fitted.target, [levels[best] for best in probability.argmax(axis=1)])
        case fitted if callable(getattr(fitted, "predict", None)):
            table = pd.DataFrame({"prediction": fitted.predict(rows)})
        case _:
            raise InferenceError(f"{model} predicts nothing row by row; make a model with: dpgraph fit naive-bayes")
    text = csv_text(table if raw else harmless_frame(table))
    with delivering(out):
        write_text(out, text)
    say(f"wrote {out}")


@click.command()
@click.argument("model")
@click.option("-n", "n", type=int, required=True, help="How many rows.")
@whole("--seed", 0, help="A seed for the draw; the model is public already.")
@RAW
@OUT
def sample(model: str, n: int, seed: int | None, raw: bool, out: Path) -> None:
    """Draw synthetic rows from MODEL into a CSV or Parquet file; free. Of a hidden Markov model: entries of a log.

    A CSV file that is to be read as rows again needs --raw if a level or a name begins with = + - or @.
    """
    import numpy as np

    from dpgraph.files.atomic_write import write_frames
    from dpgraph.files.documents import load, probabilities_of
    from dpgraph.files.spreadsheet import harmless_frame
    from dpgraph.models.hmm import HiddenMarkovModel

    out = writable(out, ".csv", ".parquet")
    found, rng = load(model, progress=True), np.random.default_rng(seed)
    hidden = isinstance(found, HiddenMarkovModel)
    frames = iter([found.sample(n, rng)]) if hidden else _drawn(probabilities_of(found), n, rng)
    if not raw and out.suffix.lower() != ".parquet":
        frames = map(harmless_frame, frames)
    with delivering(out):
        write_frames(out, frames)
    say(f"wrote {out}")


def _drawn(probabilities: Probabilities, n: int, rng: Any) -> Iterator[pd.DataFrame]:
    """Synthetic rows, block by block, as one draw would hold them; a bar on a terminal."""
    from tqdm import tqdm

    from dpgraph.inference.network.queries import BLOCK, sample_rows

    wanted = _MOST_CODES // len(probabilities.network.domain.names)
    rows = max(BLOCK, min(_MOST_ROWS, wanted // BLOCK * BLOCK))
    shown = n > rows and at_terminal()
    with tqdm(total=n, desc="rows", unit_scale=True, disable=not shown) as bar:
        for start in range(0, max(n, 1), rows):
            part = min(rows, n - start)
            yield sample_rows(probabilities, part, rng, progress=not shown)
            bar.update(part)
