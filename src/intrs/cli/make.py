"""`intrs export` and `intrs table`: files for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from intrs.certificate import Certifier, parse_alpha
from intrs.cli.job import load_model
from intrs.cli.screen import meter
from intrs.errors import IntrsError
from intrs.noise import Noise
from intrs.results import write_whole

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path


def export(args: Namespace) -> int:
    """Write a model as a TOSA flatbuffer."""
    from intrs.exchange.tosa import to_tosa

    _check_new(args.out, args.overwrite)
    network = load_model(args.model, args)
    write_whole(args.out, to_tosa(network))
    print(f"{args.out}: TOSA 1.0, {args.out.stat().st_size:,} bytes, of the model with identity {network.identity}")
    return 0


def table(args: Namespace) -> int:
    """Write the map from votes to squared radius, for devices that can only look up."""
    _check_new(args.out, args.overwrite)
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


def _check_new(path: Path, overwrite: bool) -> None:
    if path.exists() and not (overwrite and path.is_file()):
        raise IntrsError(f"{path} exists; --overwrite replaces a file")
    if not path.parent.is_dir():
        raise IntrsError(f"{path}: there is no folder {path.parent}")
