"""The mechanisms and formulas of the three papers dpgraph starts from, where the defaults depart from them.

Zhang, Rubinstein and Dimitrakakis 2016; Foulds, Geumlek, Welling and Chaudhuri 2016; Bernstein and Sheldon 2018. Beside
each name below is the section, theorem or algorithm; docs/papers.md maps every numbered result to its name here and
says where we depart. Names are imported when they are first used.

>>> import dpgraph as dg
>>> bound = dg.papers.count_error_bound(cells=36, scale=16.0, delta=0.1)  # Zhang et al. 2016, Proposition 1
>>> bound.exact
93
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpgraph.lazy import lazy_names

#: The module of each name; after a colon, what it is called there.
_HOMES = {
    # Zhang, Rubinstein and Dimitrakakis 2016
    "count_error_bound": "analysis.bounds",  # Proposition 1
    "NoiseBound": "analysis.bounds",  # what it returns
    "divergence_bound": "analysis.bounds",  # Theorem 1
    "DivergenceBound": "analysis.bounds",  # what it returns
    "corrected_divergence_bound": "analysis.bounds",  # what can be proved in place of Theorem 1
    "dirichlet_divergence": "analysis.bounds",  # what Theorem 1 bounds
    "expected_divergence": "analysis.bounds",  # its exact mean
    "FourierMechanism": "mechanisms.additive.fourier",  # Algorithm 2
    "walsh_transform": "structure.basis",  # Theorem 2
    "fourier_error_bound": "mechanisms.additive.fourier:theorem_3_bound",  # Theorem 3
    "PosteriorSample": "mechanisms.selection.posterior_sample",  # section 4, Theorem 4 (1)
    "lipschitz_constant": "mechanisms.selection.lipschitz",  # Lemma 2
    "lipschitz_failure_bound": "mechanisms.selection.lipschitz",  # Lemma 3
    "stochastic_lipschitz_bound": "mechanisms.selection.lipschitz",  # Theorem 4 (2)
    "MapEstimate": "mechanisms.selection.map_estimate",  # Algorithm 3
    "map_failure_bound": "mechanisms.selection.map_estimate",  # Lemma 4
    "map_loss_bound": "mechanisms.selection.map_estimate",  # Lemma 4 on a finite grid
    "RegressionSample": "mechanisms.selection.regression_sample",  # Appendix D
    "SampledWeights": "structure.sampled_weights",  # what it releases
    "SampledRegressionModel": "models.sampled_regression",  # what predicts from them
    # Foulds, Geumlek, Welling and Chaudhuri 2016
    "GibbsSample": "mechanisms.selection.gibbs_sample",  # sections 4.1 and 5
    "MarkovSweeps": "structure.markov",  # what it releases
    "sampled_markov_model": "models.markov_sweeps",  # section 5, from the sweeps of GibbsSample
    "gibbs_update_cost": "mechanisms.selection.private_gibbs",  # section 4.1, equations 18 to 20
    "gibbs_sweep_cost": "mechanisms.selection.private_gibbs",  # section 4.1, parallel composition
    "random_scan_cost": "mechanisms.selection.private_gibbs",  # section 4.1, without the discount
    "composed_cost": "mechanisms.selection.private_gibbs",  # sections 2.1 and 4.1, advanced composition
    "approximate_sample_cost": "mechanisms.selection.private_gibbs",  # Proposition 3
    "barker_step": "mechanisms.selection.annealing",  # section 4, Metropolis-Hastings
    "barker_cost": "mechanisms.selection.private_gibbs",  # its cost
    "annealed_path": "mechanisms.selection.annealing",  # section 4, annealed importance sampling
    "AnnealedPath": "mechanisms.selection.annealing",  # what it returns
    "annealed_cost": "mechanisms.selection.private_gibbs",  # its cost
    "annealed_weight_sensitivity": "mechanisms.selection.private_gibbs",  # of its log importance weight
    # Bernstein and Sheldon 2018
    "moments_posterior": "inference.expfam.posterior",  # Algorithms 1 to 3, corrected
}

__all__ = [
    "AnnealedPath",
    "DivergenceBound",
    "FourierMechanism",
    "GibbsSample",
    "MapEstimate",
    "MarkovSweeps",
    "NoiseBound",
    "PosteriorSample",
    "RegressionSample",
    "SampledRegressionModel",
    "SampledWeights",
    "annealed_cost",
    "annealed_path",
    "annealed_weight_sensitivity",
    "approximate_sample_cost",
    "barker_cost",
    "barker_step",
    "composed_cost",
    "corrected_divergence_bound",
    "count_error_bound",
    "dirichlet_divergence",
    "divergence_bound",
    "expected_divergence",
    "fourier_error_bound",
    "gibbs_sweep_cost",
    "gibbs_update_cost",
    "lipschitz_constant",
    "lipschitz_failure_bound",
    "map_failure_bound",
    "map_loss_bound",
    "moments_posterior",
    "random_scan_cost",
    "sampled_markov_model",
    "stochastic_lipschitz_bound",
    "walsh_transform",
]

if TYPE_CHECKING:
    from dpgraph.analysis.bounds import (
        DivergenceBound,
        NoiseBound,
        corrected_divergence_bound,
        count_error_bound,
        dirichlet_divergence,
        divergence_bound,
        expected_divergence,
    )
    from dpgraph.inference.expfam.posterior import moments_posterior
    from dpgraph.mechanisms.additive.fourier import FourierMechanism
    from dpgraph.mechanisms.additive.fourier import theorem_3_bound as fourier_error_bound
    from dpgraph.mechanisms.selection.annealing import AnnealedPath, annealed_path, barker_step
    from dpgraph.mechanisms.selection.gibbs_sample import GibbsSample
    from dpgraph.mechanisms.selection.lipschitz import (
        lipschitz_constant,
        lipschitz_failure_bound,
        stochastic_lipschitz_bound,
    )
    from dpgraph.mechanisms.selection.map_estimate import MapEstimate, map_failure_bound, map_loss_bound
    from dpgraph.mechanisms.selection.posterior_sample import PosteriorSample
    from dpgraph.mechanisms.selection.private_gibbs import (
        annealed_cost,
        annealed_weight_sensitivity,
        approximate_sample_cost,
        barker_cost,
        composed_cost,
        gibbs_sweep_cost,
        gibbs_update_cost,
        random_scan_cost,
    )
    from dpgraph.mechanisms.selection.regression_sample import RegressionSample
    from dpgraph.models.markov_sweeps import sampled_markov_model
    from dpgraph.models.sampled_regression import SampledRegressionModel
    from dpgraph.structure.basis import walsh_transform
    from dpgraph.structure.markov import MarkovSweeps
    from dpgraph.structure.sampled_weights import SampledWeights


__getattr__, __dir__ = lazy_names(__name__, _HOMES)
