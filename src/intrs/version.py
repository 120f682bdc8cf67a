"""The version of the installed package; apart, because reading it takes a while."""

from importlib.metadata import version

__version__ = version("intrs")
