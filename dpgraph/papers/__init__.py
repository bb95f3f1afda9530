"""The mechanisms and formulas of the three papers dpgraph starts from, where the defaults depart from them.

Zhang, Rubinstein and Dimitrakakis 2016; Foulds, Geumlek, Welling and Chaudhuri 2016; Bernstein and Sheldon 2018. Above
each group of names below is its section, theorem or algorithm; docs/papers.md maps every numbered result to its name
here and says where we depart. Names are imported when they are first used.

>>> import dpgraph as dg
>>> bound = dg.papers.count_error_bound(cells=36, scale=16.0, delta=0.1)  # Zhang et al. 2016, Proposition 1
>>> bound.exact
93
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpgraph.lazy import lazy_names

if TYPE_CHECKING:  # the one list of names
    # isort: off
    # Zhang, Rubinstein and Dimitrakakis 2016. Proposition 1 and Theorem 1: printed, corrected, and exact beside them
    from dpgraph.papers.zhang import count_error_bound as count_error_bound, NoiseBound as NoiseBound
    from dpgraph.papers.zhang import divergence_bound as divergence_bound, DivergenceBound as DivergenceBound
    from dpgraph.papers.zhang import corrected_divergence_bound as corrected_divergence_bound
    from dpgraph.papers.zhang import dirichlet_divergence as dirichlet_divergence
    from dpgraph.papers.zhang import expected_divergence as expected_divergence, error_bounds as error_bounds

    # Algorithm 2, Theorems 2 and 3
    from dpgraph.mechanisms.additive.fourier import FourierMechanism as FourierMechanism
    from dpgraph.mechanisms.additive.fourier import theorem_3_bound as fourier_error_bound  # noqa: F401
    from dpgraph.structure.tables import contrast_transform as walsh_transform  # noqa: F401

    # section 4: Theorem 4 (1), Lemmas 2 and 3, Theorem 4 (2); Algorithm 3 and Lemma 4; Appendix D
    from dpgraph.mechanisms.selection.lattice import PosteriorSample as PosteriorSample
    from dpgraph.mechanisms.selection.lattice import lipschitz_constant as lipschitz_constant
    from dpgraph.papers.zhang import lipschitz_failure_bound as lipschitz_failure_bound
    from dpgraph.papers.zhang import stochastic_lipschitz_bound as stochastic_lipschitz_bound
    from dpgraph.mechanisms.selection.lattice import MapEstimate as MapEstimate
    from dpgraph.mechanisms.selection.lattice import map_failure_bound as map_failure_bound
    from dpgraph.mechanisms.selection.lattice import map_loss_bound as map_loss_bound
    from dpgraph.papers.regression_sample import RegressionSample as RegressionSample, SampledWeights as SampledWeights
    from dpgraph.papers.regression_sample import SampledRegressionModel as SampledRegressionModel

    # Foulds, Geumlek, Welling and Chaudhuri 2016. Sections 4.1 and 5; costs: 2.1, 4.1, Proposition 3
    from dpgraph.papers.gibbs_sample import GibbsSample as GibbsSample, MarkovSweeps as MarkovSweeps
    from dpgraph.papers.gibbs_sample import sampled_markov_model as sampled_markov_model
    from dpgraph.papers.foulds import gibbs_update_cost as gibbs_update_cost, gibbs_sweep_cost as gibbs_sweep_cost
    from dpgraph.papers.foulds import random_scan_cost as random_scan_cost, composed_cost as composed_cost
    from dpgraph.papers.foulds import approximate_sample_cost as approximate_sample_cost

    # section 4: Metropolis-Hastings, annealed importance sampling
    from dpgraph.papers.foulds import barker_step as barker_step, barker_cost as barker_cost
    from dpgraph.papers.foulds import annealed_path as annealed_path, AnnealedPath as AnnealedPath
    from dpgraph.papers.foulds import annealed_cost as annealed_cost
    from dpgraph.papers.foulds import annealed_weight_sensitivity as annealed_weight_sensitivity

    # Bernstein and Sheldon 2018, Algorithms 1 to 3, corrected
    from dpgraph.inference.expfam.posterior import moments_posterior as moments_posterior

__getattr__, __dir__ = lazy_names(__name__)
