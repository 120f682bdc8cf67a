"""`intrs export` and `intrs table`: files for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from intrs.adaptive import SpendingRule
from intrs.certificate import Certifier, parse_alpha
from intrs.cli.screen import meter
from intrs.errors import IntrsError
from intrs.files import write_whole
from intrs.job import stages_of
from intrs.model import load
from intrs.noise import Noise

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable


def export(args: Namespace) -> int:
    """Write a model as a TOSA flatbuffer."""
    from intrs.exchange.tosa import to_tosa

    check_new(args.out, args.overwrite, [Path(args.model)])
    network = load(args.model, pixels=args.pixels, mean=args.mean, std=args.std)
    write_whole(args.out, to_tosa(network))
    print(f"{args.out}: TOSA 1.0, {args.out.stat().st_size:,} bytes, of the model with identity {network.identity}")
    return 0


def table(args: Namespace) -> int:
    """Write the map from votes to squared radius, for devices that can only look up."""
    if args.adaptive:
        return _adaptive_tables(args)
    if args.text or args.radii or args.give_up is not None:
        raise IntrsError("--text, --radii and --give-up are for the tables of adaptive runs; add --adaptive")
    _check_named(args.out)
    check_new(args.out, args.overwrite)
    noise = Noise.of(args.noise, args.sigma)
    certifier = Certifier(noise, args.dimension, args.n, parse_alpha(args.alpha), args.bound)
    least = certifier.least_votes()
    if least is None:
        raise IntrsError(f"with n = {args.n} and alpha = {args.alpha} no number of votes certifies; take a larger --n")
    with meter(args.n + 1 - least, 0, "entries") as show_progress:
        made = certifier.table(lambda done, total: show_progress(done, f"entry {done:,} of {total:,}"))
    write_whole(args.out, made.to_bytes())
    print(
        f"{args.out}: squared radii for {least:,} to {args.n:,} votes, "
        f"{made.values[0]:,} to {made.values[-1]:,} squared pixel levels"
    )
    return 0


def _adaptive_tables(args: Namespace) -> int:
    """Write or print the votes that accept and give up each radius at each look."""
    if args.text and args.out:
        raise IntrsError("--text prints the tables: leave -o out, or --text")
    if not args.text:
        _check_named(args.out)
        check_new(args.out, args.overwrite)
    certifier = Certifier(Noise.of(args.noise, args.sigma), args.dimension, args.n, parse_alpha(args.alpha), args.bound)
    rule = stages_of(certifier, tuple(args.radii), give_up=args.give_up).rules(certifier)[-1]
    assert isinstance(rule, SpendingRule)
    if not rule.tables.thresholds:
        raise IntrsError(f"with n = {args.n} and alpha = {args.alpha} no number of votes certifies; take a larger --n")
    if args.text:
        _print_tables(rule)
        return 0
    write_whole(args.out, rule.to_bytes())
    tables = rule.tables
    print(
        f"{args.out}: {rule.name}, {len(tables.schedule.looks)} looks, {len(tables.thresholds)} radii up to "
        f"{float(tables.thresholds[-1].radius):g}"
    )
    return 0


def _print_tables(rule: SpendingRule) -> None:
    """A line a look: the samples, then the fewest votes that accept and the most that give up each radius asked for."""
    found = [(rule.tables.of(r), rule.tables.reject(r, rule.give_up), r) for r in rule.radii]
    names = [f"{word} {float(r):g}" for _, _, r in found for word in ("accept", "reject")]
    print("\t".join(("look", "samples", *names)))
    for look, n in enumerate(rule.schedule.looks):
        pairs = ((t.accept[look] if t else n + 1, reject[look]) for t, reject, _ in found)
        print("\t".join(map(str, (look, n, *(value for pair in pairs for value in pair)))))


def _check_named(path: Path | None) -> None:
    if path is None:
        raise IntrsError("say where to write the table: -o FILE")


def check_new(path: Path, overwrite: bool, inputs: Iterable[Path] = ()) -> None:
    """Refuse to write where something is already, or where nothing can be, or over what is to be read."""
    if any(path.exists() and source.exists() and path.samefile(source) for source in inputs):
        raise IntrsError(f"{path} is what is to be read; name another file with -o")
    if path.exists() and not (overwrite and path.is_file()):
        raise IntrsError(f"{path} exists; --overwrite replaces a file")
    if not path.parent.is_dir():
        raise IntrsError(f"{path}: there is no folder {path.parent}")
