"""`python -m intrs` is the command `intrs`."""

import sys

from intrs.cli.start import program

if __name__ == "__main__":
    sys.exit(program())
