"""Attempts to break what intrs claims. README.md says what each one tries, how to run it, and what came of it."""
