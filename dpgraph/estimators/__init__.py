"""scikit-learn faces over the pipeline: the only layer that both spends and models."""
