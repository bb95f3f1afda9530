"""Fitted hidden Markov models: what their class does not check itself."""

from __future__ import annotations

from typing import get_args

import numpy as np

from dpgraph.files.codecs import structural
from dpgraph.inference.markov.sampler import Inference, Sampler
from dpgraph.models.hmm import HiddenMarkovModel
from dpgraph.privacy.errors import FileError
from dpgraph.privacy.records import Provenance


def _check_model(model: HiddenMarkovModel, provenance: Provenance | None) -> None:
    if model.inference not in (*get_args(Inference), "private-gibbs") or model.sampler not in get_args(Sampler):
        raise FileError("the inference or the sampler is not one of dpgraph's")
    if model.states.size == 0 or np.abs(model.states).max() > np.iinfo(np.int16).max:
        raise FileError("the states are not those of a model")


plain_markov_model, markov_model_of = structural(HiddenMarkovModel, _check_model)
