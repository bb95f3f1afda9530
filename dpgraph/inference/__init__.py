"""What can be learned from what left. Imports only public structure: post-processing cannot name private data."""
