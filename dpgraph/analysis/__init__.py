"""The cost of privacy on a graph, in closed form, before any row is read."""
