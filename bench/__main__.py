"""python -m bench: see README.md in this folder."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import traceback
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import compare, footprint, machine, peak, report, scaling, stages
from bench.context import Context, say
from bench.networks import zoo_files

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
RUN: dict[str, Callable[[Context], dict[str, Any]]] = {
    "compare": compare.resnet20,
    "avx2": compare.resnet20_avx2,
    "large": compare.large,
    "mobile": compare.mobile,
    "threads": scaling.threads,
    "samples": scaling.samples,
    "sizes": scaling.sizes,
    "stages": stages.run,
    "peak": peak.run,
    "memory": footprint.run,
    "sparse": scaling.sparse,
    "double": scaling.double,
}


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench", description="intrs beside other engines, on this machine")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"all, or some of: {', '.join(RUN)}")
    parser.add_argument("--quick", action="store_true", help="fewer settings and shorter runs, to see that all works")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, help="how often each engine has its turn (9; quick: 3)")
    parser.add_argument("--seconds", type=float, help="how long about a turn takes (2; quick: 0.5)")
    parser.add_argument("--models", type=Path, help="keep the models in this folder, and take them from there")
    parser.add_argument("--write", action="store_true", help="render RESULTS.md from this run, or from --from")
    parser.add_argument("--from", dest="source", type=Path, help="measure nothing: take this file from results/")
    chosen = parser.parse_args(words)
    if unknown := set(chosen.sections) - set(RUN):
        parser.error(f"unknown section: {', '.join(sorted(unknown))}")
    return chosen


def _section(name: str, context: Context) -> dict[str, Any]:
    say(f"[{name}]")
    try:
        return RUN[name](context)
    except Exception as error:  # half an hour of other sections must not be lost
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}


def measure(chosen: argparse.Namespace, path: Path) -> dict[str, Any]:
    """Run the sections; what there is so far is written after each."""
    rounds, seconds = (3, 0.5) if chosen.quick else (9, 2.0)
    rounds, seconds = chosen.rounds or rounds, chosen.seconds or seconds
    results: dict[str, Any] = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": " ".join(["python -m bench", *(a for a in sys.argv[1:] if a != "--write")]),
        "machine": machine.describe(),
        "versions": machine.versions(),
        "trained": [file.name for file in zoo_files()],
        "threads": chosen.threads,
        "rounds": rounds,
        "seconds": seconds,
        "quick": chosen.quick,
        "sections": {},
    }
    if chosen.models:
        chosen.models.mkdir(parents=True, exist_ok=True)
    with nullcontext(chosen.models) if chosen.models else tempfile.TemporaryDirectory() as folder:
        context = Context(Path(folder).resolve(), chosen.threads, rounds, seconds, chosen.quick)
        for name in chosen.sections or RUN:
            results["sections"][name] = _section(name, context)
            path.write_text(json.dumps(results, indent=1) + "\n")
    return results


def main() -> None:
    chosen = arguments()
    if chosen.source:
        results = json.loads(chosen.source.read_text())
    else:
        path = HERE / "results" / f"{datetime.now(UTC):%Y-%m-%dT%H%M}{'-quick' * chosen.quick}.json"
        path.parent.mkdir(exist_ok=True)
        results = measure(chosen, path)
        say(f"written: {path.relative_to(HERE.parent)}")
    text = report.markdown(results)
    print(text)
    if chosen.write:
        (HERE / "RESULTS.md").write_text(text)


if __name__ == "__main__":
    main()
