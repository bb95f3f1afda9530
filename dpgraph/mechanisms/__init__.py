"""How statistics leave: mechanisms, their sensitivities and budgets, from the DAG alone."""
