"""The one error type that a user's mistake raises."""


class IntrsError(Exception):
    """Something the caller can put right; the message says what was wrong, where, and what to do.

    The command line prints the message alone and exits with code 2. Anything else that escapes is a bug of ours.
    """
