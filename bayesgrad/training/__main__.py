"""``python -m bayesgrad.training``: see :mod:`bayesgrad.training.cli`."""

from bayesgrad.command import finish
from bayesgrad.training.cli import main

if __name__ == "__main__":
    finish(main)
