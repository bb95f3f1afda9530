"""The posterior of a naive Bayes network: chains over the unseen counts, and the learned sizes of effects."""
