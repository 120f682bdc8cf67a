"""`intrs quantize`: a float ONNX file -> an int8 file to certify."""

from __future__ import annotations

import shlex
from inspect import signature
from typing import TYPE_CHECKING

from intrs import quantization
from intrs.cli.screen import complain, print_table, say, show, table
from intrs.exact import parse_fraction

if TYPE_CHECKING:
    from argparse import Namespace

    from intrs.quantization import Quantized

WORST = 3  # activations that are named if much was lost
FIRST_RUN = ("--n", "10000", "--max", "10")  # of certify: minutes at most
UNTRAINED = 0.1  # of accuracy that noise takes from a network which was trained under it, and more from others


def quantize(args: Namespace) -> int:
    """Quantize, check, write, and say what was lost."""
    settings = {
        name: getattr(args, name) for name in signature(quantization.quantize).parameters if hasattr(args, name)
    }
    made = quantization.quantize(**settings)
    _summarise(made)
    _advise(made)
    say(f"\nnext, a first certificate:\n  {shlex.join(_certify(args, made))}")
    return 0


def _summarise(made: Quantized) -> None:
    show("noise", f"discrete Gaussian, sigma {made.sigma}")
    show("images", f"{made.calibration_images:,} noisy ones to calibrate, {made.checked:,} others to check")
    rows = table("ranges of activations", "agreement", left=1)
    for method, agreement in made.candidates.items():
        rows.add_row(method + (" (chosen)" if method == made.method else ""), f"{100 * agreement:.2f} %")
    print("\nAgreement of the top class with the float network, on held-out noisy images")
    print_table(rows)
    if made.method != max(made.candidates, key=lambda method: made.candidates[method]):
        say("of methods this close, the one is chosen that keeps the distance between the first two classes best")
    if made.accuracy:
        rows = table("network", "under noise", "without noise", left=1)
        for name, accuracy in made.accuracy.items():
            rows.add_row(name, f"{100 * accuracy.noisy:.2f} %", f"{100 * accuracy.clean:.2f} %")
        print(f"Accuracy on {made.checked_images:,} other images, {made.checked:,} with noise")
        print_table(rows)
    words = f"{100 * made.agreement:.2f} % of these noisy images"
    say(f"the int8 network gives the float network's class on {words}")
    if made.accuracy:
        change = round(-100 * made.loss, 2) + 0.0  # no minus before a zero
        say(f"noisy accuracy changed by {change:+.2f} points")
    show("identity", made.network.identity)
    show("file", f"{made.path}, {len(made.data):,} bytes")


def _advise(made: Quantized) -> None:
    """What was lost, and what would bring it back."""
    if not made.faithful:
        worst = sorted(made.signal_to_noise.items(), key=lambda item: item[1])[:WORST]
        named = ", ".join(f"{name} ({ratio:.0f} dB)" for name, ratio in worst)
        complain(
            "the int8 network does not follow the float one closely; training with quantization (`intrs train`) would "
            f"bring most of it back. The noisiest activations: {named}"
        )
    if made.accuracy and made.accuracy["float"].clean - made.accuracy["float"].noisy > UNTRAINED:
        noisy, clean = 100 * made.accuracy["float"].noisy, 100 * made.accuracy["float"].clean
        complain(
            f"the float network itself is right on {noisy:.1f} % of noisy images and {clean:.1f} % of clean ones: it "
            "was not trained under this noise, so many certificates will be abstentions or wrong classes. Fine-tune "
            "it under noise (`intrs train`), or take a smaller --sigma"
        )


def _certify(args: Namespace, made: Quantized) -> list[str]:
    """The command that certifies some images."""
    said = made.trained_sigma and parse_fraction(made.trained_sigma, "sigma") == parse_fraction(made.sigma, "sigma")
    return ["intrs", "certify", str(args.out), args.data, *([] if said else ["--sigma", made.sigma]), *FIRST_RUN]
