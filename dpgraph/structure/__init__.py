"""Public structure: domains, networks, designs, and tables over them."""
