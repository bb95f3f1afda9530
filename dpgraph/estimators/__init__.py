"""scikit-learn faces over the pipeline: the only layer that both spends and models.

``fit`` makes one release through the one door, from the caller's budget where one is given; ``release_`` holds it, and
``privacy_cost_`` its cost.
"""
