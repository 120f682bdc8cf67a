"""What a caller's mistake raises: one type, with a few kinds for programs that want to tell them apart."""


class IntrsError(Exception):
    """A mistake that the caller can fix; the message says what was wrong, where, and what to do.

    The command line prints the message alone and exits with code 2. Any other exception that escapes is a bug.
    """


class ModelError(IntrsError):
    """A model file or network that cannot be read, lowered or run."""


class DataError(IntrsError):
    """Images or labels that cannot be read, or do not fit the model."""


class FitError(DataError):
    """Images that the network does not take as they are, but would if they were made to fit."""


class NoSplitError(DataError):
    """Data that are not divided, or not into the part that was asked for."""


class ClassesError(DataError):
    """Classes of data that are not those of the model, by their names."""


class ClassesCountError(ClassesError):
    """Classes of data that are more or fewer than those of the model, so that labels cannot be its numbers."""


class ResultsError(IntrsError):
    """A results file or output folder that cannot be read, continued or written."""


class SettingsError(IntrsError):
    """A setting that is malformed, out of range, or contradicts another one."""
