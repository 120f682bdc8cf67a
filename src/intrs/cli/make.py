"""`intrs export` and `intrs table`: files for other programs."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from intrs import api
from intrs.cli.screen import say
from intrs.errors import SettingsError
from intrs.exchange.targets import DEVICE, WEB
from intrs.model import open_model

if TYPE_CHECKING:
    from argparse import Namespace

    from intrs.adaptive import SpendingRule
    from intrs.exchange.targets import Exported

COMMON = ("sigma", "dimension", "noise", "n", "alpha", "bound", "overwrite")

EXPORT_OPTIONS = dict.fromkeys(("data", *DEVICE, *WEB))  # of targets


def export(args: Namespace) -> int:
    """Write a model for other programs."""
    options = {name: getattr(args, name) for name in ("target", "pixels", "mean", "std", "dialect", "overwrite")}
    options |= {name: getattr(args, name) for name in EXPORT_OPTIONS if getattr(args, name) is not None}
    made = api.export(args.model, args.out, **options)
    if made.device:
        return _say_device(made)
    size = args.out.stat().st_size
    say(f"{args.out}: {made.target.title}, {size:,} bytes, of the model with identity {made.identity}")
    if made.written:
        say(f"The network in the file has identity {made.written.network.identity}.")
        say(f"It may round differently than the model does: {made.written.difference}.")
        sigma = "" if open_model(args.out).trained_sigma else f" --sigma {args.sigma or 'S'}"
        command = f"intrs certify {shlex.quote(str(args.out))} DATA{sigma}"
        say(f"Certificates of the model are not about the file. To certify the file: {command}")
    if made.target.note:
        say(made.target.note)
    return 0


def _say_device(made: Exported) -> int:
    """What a device needs, in all and by layer."""
    assert made.device is not None
    say(f"{made.path}: {made.target.title}, of the model with identity {made.identity}")
    say(made.device.layer_table())
    for line in made.device.lines():
        say(line)
    say(f"Next: make -C {made.path} check, or make -C {made.path} run-qemu")
    return 0


def table(args: Namespace) -> int:
    """Write the map from votes to squared radius, for devices that can only look up."""
    if args.adaptive:
        return _adaptive_tables(args)
    if args.text or args.radii or args.give_up is not None:
        raise SettingsError("--text, --radii and --give-up are for the tables of adaptive runs; add --adaptive")
    _check_named(args)
    made = api.table(args.out, **{name: getattr(args, name) for name in COMMON}, progress=args.progress)
    say(
        f"{args.out}: squared radii for {made.start:,} to {args.n:,} votes, "
        f"{made.values[0]:,} to {made.values[-1]:,} squared pixel levels"
    )
    return 0


def _adaptive_tables(args: Namespace) -> int:
    """Write or print the votes that accept and give up each radius at each look."""
    if args.text and args.out:
        raise SettingsError("--text prints the tables: leave -o out, or --text")
    if not args.text:
        _check_named(args)
    options = {name: getattr(args, name) for name in (*COMMON, "radii", "give_up")}
    rule = api.adaptive_table(args.out, **options)
    if args.text:
        _print_tables(rule)
        return 0
    tables = rule.tables
    radii = f"{len(tables.thresholds)} radii up to {float(tables.thresholds[-1].radius):g}"
    say(f"{args.out}: {rule.name}, {len(tables.schedule.looks)} looks, {radii}")
    return 0


def _print_tables(rule: SpendingRule) -> None:
    """A line per look: the samples, then the fewest votes that accept and the most that give up each radius."""
    found = [(rule.tables.of(r), rule.tables.reject(r, rule.give_up), r) for r in rule.radii]
    names = [f"{word} {float(r):g}" for _, _, r in found for word in ("accept", "reject")]
    print("\t".join(("look", "samples", *names)))
    for look, n in enumerate(rule.schedule.looks):
        pairs = ((t.accept[look] if t else n + 1, reject[look]) for t, reject, _ in found)
        print("\t".join(map(str, (look, n, *(value for pair in pairs for value in pair)))))


def _check_named(args: Namespace) -> None:
    if args.out is None:
        raise SettingsError("say where to write the table: -o FILE")
