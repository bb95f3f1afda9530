"""Public values as pages: one file each, with everything in it, for people who hold no Python."""
