"""`python -m intrs.cli`: the command line where the script is not on the path."""

import sys

from intrs.cli.start import program

sys.exit(program())
