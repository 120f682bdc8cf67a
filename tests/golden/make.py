"""Write votes.json anew: only when the meaning of a seed or of a layer is meant to change. Run it from `tests/`."""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from test_votes import GOLDEN, golden_base, golden_counts

from intrs.votes import SELECTION

NETWORKS = ("made here", "resnet8-sigma0.25")
CASES = (("discrete", "0.25", 0, 400), ("rounded", "1/2", SELECTION, 100), ("discrete", "0.07", 123456789, 64))


def main() -> None:
    entries = []
    for name in NETWORKS:
        for noise, sigma, first, count in CASES:
            entry: dict[str, Any] = {"network": name, "identity": golden_base(name)[0].identity}
            entry |= {"noise": noise, "sigma": sigma}
            entry |= {"seed": str(2**255 + 12345), "image": 20, "first": first, "count": count}
            entry["counts"] = golden_counts(entry, "scalar")
            entries.append(entry)
    GOLDEN.write_text(json.dumps(entries, indent=1) + "\n")


if __name__ == "__main__":
    main()
