"""Where units of work are counted: on threads of this process, or on the workers of a cluster."""

from intrs.engines.desk import Desk
from intrs.engines.engine import Engine, LostError, Reply
from intrs.engines.ray import AUTOMATIC, Cluster, Workers
from intrs.engines.threads import Threads, cores

__all__ = ["AUTOMATIC", "Cluster", "Desk", "Engine", "LostError", "Reply", "Threads", "Workers", "cores"]
