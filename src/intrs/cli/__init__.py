"""The command line: arguments -> one call each, and all that is printed.

`intrs.cli.start` is where the program begins. A user's mistake is a message that begins with "intrs: " and exit code 2;
a difference that `intrs verify` finds is exit code 1. Anything that ends in a traceback is a bug.
"""

from intrs.cli.start import main

__all__ = ["main"]
