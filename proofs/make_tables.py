"""Compute the sampling tables that ship with the package and write them: python proofs/make_tables.py [FOLDER]

The tables are functions of (kind, sigma) alone, so this changes nothing unless the format changes. It prints the lines
of DIGESTS in src/intrs/noise/table.py, without which the package refuses the files.
"""

import sys
from pathlib import Path

import intrs
from intrs.files import write_whole
from intrs.noise import KINDS, SHIPPED, Noise, generate


def main(folder: Path) -> None:
    """Write all tables and print their digests."""
    folder.mkdir(exist_ok=True)
    for kind in KINDS:
        print(f'    "{kind}": {{')
        for sigma in SHIPPED:
            table = generate(Noise.of(kind, sigma))
            write_whole(folder / f"{kind}-{sigma}.bin", table.to_bytes())
            print(f'        "{sigma}": "{table.sha256}",')
        print("    },")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(intrs.__file__).parent / "tables")
