"""The hidden Markov model on noisy event counts: chains of states over declared time steps, naive Bayes emissions."""
