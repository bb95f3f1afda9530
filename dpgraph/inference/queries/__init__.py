"""Questions of a network with known probabilities, or of many draws of them: exact, in batches, or by sampling."""
