"""Reading rows of any kind and encoding their columns."""
