"""`intrs zoo`: what ships, and the card of a model."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from intrs import zoo
from intrs.cli.screen import print_table, show, table
from intrs.metrics import Share
from intrs.text import printable

if TYPE_CHECKING:
    from argparse import Namespace

LISTED_RADII = ("0.25", "0.5", "0.75", "1.0")
NOTHING = "-"
WIDTH = 80


def zoo_command(args: Namespace) -> int:
    """List the models that ship, or print the card of one."""
    if args.name:
        name = args.name.removesuffix(zoo.FP32) if args.name in zoo.float_names() else args.name
        args.answer = zoo.card(name)
        _card(name, args.answer)
    else:
        cards = {name: zoo.card(name) for name in zoo.model_names()}
        args.answer = {"models": cards, "default": zoo.DEFAULT_MODEL, "data": list(zoo.data_names())}
        _list(cards)
    return 0


# --- The list --------------------------------------------------------------------------------------------------------


def _list(cards: dict[str, dict[str, Any]]) -> None:
    made = table("model", "sigma", "kB", "noisy", "n", *(f"r={r}" for r in LISTED_RADII), left=1)
    for name, card in cards.items():
        made.add_row(
            name,
            card["recipe"]["sigma"] or NOTHING,
            f"{zoo.model_path(name).stat().st_size / 1000:,.0f}",
            _noisy(card),
            *_certified_at(card),
        )
    print_table(made)
    print("noisy: % of test images that it gets right in integers, one draw of noise each")
    print(f"r=R: % of {zoo.DEFAULT_DATA} classified correctly and certified at radius R or more")
    print("n: samples per image, at most; -: no run in integers. The cards have more runs")
    for name, card in cards.items():
        print(f"\n{name}" + (" (the default)" if name == zoo.DEFAULT_MODEL else ""))
        show("data", card["data"]["name"])
        show("identity", card["results"]["identity"])
        show("made by", card["command"])
        if zoo.float_path(name):
            show("fp32", name + zoo.FP32)
    print(f"\nImages that ship: {', '.join(zoo.data_names())}. `intrs zoo NAME` prints a model's card.")


def _noisy(card: dict[str, Any]) -> str:
    found = card["results"]["noisy_accuracy"].get("integer") if card["recipe"]["sigma"] else None
    return NOTHING if found is None else f"{100 * found:.1f}"


def _certified_at(card: dict[str, Any]) -> list[str]:
    """Samples per image and shares at the listed radii, by the run with most samples; all on the images that ship."""
    runs = [run for run in card.get("certified") or [] if run["noise"] != "continuous"]
    runs = [run for run in runs if run["data"] == zoo.DEFAULT_DATA]
    if not runs:
        return [NOTHING] * (1 + len(LISTED_RADII))
    run = max(runs, key=lambda run: int(run["n"]))
    return [f"{run['n']:,}", *(_share_at(run, radius) for radius in LISTED_RADII)]


def _share_at(run: dict[str, Any], radius: str) -> str:
    """Right and certified; beyond the last radius of the card, at which nothing is left, or between those asked for."""
    if radius not in run["right"] and float(radius) < max(map(float, run["right"])):
        return NOTHING
    return f"{100 * run['right'].get(radius, 0) / run['images']:.1f}"


# --- A card ----------------------------------------------------------------------------------------------------------


def _card(name: str, card: dict[str, Any]) -> None:
    path = zoo.model_path(name)
    recipe = card["recipe"]
    noise = f"noise of sigma {recipe['sigma']}" if recipe["sigma"] else "trained without noise"
    print(printable(f"{name}: {card['architecture']} for {card['data']['name']}, {noise}\n"))
    show("file", f"{path}, {path.stat().st_size:,} bytes")
    show("card", str(path.with_suffix(".json")))
    if twin := zoo.float_path(name):
        show("fp32", f"{name}{zoo.FP32}: {twin}, {twin.stat().st_size:,} bytes")
    show("identity", card["results"]["identity"])
    show("input", card["input"])
    show("output", card["output"])
    classes = card["classes"]
    show("classes", ", ".join(classes) if isinstance(classes, list) else str(classes))
    for split in ("train", "test"):
        of = card["data"][split]
        show(split, f"{of['images']:,} images, sha256 {of['sha256']}")
    _recipe(card)
    _accuracy(card["results"], noisy=bool(recipe["sigma"]))
    for run in card.get("certified") or ():
        _certified(run)
    _paragraphs("Notes", card.get("notes") or ())
    _paragraphs("Limits", card["limits"])


def _recipe(card: dict[str, Any]) -> None:
    print("\nRecipe")
    show("made by", card["command"])
    recipe, first = card["recipe"], ""
    while recipe:
        print(printable(textwrap.fill(first + _settings(recipe), WIDTH)))
        recipe, first = (recipe.get("start") or {}).get("recipe"), "begun with the float weights of: "
    made = ", ".join(f"{what} {value}" for what, value in card["made_with"].items())
    threads = "/".join(map(str, card["threads"]))
    print(
        printable(
            f"{card['seconds']:,} s of training with {threads} {'thread' if threads == '1' else 'threads'}; {made}"
        )
    )


def _settings(recipe: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {value}"
        for name, value in recipe.items()
        if not isinstance(value, dict) and value not in ("", None) and not name.endswith("sha256")
    )


def _accuracy(results: dict[str, Any], *, noisy: bool) -> None:
    kinds = {"noisy_accuracy": "under noise", "accuracy": "without noise"} if noisy else {"accuracy": "correct"}
    made = table("network", *kinds.values(), left=1)
    for name in results["accuracy"]:
        made.add_row(name.replace("_", "-"), *(f"{100 * results[kind][name]:.2f} %" for kind in kinds))
    print(f"\nAccuracy on {results['test_images']:,} test images" + (", one draw of noise each" if noisy else ""))
    print_table(made)
    if "agreement" in results:
        images = "noisy images" if noisy else "images"
        print(f"integer and fake-quantized network agree on {100 * results['agreement']:.2f} % of the {images}")


def _certified(run: dict[str, Any]) -> None:
    setting = f"{run['data']}, {run['images']:,} images, N={run['n']:,}, alpha {run['alpha']}, {run['bound']} bound"
    setting += ", by the classical method in floats" if run["noise"] == "continuous" else ""
    print(printable(f"\nCertified accuracy: {setting}" + (", adaptive" if run["adaptive"] else "")))
    made = table("radius", "right and certified", "95 % interval for the sample of images")
    for radius, right in run["right"].items():
        share = Share(right, run["images"])
        low, high = share.interval or (0.0, 1.0)
        made.add_row(radius, f"{100 * right / run['images']:.1f} %", f"{100 * low:.1f} - {100 * high:.1f} %")
    print_table(made)
    if run["average_radius"] is not None:
        print(f"{run['answered']:,} images got an answer; average certified radius {run['average_radius']:.3f}")


def _paragraphs(title: str, lines: Any) -> None:
    if lines:
        print(f"\n{title}")
    for line in lines:
        print(printable(textwrap.fill(line, WIDTH, initial_indent="- ", subsequent_indent="  ")))
