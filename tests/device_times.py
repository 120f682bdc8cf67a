"""How long a prediction or a certificate would take on a device: an estimate from counted instructions.

    python tests/device_times.py            # the table of times in docs/devices.md, from its table of counts
    python tests/device_times.py --write    # puts it there

The counts are those of tests/device/instructions.sh, and stand in docs/devices.md alone. Time is samples times
instructions per sample times cycles per instruction, divided by the clock. Cycles per instruction are an assumption.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "devices.md"
COUNTS, TIMES = "| millions of instructions per sample |", "| estimated time |"
PREDICT = 100  # samples of a prediction; a certificate's stand in the table of counts


@dataclass(frozen=True)
class Processor:
    """A column of both tables: a processor at a common clock, and the cycles that an instruction is assumed to take."""

    name: str
    megahertz: int
    cycles: str  # per instruction

    def seconds(self, samples: int, millions: float) -> float:
        """For so many samples of so many million instructions each."""
        return samples * millions * float(self.cycles) / self.megahertz


PROCESSORS = (
    Processor("Cortex-M3", 72, "1.8"),
    Processor("Cortex-M4", 168, "1.5"),
    Processor("Cortex-M7", 480, "0.8"),
    Processor("Cortex-M55", 400, "2"),
)


def rows_under(text: str, head: str) -> list[list[str]]:
    """The cells of the table whose first line begins so, without its first two lines."""
    block = text[text.index(head) :].split("\n\n", 1)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()[2:]]


def shown(seconds: float) -> str:
    """Two digits: the assumption is no better."""
    if seconds < 99.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 597 else f"{seconds / 60:.0f} min"


def times(text: str) -> str:
    """The table of times that follows from the page's table of counts."""
    names = [cell.strip() for cell in text[text.index(COUNTS) :].split("\n", 1)[0].strip("|").split("|")][2:]
    assert names == [processor.name for processor in PROCESSORS], names
    lines = [
        f"{TIMES} " + " | ".join(f"{p.name}, {p.megahertz} MHz" for p in PROCESSORS) + " |",
        "|---|" + "---|" * len(PROCESSORS),
        "| *assumed cycles per instruction* | " + " | ".join(f"*{p.cycles}*" for p in PROCESSORS) + " |",
    ]
    for network, samples, *millions in rows_under(text, COUNTS):
        wanted = [("`predict`", PREDICT), ("median certificate", int(samples.replace(",", "")))]
        for what, number in wanted:
            each = zip(PROCESSORS, millions, strict=True)
            cells = ["-" if m == "-" else shown(processor.seconds(number, float(m))) for processor, m in each]
            lines.append(f"| {network}: {what}, {number:,} samples | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def with_times(text: str) -> str:
    """The page with the table of times that follows from its counts."""
    return re.sub(re.escape(TIMES) + r".*?(?=\n\n)", lambda _: times(text), text, count=1, flags=re.DOTALL)


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    text = PAGE.read_text("utf-8")
    if parser.parse_args().write:
        PAGE.write_text(with_times(text), "utf-8")
    print(times(text))


if __name__ == "__main__":
    main()
