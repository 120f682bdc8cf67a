"""What can be said on the command line. Nothing heavy is imported here, so that --help is quick."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from intrs.errors import IntrsError

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

NUMBER_OF_SAMPLES = {"certify": 100_000, "predict": 1000}
SHORT_RUN = {"certify": 10_000, "predict": 1000}  # samples, when there are no arguments at all
SHORT_RUN_IMAGES = 10
MOST_THREADS = 1024
WORDS = {"certify": "Certify images: a class and a radius for each", "predict": "Predict images: a class for each"}


class Parser(argparse.ArgumentParser):
    """argparse, with mistakes reported the way all others are."""

    def error(self, message: str) -> NoReturn:
        """Refuse the arguments."""
        raise IntrsError(f"{message}\nsee `{self.prog} --help`")

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Print it, and let a full disk be heard of."""
        print(self.format_help(), end="", file=file)


class Version(argparse.Action):
    """--version, read from the installed package only when asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Print and leave."""
        from intrs import __version__

        print(f"intrs {__version__}")
        parser.exit()


def parse(argv: list[str]) -> argparse.Namespace:
    """The arguments, with `call` naming the function that takes them and `argv` as they were given."""
    args = _parser().parse_args(argv)
    args.argv = argv
    if args.command in NUMBER_OF_SAMPLES:
        _settle(args, short=len(argv) == 1)
    return args


def _settle(args: argparse.Namespace, *, short: bool) -> None:
    """Defaults that depend on the command, and the short run of a command without arguments."""
    args.short = short
    args.n = args.n or (SHORT_RUN if short else NUMBER_OF_SAMPLES)[args.command]
    if short:
        args.max, args.resume = SHORT_RUN_IMAGES, True


def _parser() -> Parser:
    parser = Parser(
        "intrs", description="Certified robustness in integers: randomized smoothing of quantized networks."
    )
    parser.add_argument("--version", action=Version, nargs=0, help="print the version and leave")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in NUMBER_OF_SAMPLES:
        _add_run(commands.add_parser(command, help=WORDS[command], description=WORDS[command] + "."), command)
    words = "Recompute the votes and radii of a results file; exit code 1 at the first difference"
    _add_verify(commands.add_parser("verify", help=words, description=words + "."))
    words = "Show a model's layers, sizes, accumulator bounds, kernels and identity"
    _add_info(commands.add_parser("info", help=words, description=words + "."))
    words = "Write a model as TOSA 1.0, the standard whose integers it computes"
    _add_export(commands.add_parser("export", help=words, description=words + "."))
    words = "Write the table from votes to squared radius"
    _add_table(commands.add_parser("table", help=words, description=words + "."))
    return parser


