"""Networks for devices: constants for the C99 runtime of `device/`, and the folder that `intrs export` writes.

words -> memory -> layers -> decisions -> constants -> folder: bytes with addresses, where each tensor lies, what each
kind of layer becomes, the tables that decide, all of it as one block of constants, and the files around it.
`docs/devices.md` is the page for users; `device/intrs_data.h` says what every word means.
"""

from intrs.exchange.device.constants import Constants, build
from intrs.exchange.device.decisions import Decisions

__all__ = ["Constants", "Decisions", "build"]
