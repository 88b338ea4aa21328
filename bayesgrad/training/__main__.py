"""``python -m bayesgrad.training``: see :mod:`bayesgrad.training.cli`."""

import sys

from bayesgrad.training.cli import main

if __name__ == "__main__":
    sys.exit(main())