def _add_run(parser: Parser, command: str) -> None:
    parser.set_defaults(call="run:run")
    n = NUMBER_OF_SAMPLES[command]
    parser.add_argument("model", nargs="?", metavar="MODEL", help="an int8 ONNX file, or a model that ships with intrs")
    parser.add_argument("data", nargs="?", metavar="DATA", help="a data set's name, an .npz, or a folder of images")
    _add_noise(parser, required=False)
    if command == "certify":
        parser.add_argument("--n0", type=_count, default=100, metavar="N0", help="samples to select the class (100)")
    parser.add_argument("--n", type=_count, metavar="N", help=f"samples to decide ({n})")
    parser.add_argument("--alpha", default="0.001", metavar="A", help="probability of a wrong answer (0.001)")
    if command == "certify":
        _add_bound(parser)
        parser.add_argument("--form", choices=("one", "two"), default="one", help="classes that the bound uses (one)")
    parser.add_argument("--seed", type=_seed, metavar="K", help="256 bits, decimal or 0x... (drawn and recorded)")
    parser.add_argument("--skip", type=_count, default=1, metavar="K", help="take every K-th image (1)")
    parser.add_argument("--max", type=_count, metavar="K", help="take at most K images")
    parser.add_argument("--split", default="test", help="part of the data set (test)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="results (a name made of the settings)")
    existing = parser.add_mutually_exclusive_group()
    existing.add_argument("--resume", action="store_true", help="continue FILE if it exists")
    existing.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    _add_engine(parser)
    _add_loader(parser)


def _add_verify(parser: Parser) -> None:
    parser.set_defaults(call="verify:verify")
    parser.add_argument("results", type=Path, metavar="RESULTS", help="a results file, its FILE.json beside it")
    parser.add_argument("--images", type=_count, metavar="K", help="sample only K of the images again, evenly spread")
    parser.add_argument("--model", metavar="MODEL", help="where the model is now, if it was moved")
    parser.add_argument("--data", metavar="DATA", help="where the data is now, if it was moved")
    _add_engine(parser)


def _add_info(parser: Parser) -> None:
    parser.set_defaults(call="info:info")
    parser.add_argument("model", nargs="?", metavar="MODEL", help="an int8 ONNX file, or a model that ships with intrs")
    parser.add_argument("--kernels", default="", metavar="NAME", help="kernel set (the fastest of this machine)")
    _add_loader(parser)


def _add_export(parser: Parser) -> None:
    parser.set_defaults(call="make:export")
    parser.add_argument("model", metavar="MODEL", help="an int8 ONNX file, or a model that ships with intrs")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help="TOSA flatbuffer to write")
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    _add_loader(parser)


def _add_table(parser: Parser) -> None:
    parser.set_defaults(call="make:table")
    _add_noise(parser, required=True)
    parser.add_argument("-n", "--n", type=_count, default=100_000, metavar="N", help="samples (100000)")
    parser.add_argument("--alpha", default="0.001", metavar="A", help="probability of a wrong answer (0.001)")
    parser.add_argument("--dimension", type=_count, required=True, metavar="D", help="height x width x channels")
    _add_bound(parser)
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help="table to write")
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")


def _add_noise(parser: Parser, *, required: bool) -> None:
    words = "noise, as a fraction of the pixel range: 0.25 or 1/4" + ("" if required else " (what the model says)")
    parser.add_argument("--sigma", required=required, metavar="S", help=words)
    parser.add_argument("--noise", choices=("discrete", "rounded"), default="discrete", help="its law (discrete)")


def _add_bound(parser: Parser) -> None:
    parser.add_argument("--bound", choices=("sound", "paper"), default="sound", help="from votes to radius (sound)")


def _add_engine(parser: Parser) -> None:
    parser.add_argument("--threads", type=_threads, default=0, metavar="T", help="threads (all cores)")
    parser.add_argument("--kernels", default="", metavar="NAME", help="kernel set (the fastest of this machine)")


def _add_loader(parser: Parser) -> None:
    words = "what the model's input is: pixels over 255, pixels 0..255, or told by its quantiser (auto)"
    parser.add_argument("--pixels", choices=("auto", "unit", "byte"), default="auto", help=words)
    parser.add_argument("--mean", default="", metavar="M,M,M", help="normalisation that the file does not hold (none)")
    parser.add_argument("--std", default="", metavar="S,S,S", help="the same, standard deviation (none)")


def _count(text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text, re.ASCII) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number from 1 on is wanted, not {text!r}")
    return int(text)


def _threads(text: str) -> int:
    if _count(text) > MOST_THREADS:  # each takes memory for its activations
        raise argparse.ArgumentTypeError(f"at most {MOST_THREADS}, not {text}")
    return int(text)


def _seed(text: str) -> int:
    decimal = re.fullmatch(r"\d{1,78}", text, re.ASCII)
    seed = int(text, 10 if decimal else 16) if decimal or re.fullmatch(r"0[xX][0-9a-fA-F]{1,64}", text) else None
    if seed is None or seed >= 2**256:
        raise argparse.ArgumentTypeError(f"an integer from 0 to 2**256 - 1 is wanted, decimal or 0x..., not {text!r}")
    return seed
