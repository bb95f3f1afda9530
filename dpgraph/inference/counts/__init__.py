"""Distributions of counts behind noise: a cell, a sum of cells, a Dirichlet-multinomial table."""
