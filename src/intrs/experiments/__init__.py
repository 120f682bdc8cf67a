"""The paper's experiments from one plan: all votes are counted once and laid beside the paper's numbers."""

from intrs.experiments.run import Reproduction, Step, reproduce

__all__ = ["Reproduction", "Step", "reproduce"]
