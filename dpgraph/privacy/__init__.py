"""Privacy units, costs, budgets, noise and releases; knows no network and no rows."""
