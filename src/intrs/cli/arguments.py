"""What can be said on the command line. Nothing heavy is imported here, so that --help is quick."""

from __future__ import annotations

import argparse
import re
import textwrap
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, get_args

from intrs import quantization, zoo
from intrs.errors import IntrsError, SettingsError
from intrs.exact import parse_count, parse_seed
from intrs.exchange.targets import DEFAULT, TARGETS
from intrs.request import MOST, MOST_NAMES, REQUESTS, Attack, Certify, Dialect, Request
from intrs.training.pytorch import DEVICES, ON_THE_CPU
from intrs.training.recipe import (
    CONSISTENCY,
    EPOCHS_AFTER_START,
    NOISES,
    OBJECTIVES,
    PRECISIONS,
    SCHEDULES,
    Recipe,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import SupportsWrite

SHORT_RUN = {"certify": 10_000, "predict": 1000}  # samples, when there are no arguments at all
SHORT_RUN_IMAGES = 10
INTEGER_LAWS = ("discrete", "rounded")
LAWS = (*INTEGER_LAWS, "continuous")
PORT, LAST_PORT = 8000, 65535  # of `intrs web --serve`; the last that there is
KERNELS = "set of inner loops, such as avx2 or scalar; all give the same bits (the fastest of this machine)"
WORDS = {"certify": "Certify images: a class and a radius for each", "predict": "Predict images: a class for each"}

R = TypeVar("R", bound=Request)
T = TypeVar("T")


class Parser(argparse.ArgumentParser):
    """argparse, with mistakes reported the way all others are, by the command that they are of."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options | {"allow_abbrev": False})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """There are no others."""
        found, others = super().parse_known_args(args, namespace)
        if others:
            self.error(f"unrecognized arguments: {' '.join(others)}")
        return found, others

    def error(self, message: str) -> NoReturn:
        """Refuse the arguments, and name what may have been meant."""
        raise IntrsError(f"{message}{self._meant(message)}\nsee `{self.prog} --help`")

    def _meant(self, message: str) -> str:
        """The option or command that comes nearest to what was not understood."""
        kind, _, rest = message.partition(": ")
        if kind == "unrecognized arguments":
            word, known = rest.split("=")[0].split()[0], list(self._option_string_actions)
        elif "invalid choice: " in message:
            word, *known = re.findall(r"'([^']*)'", message) or [""]
        else:
            return ""
        near = get_close_matches(word, known, 1)
        return f"; did you mean {near[0]}?" if near else ""

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Print it, and let a full disk be heard of."""
        print(self.format_help(), end="", file=file)


class Version(argparse.Action):
    """--version, read from the installed package only when asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Print and leave."""
        from intrs.version import __version__

        print(f"intrs {__version__}")
        parser.exit()


class Completion(argparse.Action):
    """--completion SHELL: what the shell is to run."""

    def __call__(self, parser: argparse.ArgumentParser, _: object, shell: Any, __: object = None) -> NoReturn:
        """Print and leave."""
        import shtab

        print(shtab.complete(parser, shell=shell))
        parser.exit()


def parse(argv: list[str]) -> argparse.Namespace:
    """The arguments, with `call` naming the function that takes them and `argv` as they were given."""
    args = _parser().parse_args(argv or ["--help"])
    args.argv, args.answer = argv, None  # what --json prints, once the command has set it
    args.progress = not (args.quiet or args.json)
    if args.command in REQUESTS:
        _settle(args, short=len(argv) == 1)
    return args


def asked(args: argparse.Namespace, kind: type[R]) -> R:
    """What the arguments of a command ask for."""
    return kind.of(vars(args))


def _settle(args: argparse.Namespace, *, short: bool) -> None:
    """What ships, if nothing is named, and the short run of a command without arguments."""
    args.model = args.model or zoo.DEFAULT_MODEL
    args.data = args.data[0] if len(args.data) == 1 else tuple(args.data) or zoo.DEFAULT_DATA
    args.short, args.resume = short, not args.overwrite  # the same command continues
    if short:
        args.n, args.max = SHORT_RUN[args.command], SHORT_RUN_IMAGES


WITH_JSON = ("certify", "predict", "verify", "merge", "info", "zoo")
SHELLS = ("bash", "zsh")
GROUPS = {
    "Certify": ("certify", "predict", "verify", "merge"),
    "See the results": ("report", "plot", "web"),
    "Models and data": ("zoo", "data", "info", "quantize", "train", "export", "table"),
    "Research": ("attack", "reproduce"),
}
EPILOG = """Examples:
  intrs certify                                        ten bundled images, within seconds
  intrs certify model.tflite images/ --sigma 0.25      your own network and images
  intrs report run.tsv -o report.html                  one page about a run

The same command continues what was interrupted; --overwrite begins anew.
-q prints errors only, --json prints one object for scripts.
`intrs --version` prints the version.
Completion of commands and options: eval "$(intrs --completion bash)"

Environment:
  INTRS_DATA            where data sets are stored
  INTRS_KERNELS         the kernel set to use, instead of the fastest
  INTRS_READ_MINUTES    for judging one results file again (1)
  RAY_ADDRESS           the cluster that --ray joins"""


class Program(Parser):
    """`intrs` itself: its help lists the commands by what they are for."""

    def format_help(self) -> str:
        """Groups of commands, examples, environment."""
        commands = next(a for a in self._actions if isinstance(a, argparse._SubParsersAction))
        words = {action.dest: str(action.help) for action in commands._choices_actions}
        width = max(map(len, words)) + 4
        parts = [f"usage: {self.prog} COMMAND ...\n", f"{self.description}\n"]
        for group, names in GROUPS.items():
            lines = [textwrap.fill(words[n], 79, initial_indent=f"  {n}".ljust(width), subsequent_indent=" " * width)
                     for n in names if n in words]  # fmt: skip
            parts.append("\n".join([f"{group}:", *lines, ""]))
        parts.append(f"`{self.prog} COMMAND --help` says what a command takes, with defaults in brackets.\n")
        return "\n".join([*parts, EPILOG, ""])


def _parser() -> Parser:
    parser = Program(
        "intrs", description="Certified robustness in integers: randomized smoothing of quantized networks."
    )
    parser.add_argument("--version", action=Version, nargs=0, help="print the version and leave")
    words = "print a script that completes commands and options in this shell"
    parser.add_argument("--completion", action=Completion, choices=SHELLS, help=words)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    for command in REQUESTS:
        short = f"Without any argument: {SHORT_RUN_IMAGES} bundled images, {SHORT_RUN[command]:,} samples each."
        words = f"{WORDS[command]}. {short}"
        _add_run(commands.add_parser(command, help=WORDS[command], description=words), command)
    words = "Recompute the votes and radii of a results file; exit code 1 at the first difference"
    _add_verify(commands.add_parser("verify", help=words, description=words + "."))
    words = "Join the parts of a run that --shard or --first made, on any machines, into one results file"
    _add_merge(commands.add_parser("merge", help=words, description=words + "."))
    words = "Show a model's layers, sizes, accumulator bounds, kernels and identity"
    _add_info(commands.add_parser("info", help=words, description=words + "."))
    words = "Write a model for other programs and devices: TFLite, ONNX, C99 for microcontrollers, TOSA"
    _add_export(commands.add_parser("export", help=words, description=words + "."))
    words = "Write the table from votes to squared radius"
    _add_table(commands.add_parser("table", help=words, description=words + "."))
    words = "Write one self-contained page about one or several runs: curves, numbers, images, origin"
    _add_report(commands.add_parser("report", help=words, description=words + "."))
    words = "Write the page that certifies in a browser, as a folder for any server, or serve it here"
    _add_web(commands.add_parser("web", help=words, description=words + "."))
    words = "Plot certified accuracy against radius for a paper (extra `plot`)"
    _add_plot(commands.add_parser("plot", help=words, description=words + "."))
    words = "Train a network under noise, then quantize it (extra `train`); the same command continues a run"
    _add_train(commands.add_parser("train", help=words, description=words + "."))
    words = (
        "Quantize a float ONNX file to int8 for this noise, and check it against the float network (extra `quantize`)"
    )
    _add_quantize(commands.add_parser("quantize", help=words, description=words + "."))
    words = "Attack a network or its smoothed form by PGD on the integer grid (extra `train`)"
    _add_attack(commands.add_parser("attack", help=words, description=words + "; the same command continues a run."))
    words = "Run the experiments of the paper (Lin et al., ICCV 2021) from one plan, and compare with its numbers"
    _add_reproduce(commands.add_parser("reproduce", help=words, description=words + "; the same command continues."))
    words = "List the data sets that are known by name; with a NAME, fetch one, check it and store it"
    _add_data(commands.add_parser("data", help=words, description=words + "."))
    words = "List the models that ship, with their accuracy and origin; with a NAME, print the model's card"
    _add_zoo(commands.add_parser("zoo", help=words, description=words + "."))
    for name, each in commands.choices.items():
        _add_output(each, name)
    return parser


def _add_output(parser: Parser, command: str) -> None:
    """How much is said, and to whom."""
    parser.set_defaults(json=False)
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")
    if command in WITH_JSON:
        parser.add_argument("--json", action="store_true", help="print the outcome as one JSON object, for scripts")


def _add_run(parser: Parser, command: str) -> None:
    parser.set_defaults(call="run:run")
    n = REQUESTS[command].n
    parser.add_argument(
        "model", nargs="?", metavar="MODEL", help="an int8 file, ONNX or TFLite, or a model that ships with intrs"
    )
    words = "a data set's name, an .npz, a folder of images, or image files such as cat.png"
    parser.add_argument("data", nargs="*", metavar="DATA", help=words)
    _add_noise(parser, required=False, laws=LAWS)
    if command == "certify":
        parser.add_argument(
            "--n0",
            type=_count,
            default=Certify.n0,
            metavar="N0",
            help=f"samples per image that select the class ({Certify.n0})",
        )
    parser.add_argument("--n", type=_samples, default=n, metavar="N", help=f"samples per image ({n})")
    _add_alpha(parser)
    if command == "certify":
        _add_bound(parser)
        parser.add_argument(
            "--form",
            choices=("one", "two"),
            default=Certify.form,
            help="bound from the top class only (one), or from top class and runner-up (two)",
        )
        _add_adaptive(parser, "take only as many samples as the answer needs; --n is the most")
    _add_images(parser)
    words = "make image files fit the model: resize (may distort), or scale and crop to the centre (left as they are)"
    parser.add_argument("--fit", default=Request.fit, metavar="resize|crop", help=words)
    _add_classes(parser)
    words = "do part I of K, for `intrs merge`; auto: the task of a SLURM array; :samples divides samples, not images"
    parser.add_argument("--shard", default="", metavar="I/K", help=words)
    parser.add_argument(
        "-o", "--out", type=_path, metavar="FILE", help="results file to write (a name made of the settings)"
    )
    existing = parser.add_mutually_exclusive_group()
    existing.add_argument("--resume", action="store_true", help=argparse.SUPPRESS)  # which is what happens anyway
    existing.add_argument("--overwrite", action="store_true", help="begin anew if FILE exists (else continue it)")
    _add_engine(parser)
    _add_cluster(parser)
    words = "with --ray: count this share of the work on two nodes and compare, such as 1%% (0)"
    parser.add_argument("--twice", default="0", metavar="P", help=words)
    _add_loader(parser)


def _add_verify(parser: Parser) -> None:
    parser.set_defaults(call="verify:verify")
    parser.add_argument("results", type=_path, metavar="RESULTS", help="a results file, its FILE.json beside it")
    parser.add_argument(
        "--images", type=_count, metavar="K", help="count the votes of only K images again, drawn at random"
    )
    parser.add_argument("--model", metavar="MODEL", help="where the model is now, if it was moved")
    words = "where the data is now, if it was moved; image files one by one (may be repeated)"
    parser.add_argument("--data", action="append", metavar="DATA", help=words)
    _add_engine(parser)
    _add_cluster(parser)


def _add_merge(parser: Parser) -> None:
    parser.set_defaults(call="merge:merge")
    words = "results files of the parts, each with its FILE.json (and FILE.votes) beside it"
    parser.add_argument("parts", nargs="+", type=_path, metavar="PART", help=words)
    parser.add_argument("-o", "--out", type=_path, required=True, metavar="FILE", help="the results of the whole run")
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")


def _add_info(parser: Parser) -> None:
    parser.set_defaults(call="info:info")
    words = "classify a few of these images with and without noise, and say how many are correct"
    parser.add_argument("--data", metavar="DATA", help=words)
    words = "the noise of these images, as a fraction of the pixel range (recorded in the model)"
    parser.add_argument("--sigma", metavar="S", help=words)
    parser.add_argument(
        "model", nargs="?", metavar="MODEL", help="an int8 file, ONNX or TFLite, or a model that ships with intrs"
    )
    parser.add_argument("--kernels", default="", metavar="NAME", help=KERNELS)
    _add_loader(parser)


def _add_export(parser: Parser) -> None:
    parser.set_defaults(call="make:export")
    parser.add_argument("model", metavar="MODEL", help="an int8 file, ONNX or TFLite, or a model that ships with intrs")
    parser.add_argument("-o", "--out", type=_path, required=True, metavar="FILE", help="file or folder to write")
    words = f"what to write it as (what the suffix of FILE says, else {DEFAULT})"
    parser.add_argument("--target", choices=tuple(TARGETS), help=words)
    words = "tflite, onnx: images on which the file is compared with the model (pictures from a fixed seed)"
    parser.add_argument("--data", metavar="DATA", help=words)
    words = (
        "tflite, onnx: noise of these images; c, web: noise of the certificates (recorded in the model); web: S,S,..."
    )
    parser.add_argument("--sigma", metavar="S", help=words)
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    _add_microcontroller(parser)
    _add_loader(parser)


def _add_microcontroller(parser: Parser) -> None:
    """Of the targets c and web. Without a default: only what is given reaches the target."""
    group = parser.add_argument_group("options of the targets c and web")
    group.add_argument("--noise", choices=("discrete", "rounded"), help=f"law of the noise ({Request.noise})")
    words = "certify with N samples; with --radii, or left out, adaptively with at most N"
    group.add_argument("-n", "--n", type=_samples, metavar="N", help=f"{words} ({Certify.n})")
    group.add_argument("--n0", type=_count, metavar="N", help=f"samples that select the class ({Certify.n0})")
    group.add_argument(
        "--alpha", metavar="A", help=f"largest probability that an answer does not hold ({Request.alpha})"
    )
    group.add_argument("--bound", choices=("sound", "paper"), help=f"what turns votes into a radius ({Certify.bound})")
    group.add_argument("--radii", type=_list, metavar="R,R,...", help="radii to decide (0,.25,.5,...)")
    group.add_argument("--give-up", metavar="P", help="probability of giving a radius up early, as for certify (0.7)")
    group.add_argument("--only", choices=("predict", "certify"), help="write the tables of this one only")
    group.add_argument("--at-least", metavar="R", help="only answer whether the radius is at least R")
    group.add_argument("--predict-n", type=_count, metavar="N", help="samples of a prediction (c: 100, web: 1000)")
    group.add_argument("--ram", metavar="BYTES", help="refuse what needs more RAM, such as 48K")
    group.add_argument("--flash", metavar="BYTES", help="refuse what needs more flash, such as 128K")
    group.add_argument("--name", metavar="NAME", help="what a page calls the model (the name of FILE)")
    group.add_argument("--names", metavar="N,N,...", help="names of the classes (those of a model that ships)")
    words = "3 x 3 convolutions with at most C channels by Winograd's tiles: faster (not on Helium), in more flash"
    group.add_argument("--tiles", metavar="C", help=f"{words}; auto: those that fit (0)")


def _add_table(parser: Parser) -> None:
    parser.set_defaults(call="make:table")
    _add_noise(parser, required=True)
    parser.add_argument("-n", "--n", type=_samples, default=Certify.n, metavar="N", help=f"samples ({Certify.n})")
    _add_alpha(parser)
    parser.add_argument(
        "--dimension",
        type=_count,
        required=True,
        metavar="D",
        help="values per image: height x width x channels, such as 3072",
    )
    _add_bound(parser)
    _add_adaptive(parser, "the tables of `certify --adaptive`: votes that accept or give up each radius, at each look")
    parser.add_argument("--text", action="store_true", help="print adaptive tables as text instead of writing a file")
    parser.add_argument("-o", "--out", type=_path, metavar="FILE", help="table to write")
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")


def _add_train(parser: Parser) -> None:
    parser.set_defaults(call="train:train")
    parser.add_argument("data", metavar="DATASET", help="a data set with the splits train and test")
    words = (
        "resnet20 or another resnetN, N = 6n+2; resnet50, resnet50-v1; or your own: a float .onnx, or the code of a "
    )
    words += "PyTorch module, which is run: net.py:Net(width=16) or package.module:Net"
    parser.add_argument("architecture", metavar="ARCH", help=words)
    parser.add_argument("outdir", type=_path, metavar="OUTDIR", help="folder for checkpoints, networks and results")
    parser.add_argument("--sigma", metavar="S", help="noise, as a fraction of the pixel range: 0.25 or 1/4")
    words = f"law of the noise; none: train without noise, and without --sigma ({Recipe.noise})"
    parser.add_argument("--noise", choices=NOISES, default=Recipe.noise, help=words)
    words = f"loss that is minimised ({Recipe.objective})"
    parser.add_argument("--objective", choices=OBJECTIVES, default=Recipe.objective, help=words)
    lam, eta, copies = CONSISTENCY.values()
    words = f"weight of the consistency term in the consistency loss ({lam:g})"
    parser.add_argument("--lambda", dest="lam", type=float, metavar="L", help=words)
    words = f"weight of the entropy term in the consistency loss ({eta:g})"
    parser.add_argument("--eta", type=float, metavar="E", help=words)
    words = f"noisy copies per image ({Recipe.copies}; consistency {copies})"
    parser.add_argument("--copies", type=_count, metavar="M", help=words)
    _add_recipe(parser)
    words = "begin with the float weights of the run in DIR"
    parser.add_argument("--start", type=_path, metavar="DIR", help=words)
    words = "begin with these weights: a state_dict (.safetensors, .pth) for ARCH of your own; ImageNet weights, "
    words += "torchvision's file (resnet50) or a TensorFlow.js export (resnet50-v1)"
    parser.add_argument("--weights", type=_path, metavar="FILE", help=words)
    words = "mean of the normalisation of pixels over 255 that ARCH of your own leaves to its caller (none)"
    parser.add_argument("--mean", default=Recipe.mean, metavar="M,M,M", help=words)
    parser.add_argument(
        "--std", default=Recipe.std, metavar="S,S,S", help="standard deviation of this normalisation (none)"
    )
    words = "leave the layers before NAME as they are, such as layer4 (train all)"
    parser.add_argument("--train-from", default=Recipe.train_from, metavar="NAME", help=words)
    words = "watch K training images after every epoch, and do not train on them (watch test images)"
    parser.add_argument("--hold-out", type=_count, default=Recipe.hold_out, metavar="K", help=words)
    words = f"seed of the training: 256 bits, decimal or 0x... ({Recipe.seed})"
    parser.add_argument("--seed", type=_seed, default=Recipe.seed, metavar="K", help=words)
    _add_threads(parser)
    _add_device(parser)


def _add_recipe(parser: Parser) -> None:
    words = f"epochs in float ({Recipe.epochs}; {EPOCHS_AFTER_START} with --start)"
    parser.add_argument("--epochs", type=_whole, metavar="N", help=words)
    words = f"epochs with quantization; 0 ends with a float network ({Recipe.qat_epochs})"
    parser.add_argument("--qat-epochs", type=_whole, default=Recipe.qat_epochs, metavar="N", help=words)
    words = f"images per step ({Recipe.batch})"
    parser.add_argument("--batch", type=_count, default=Recipe.batch, metavar="B", help=words)
    words = f"largest learning rate in float ({Recipe.lr})"
    parser.add_argument("--lr", type=float, default=Recipe.lr, metavar="R", help=words)
    words = f"largest learning rate with quantization ({Recipe.qat_lr})"
    parser.add_argument("--qat-lr", type=float, default=Recipe.qat_lr, metavar="R", help=words)
    words = f"schedule of the learning rate in float ({Recipe.schedule})"
    parser.add_argument("--schedule", choices=SCHEDULES, default=Recipe.schedule, help=words)
    words = f"Nesterov momentum ({Recipe.momentum})"
    parser.add_argument("--momentum", type=float, default=Recipe.momentum, metavar="M", help=words)
    words = f"weight decay, of weights alone ({Recipe.weight_decay})"
    parser.add_argument("--weight-decay", type=float, default=Recipe.weight_decay, metavar="W", help=words)
    words = "do not mirror images: for digits and letters"
    parser.add_argument("--no-flip", dest="flip", action="store_false", default=Recipe.flip, help=words)
    words = f"shift images by up to P pixels ({Recipe.pad})"
    parser.add_argument("--pad", type=_whole, default=Recipe.pad, metavar="P", help=words)
    words = f"precision of convolutions; the last epoch with quantization is in fp32 ({Recipe.precision})"
    parser.add_argument("--precision", choices=PRECISIONS, default=Recipe.precision, help=words)


def _add_quantize(parser: Parser) -> None:
    parser.set_defaults(call="quantize:quantize")
    parser.add_argument("model", metavar="MODEL", help="a float ONNX file, or a float network that ships with intrs")
    parser.add_argument("data", metavar="DATA", help="a data set's name, an .npz, or a folder of images")
    words = "noise, as a fraction of the pixel range: 0.25 or 1/4 (recorded in the model)"
    parser.add_argument("--sigma", metavar="S", help=words)
    parser.add_argument("-o", "--out", type=_path, required=True, metavar="FILE", help="int8 ONNX file to write")
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    parser.add_argument("--split", help="part of the data set (train if there is one, else test)")
    parser.add_argument("--max", type=_count, metavar="K", help="take at most K images (1,024)")
    words = f"seed of the noise: 256 bits, decimal or 0x... ({quantization.SEED})"
    parser.add_argument("--seed", type=_seed, default=quantization.SEED, metavar="K", help=words)
    _add_threads(parser)
    words = "what the model's input is: pixels / 255 (unit), pixels 0..255 (byte), or told by file, mean and std (auto)"
    _add_pixels(parser, words)
    _add_classes(parser)


def _add_attack(parser: Parser) -> None:
    parser.set_defaults(call="attack:attack")
    words = "an int8 file, ONNX or TFLite, a float ONNX file of `intrs train`, or a model that ships"
    parser.add_argument("model", nargs="?", metavar="MODEL", help=words)
    parser.add_argument("data", nargs="?", metavar="DATA", help="a data set's name, an .npz, or a folder of images")
    parser.add_argument("out", nargs="?", type=_path, metavar="OUTDIR", help="folder for results and attacked images")
    parser.add_argument("--norm", choices=("l2", "linf"), default=Attack.norm, help="norm of the perturbation (l2)")
    words = "radii, as fractions of the pixel range (the paper's)"
    parser.add_argument("--eps", type=_list, default=Attack.eps, metavar="E,E,...", help=words)
    parser.add_argument("--steps", type=_count, metavar="K", help="steps of the descent (20 in l2, 7 in linf)")
    parser.add_argument(
        "--draws", type=_count, default=Attack.draws, metavar="K", help=f"noisy copies per step ({Attack.draws})"
    )
    parser.add_argument(
        "--restarts",
        type=_count,
        default=Attack.restarts,
        metavar="K",
        help="starts per image, of which the best counts (1)",
    )
    words = "take the gradients from this network and transfer the attack (MODEL itself)"
    parser.add_argument("--source", default=Attack.source, metavar="MODEL", help=words)
    words = " (recorded in the model; 0: the network without smoothing)"
    _add_noise(parser, required=False, words=words, laws=LAWS)
    parser.add_argument("--n", type=_samples, default=Attack.n, metavar="N", help=f"votes per answer ({Attack.n})")
    _add_alpha(parser)
    _add_images(parser, "`intrs attack --join`")
    _add_classes(parser)
    words = "attack part I of K, for --join: every K-th image; auto: the task of a SLURM array"
    parser.add_argument("--shard", default="", metavar="I/K", help=words)
    _add_engine(parser)
    _add_loader(parser)
    _add_device(parser)
    words = "attack nothing: put folders that hold parts of one attack (--first, --skip, one --seed) together"
    parser.add_argument("--join", nargs="+", type=_path, metavar="DIR", help=words)
    parser.add_argument("-o", "--to", type=_path, metavar="DIR", help="with --join: folder for the whole attack")


def _add_reproduce(parser: Parser) -> None:
    parser.set_defaults(call="reproduce:reproduce")
    parser.add_argument(
        "plan", nargs="?", type=_path, metavar="PLAN", help="a TOML file (the plan that ships with intrs)"
    )
    words = "run folder: votes, tables, figures (reproduction)"
    parser.add_argument("-o", "--out", type=_path, default=Path("reproduction"), metavar="DIR", help=words)
    parser.add_argument("--quick", action="store_true", help="few images and samples: minutes instead of hours")
    _add_threads(parser)
    _add_cluster(parser)


def _add_report(parser: Parser) -> None:
    parser.set_defaults(call="report:report")
    _add_results(parser)
    parser.add_argument("-o", "--out", type=_path, default=Path("report.html"), metavar="FILE", help="page to write")
    parser.add_argument("--title", default="", metavar="TEXT", help="title of the page (a sentence about the run)")
    words = "where the images are (shown unasked if the data ship; may be repeated for image files)"
    parser.add_argument("--data", action="append", metavar="DATA", help=words)
    words = "folder of an `intrs train` run whose learning curves to show (may be repeated)"
    parser.add_argument("--training", action="append", type=_path, default=[], metavar="DIR", help=words)
    words = "folder that `intrs web` wrote: images that its page can certify link to it"
    parser.add_argument("--web", type=_path, metavar="FOLDER", help=words)
    parser.add_argument("--no-images", action="store_true", help="leave the images out")
    parser.add_argument("--max-images", type=_count, default=200, metavar="K", help="images of each run (200)")
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")


def _add_web(parser: Parser) -> None:
    parser.set_defaults(call="web:web")
    words = "int8 files, or models that ship with intrs; the first is shown first (a selection of those that ship)"
    parser.add_argument("models", nargs="*", metavar="MODEL", help=words)
    parser.add_argument("-o", "--out", type=_path, metavar="FOLDER", help="folder to write")
    words = f"serve it on this machine, at PORT ({PORT}), and open it; without -o from a temporary folder"
    parser.add_argument("--serve", nargs="?", type=_port, const=PORT, metavar="PORT", help=words)
    parser.add_argument("--no-open", action="store_true", help="with --serve: do not open a browser")
    words = "noise of models that do not say theirs, as a fraction of the pixel range (0.25)"
    parser.add_argument("--sigma", metavar="S", help=words)
    parser.add_argument("--data", metavar="DATA", help="where the pictures to choose from are (cifar10-500)")
    words = "which of them, counted from 0 (a dozen)"
    parser.add_argument("--images", type=_wholes, metavar="K,K,...", help=words)
    parser.add_argument("--overwrite", action="store_true", help="replace FOLDER if this command wrote it")


def _add_plot(parser: Parser) -> None:
    parser.set_defaults(call="plot:plot")
    _add_results(parser)
    parser.add_argument("-o", "--out", type=_path, required=True, metavar="FILE", help="a .pdf, .svg or .png to write")
    parser.add_argument("--of", choices=("all", "answered"), default="all", help="images in the denominator (all)")
    parser.add_argument("--cp", action="store_true", help="add a picture of the images certified, right or wrong")
    parser.add_argument("--votes", action="store_true", help="add a picture of the votes for the true class")
    parser.add_argument("--width", choices=("column", "page"), default="column", help="3.25 or 6.75 inches (column)")
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")


def _add_results(parser: Parser) -> None:
    words = "results files, or logs of locuslab/smoothing and its descendants (.tsv, .tsv.xz)"
    parser.add_argument("results", nargs="+", type=_path, metavar="RESULTS", help=words)
    parser.add_argument(
        "--label", action="append", default=[], metavar="TEXT", help="name of a run; once per run, in their order"
    )
    parser.add_argument("--join", action="store_true", help="take all files for parts of one run")
    papers = ("auto", "none", "cifar10", "caltech101")
    words = "draw the curves of the paper (Lin et al., ICCV 2021) for these data (auto: by the data's name)"
    parser.add_argument("--paper", choices=papers, default="auto", help=words)


def _add_data(parser: Parser) -> None:
    parser.set_defaults(call="data:data")
    parser.add_argument("name", nargs="?", metavar="NAME", help="cifar10, caltech101, mnist or fashion-mnist")
    words = "read its archive or folder instead of downloading"
    parser.add_argument("--from", dest="source", type=_path, metavar="PATH", help=words)
    words = "data folder (INTRS_DATA, else the platform's, such as ~/.local/share/intrs)"
    parser.add_argument("--to", type=_path, metavar="DIR", help=words)
    parser.add_argument("--overwrite", action="store_true", help="replace the data set if it has been fetched before")


def _add_zoo(parser: Parser) -> None:
    parser.set_defaults(call="zoo:zoo_command")
    parser.add_argument("name", nargs="?", metavar="NAME", help="a model that ships with intrs")


def _add_noise(
    parser: Parser,
    *,
    required: bool,
    words: str = " (recorded in the model)",
    laws: tuple[str, ...] = INTEGER_LAWS,
) -> None:
    words = "noise, as a fraction of the pixel range: 0.25 or 1/4" + ("" if required else words)
    parser.add_argument("--sigma", required=required, metavar="S", help=words)
    floats = "; continuous: the classical method in floats, by ONNX Runtime" if len(laws) > len(INTEGER_LAWS) else ""
    parser.add_argument("--noise", choices=laws, default=Request.noise, help=f"law of the noise (discrete){floats}")


def _add_alpha(parser: Parser) -> None:
    words = f"largest probability, per image, that the answer does not hold ({Request.alpha})"
    parser.add_argument("--alpha", default=Request.alpha, metavar="A", help=words)


def _add_images(parser: Parser, joiner: str = "`intrs merge`") -> None:
    parser.add_argument(
        "--seed", type=_seed, metavar="K", help="seed of all noise: 256 bits, decimal or 0x... (drawn and recorded)"
    )
    words = f"begin with image K, counted from 0 ({Request.first}); {joiner} puts parts together"
    parser.add_argument("--first", type=_whole, default=Request.first, metavar="K", help=words)
    words = f"take every K-th image from there on ({Request.skip})"
    parser.add_argument("--skip", type=_count, default=Request.skip, metavar="K", help=words)
    parser.add_argument("--max", type=_count, metavar="K", help="take at most K images")
    parser.add_argument("--split", default=Request.split, help=f"part of the data set ({Request.split})")


def _add_bound(parser: Parser) -> None:
    parser.add_argument(
        "--bound",
        choices=("sound", "paper"),
        default=Certify.bound,
        help="what turns votes into a radius: a theorem (sound, the default) or the formula of Lin et al. 2021 (paper)",
    )


def _add_adaptive(parser: Parser, words: str) -> None:
    parser.add_argument("--adaptive", action="store_true", help=words)
    words = "adaptive: radii to decide (0 and every quarter: 0,.25,.5,...)"
    parser.add_argument("--radii", type=_list, default=Certify.radii, metavar="R,R,...", help=words)
    if parser.prog.endswith("certify"):
        words = "adaptive: sample until the radius is this close to what N samples could certify, such as 1%%"
        parser.add_argument("--precision", metavar="P", help=words)
    words = "adaptive: probability of giving a radius up early where N samples would be a coin flip (0.7)"
    parser.add_argument("--give-up", metavar="P", help=words)


def _add_classes(parser: Parser) -> None:
    words = "names of the model's classes in the order of its outputs, or a file with one per line (those of its card)"
    parser.add_argument("--names", type=_names, default=Request.names, metavar="N,N,...|FILE", help=words)
    words = "take the data's labels as the model's class numbers, and do not compare names"
    parser.add_argument("--by-number", action="store_true", help=words)


def _add_threads(parser: Parser) -> None:
    words = "threads (0: all cores)"
    parser.add_argument("--threads", type=_threads, default=Request.threads, metavar="T", help=words)


def _add_engine(parser: Parser) -> None:
    _add_threads(parser)
    parser.add_argument("--kernels", default=Request.kernels, metavar="NAME", help=KERNELS)


def _add_cluster(parser: Parser) -> None:
    words = "count on a Ray cluster (extra `ray`): at ADDRESS, or the one that this machine knows, or a new one here"
    parser.add_argument("--ray", nargs="?", const=True, default=None, metavar="ADDRESS", help=words)
    words = "with --ray: a unit of work takes one core, or all cores of a node (core)"
    parser.add_argument("--workers", choices=("core", "node"), default="core", help=words)


def _add_device(parser: Parser) -> None:
    """Where PyTorch computes; the gradients of an attack need float64, which MPS does not have."""
    tried = "CUDA, else the CPU" if parser.prog.endswith("attack") else "CUDA, else MPS, else the CPU"
    words = f"where PyTorch computes (auto: {tried}); {ON_THE_CPU}"
    parser.add_argument("--device", choices=DEVICES, default="auto", help=words)


TOLD = "what the model's input is: pixels / 255 (unit), pixels 0..255 (byte), or what the file tells (auto)"


def _add_loader(parser: Parser) -> None:
    _add_pixels(parser, TOLD)
    words = "whose rounding a TFLite file is read with: that of TFLite Micro (tflm, the default) or of LiteRT (litert)"
    parser.add_argument("--dialect", choices=get_args(Dialect), default=Request.dialect, help=words)


def _add_pixels(parser: Parser, words: str) -> None:
    """What the file takes for a pixel."""
    parser.add_argument("--pixels", choices=("auto", "unit", "byte"), default=Request.pixels, help=words)
    parser.add_argument(
        "--mean",
        default=Request.mean,
        metavar="M,M,M",
        help="mean of the normalisation that the file leaves to its caller (none)",
    )
    parser.add_argument(
        "--std", default=Request.std, metavar="S,S,S", help="standard deviation of this normalisation (none)"
    )


def _argument(parse: Callable[[str], T]) -> Callable[[str], T]:
    """A parser of numbers, as argparse wants its complaints."""

    def parsed(text: str) -> T:
        try:
            return parse(text)
        except SettingsError as error:
            raise argparse.ArgumentTypeError(str(error).partition(": ")[2] or str(error)) from None

    return parsed


_count = _argument(lambda text: parse_count(text, "number"))
_whole = _argument(lambda text: parse_count(text, "number", 0))
_threads = _argument(lambda text: parse_count(text, "threads", 0, MOST["threads"]))
_samples = _argument(lambda text: parse_count(text, "n", 1, MOST["n"]))
_port = _argument(lambda text: parse_count(text, "port", 0, LAST_PORT))
_seed = _argument(parse_seed)


def _path(text: str) -> Path:
    if not text:  # which Path would take for the current folder
        raise argparse.ArgumentTypeError("expected the name of a file or folder, got ''")
    return Path(text)


def _names(text: str) -> str | list[str]:
    """Names with commas between them, or the lines of a file."""
    from intrs.files import read_bounded

    if "," in text:
        return text
    if not Path(text).is_file():
        raise argparse.ArgumentTypeError(
            f"{text}: no such file; give names with commas between them, or a file of them"
        )
    try:
        return [line.strip() for line in read_bounded(Path(text), 4 * MOST_NAMES).decode().splitlines() if line.strip()]
    except (IntrsError, OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text}: not a file of names ({error})") from None


def _wholes(text: str) -> list[int]:
    return [_whole(part) for part in _list(text)]


def _list(text: str) -> list[str]:
    parts = text.split(",")
    if not all(parts):
        raise argparse.ArgumentTypeError(f"expected numbers with commas between them, such as .25,.5, got {text!r}")
    return parts
