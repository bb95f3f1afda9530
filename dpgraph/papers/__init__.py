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
    "count_error_bound": "papers.zhang",  # Proposition 1
    "NoiseBound": "papers.zhang",  # what it returns
    "divergence_bound": "papers.zhang",  # Theorem 1
    "DivergenceBound": "papers.zhang",  # what it returns
    "corrected_divergence_bound": "papers.zhang",  # what can be proved in place of Theorem 1
    "dirichlet_divergence": "papers.zhang",  # what Theorem 1 bounds
    "expected_divergence": "papers.zhang",  # its exact mean
    "error_bounds": "papers.zhang",  # all bounds at one budget, beside what they bound
    "FourierMechanism": "mechanisms.additive.fourier",  # Algorithm 2
    "walsh_transform": "structure.basis",  # Theorem 2
    "fourier_error_bound": "mechanisms.additive.fourier:theorem_3_bound",  # Theorem 3
    "PosteriorSample": "mechanisms.selection.posterior_sample",  # section 4, Theorem 4 (1)
    "lipschitz_constant": "mechanisms.selection.lattice",  # Lemma 2
    "lipschitz_failure_bound": "papers.zhang",  # Lemma 3
    "stochastic_lipschitz_bound": "papers.zhang",  # Theorem 4 (2)
    "MapEstimate": "mechanisms.selection.map_estimate",  # Algorithm 3
    "map_failure_bound": "mechanisms.selection.map_estimate",  # Lemma 4
    "map_loss_bound": "mechanisms.selection.map_estimate",  # Lemma 4 on a finite grid
    "RegressionSample": "papers.regression_sample",  # Appendix D
    "SampledWeights": "papers.regression_sample",  # what it releases
    "SampledRegressionModel": "papers.regression_sample",  # what predicts from them
    # Foulds, Geumlek, Welling and Chaudhuri 2016
    "GibbsSample": "papers.gibbs_sample",  # sections 4.1 and 5
    "MarkovSweeps": "papers.gibbs_sample",  # what it releases
    "sampled_markov_model": "papers.gibbs_sample",  # section 5, from the sweeps of GibbsSample
    "gibbs_update_cost": "papers.foulds",  # section 4.1, equations 18 to 20
    "gibbs_sweep_cost": "papers.foulds",  # section 4.1, parallel composition
    "random_scan_cost": "papers.foulds",  # section 4.1, without the discount
    "composed_cost": "papers.foulds",  # sections 2.1 and 4.1, advanced composition
    "approximate_sample_cost": "papers.foulds",  # Proposition 3
    "barker_step": "papers.foulds",  # section 4, Metropolis-Hastings
    "barker_cost": "papers.foulds",  # its cost
    "annealed_path": "papers.foulds",  # section 4, annealed importance sampling
    "AnnealedPath": "papers.foulds",  # what it returns
    "annealed_cost": "papers.foulds",  # its cost
    "annealed_weight_sensitivity": "papers.foulds",  # of its log importance weight
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
    "error_bounds",
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
    from dpgraph.inference.expfam.posterior import moments_posterior
    from dpgraph.mechanisms.additive.fourier import FourierMechanism
    from dpgraph.mechanisms.additive.fourier import theorem_3_bound as fourier_error_bound
    from dpgraph.mechanisms.selection.lattice import lipschitz_constant
    from dpgraph.mechanisms.selection.map_estimate import MapEstimate, map_failure_bound, map_loss_bound
    from dpgraph.mechanisms.selection.posterior_sample import PosteriorSample
    from dpgraph.papers.foulds import (
        AnnealedPath,
        annealed_cost,
        annealed_path,
        annealed_weight_sensitivity,
        approximate_sample_cost,
        barker_cost,
        barker_step,
        composed_cost,
        gibbs_sweep_cost,
        gibbs_update_cost,
        random_scan_cost,
    )
    from dpgraph.papers.gibbs_sample import GibbsSample, MarkovSweeps, sampled_markov_model
    from dpgraph.papers.regression_sample import RegressionSample, SampledRegressionModel, SampledWeights
    from dpgraph.papers.zhang import (
        DivergenceBound,
        NoiseBound,
        corrected_divergence_bound,
        count_error_bound,
        dirichlet_divergence,
        divergence_bound,
        error_bounds,
        expected_divergence,
        lipschitz_failure_bound,
        stochastic_lipschitz_bound,
    )
    from dpgraph.structure.basis import walsh_transform


__getattr__, __dir__ = lazy_names(__name__, _HOMES)
