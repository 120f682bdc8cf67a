"""Where units of work are counted: on threads of this process, or on the workers of a cluster."""

from intrs.engines.engine import Engine, LostError
from intrs.engines.ray import AUTOMATIC, Cluster, Workers
from intrs.engines.threads import Threads

__all__ = ["AUTOMATIC", "Cluster", "Engine", "LostError", "Threads", "Workers"]
