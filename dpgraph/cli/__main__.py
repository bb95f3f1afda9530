"""``python -m dpgraph.cli``."""

import sys

from dpgraph.cli import main

if __name__ == "__main__":
    sys.exit(main())
