"""`python -m intrs.cli`: the command line where the script is not on the path."""

import sys

from intrs.cli import main

sys.exit(main())
