"""Integer networks: layers as data, their canonical bytes, and running them.

`layers` says what the kinds of layers are, `parts` how their fields become bytes, `network` what a whole network is and
does, `summary` how it is shown.
"""

from intrs.network.layers import (
    INT8,
    KINDS,
    Add,
    AvgPool,
    CodeTable,
    Concat,
    Conv,
    ConvDouble,
    Gather,
    Layer,
    MaxPool,
    Mul,
    Pad,
    Quantiser,
    Requantise,
    RequantiseDouble,
    Rescale,
    ScaledAdd,
    Shape,
)
from intrs.network.network import FORMAT, MAGIC, Network, selected_kernels

__all__ = [
    "FORMAT",
    "INT8",
    "KINDS",
    "MAGIC",
    "Add",
    "AvgPool",
    "CodeTable",
    "Concat",
    "Conv",
    "ConvDouble",
    "Gather",
    "Layer",
    "MaxPool",
    "Mul",
    "Network",
    "Pad",
    "Quantiser",
    "Requantise",
    "RequantiseDouble",
    "Rescale",
    "ScaledAdd",
    "Shape",
    "selected_kernels",
]
