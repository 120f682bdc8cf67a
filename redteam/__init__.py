"""Attempts to break what intrs claims. README.md says what each one tries, how to run it, and what came of it."""

MODEL = "resnet8-sigma0.25"
"""The network that is attacked unless another one is named: small, because attacks run it very often."""
