"""Write the sampling tables that ship with the package: python proofs/make_tables.py

The tables are functions of (kind, sigma) alone, so this changes nothing unless the format changes.
"""

from pathlib import Path

import intrs
from intrs.noise import KINDS, SHIPPED, Noise, generate

FOLDER = Path(intrs.__file__).parent / "tables"

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for kind in KINDS:
        for sigma in SHIPPED:
            table = generate(Noise.of(kind, sigma))
            (FOLDER / f"{kind}-{sigma}.bin").write_bytes(table.to_bytes())
            print(f"{kind}-{sigma}.bin  {2 * -table.first} thresholds  eta {float(table.eta):.3g}  {table.sha256}")
