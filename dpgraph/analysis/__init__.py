"""What privacy costs on a graph, in closed form, before any row is read."""
