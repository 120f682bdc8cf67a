"""Model cards in the form that Hugging Face reads: a README with YAML in front.

    python tools/card_readme.py                             # what ships, and docs/cards/*.json, into docs/cards
    python tools/card_readme.py run/net.json --out net.md   # the card that `intrs train` wrote

Everything in them comes from the card; docs/zoo.md says what its fields are.
"""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path
from typing import Any

from intrs import zoo
from intrs.metrics import Share
from intrs.training.card import read_card

CARDS = Path(__file__).resolve().parent.parent / "docs" / "cards"
TITLES = {"cifar10": "CIFAR-10", "caltech101": "Caltech-101"}


def readme(card: dict[str, Any], name: str) -> str:
    """The README of a model, by its card and the name of its files."""
    parts = [
        f"---\n{_front(card, name)}---",
        f"# {name}",
        _what(card),
        _how(name, card["recipe"]["sigma"] or "0.25"),
        f"## Accuracy\n\n{_accuracy(card)}",
        *([f"## Certified accuracy\n\n{_certified(card)}"] if card.get("certified") else []),
        f"## How it was made\n\n{_made(card)}",
        "## Limits\n\n" + "\n".join(_wrapped(f"- {words}") for words in card["limits"]),
    ]
    return "\n\n".join(parts) + "\n"


def _front(card: dict[str, Any], name: str) -> str:
    """The YAML. Texts are written as JSON, which is YAML, too."""
    tags = ["certified-robustness", "randomized-smoothing", "quantized", "int8", "onnx"]
    metrics = [
        {"type": "accuracy", "name": words, "value": round(100 * value, 2)}
        for words, value in _accuracies(card).items()
    ]
    result = {
        "task": {"type": "image-classification"},
        "dataset": {"name": _title(card), "type": card["data"]["name"], "split": "test"},
        "metrics": metrics,
    }
    fields = {
        "license": "apache-2.0", "library_name": "intrs", "pipeline_tag": "image-classification", "tags": tags,
        "datasets": [card["data"]["name"]], "metrics": ["accuracy"],
        "model-index": [{"name": name, "results": [result]}],
    }  # fmt: skip
    return "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in fields.items())


def _title(card: dict[str, Any]) -> str:
    name = str(card["data"]["name"])
    return TITLES.get(name, name)


def _accuracies(card: dict[str, Any]) -> dict[str, float]:
    """Of the network that is certified, else of the float one."""
    results, sigma = card["results"], card["recipe"]["sigma"]
    form = "integer" if "integer" in results["accuracy"] else "fp32"
    noisy = {f"accuracy under noise of sigma {sigma}": results["noisy_accuracy"][form]} if sigma else {}
    return noisy | {"accuracy without noise": results["accuracy"][form]}


def _what(card: dict[str, Any]) -> str:
    sigma = card["recipe"]["sigma"]
    noise = (
        f"trained for certificates under noise of sigma {sigma}" if sigma else "trained without noise, for comparison"
    )
    classes = card["classes"] if isinstance(card["classes"], int) else len(card["classes"])
    return (
        f"An int8 network (`{card['architecture']}`) for the {classes} classes of {_title(card)}, {noise}.\n"
        f"intrs certifies its answers in integers: a class, and an L2 radius within which it cannot change.\n\n"
        f"- input: {card['input']}\n- output: {card['output']}\n- identity: `{card['results'].get('identity', 'none')}`"
    )


def _how(name: str, sigma: str) -> str:
    return f"""## How to use it

```python
import intrs

smooth = intrs.Smooth(intrs.load("{name}.onnx"), sigma={sigma})
answer = smooth.certify(image, n=10_000)  # image: uint8, (height, width, channels)
print(answer.certified, answer.label, answer.radius)
```"""


def _accuracy(card: dict[str, Any]) -> str:
    results = card["results"]
    rows = [
        f"| {form.replace('_', '-')} | {100 * results['noisy_accuracy'][form]:.2f} % | {100 * value:.2f} % |"
        for form, value in results["accuracy"].items()
    ]
    head = f"On {results['test_images']:,} test images, with one draw of noise each:\n\n"
    return head + "| network | under noise | without noise |\n|---|---:|---:|\n" + "\n".join(rows)


def _certified(card: dict[str, Any]) -> str:
    return "\n\n".join(_run(run) for run in card["certified"])


def _run(run: dict[str, Any]) -> str:
    """A table of one run, with the intervals that come from having so many images."""
    samples = f"at most {run['n']:,} samples (adaptive)" if run["adaptive"] else f"{run['n']:,} samples"
    head = (
        f"{run['images']:,} images of {run['data']}, {samples} per image, {run['noise']} noise, alpha {run['alpha']},\n"
        f"seed {run['seed']}; {run['answered']:,} images were answered.\n\n"
    )
    rows = []
    for radius, right in run["right"].items():
        share = Share(right, run["images"])
        assert share.value is not None  # a run has at least one image
        assert share.interval is not None
        low, high = (100 * float(end) for end in share.interval)
        rows.append(f"| {radius} | {100 * share.value:.1f} % | {low:.1f} to {high:.1f} % |")
    return head + "| radius | right and certified | 95 % interval |\n|---:|---:|---:|\n" + "\n".join(rows)


def _made(card: dict[str, Any]) -> str:
    made = ", ".join(f"{name} {version}" for name, version in card["made_with"].items())
    return "\n\n".join([f"```sh\n{card['command']}\n```", f"Made with {made}.", *map(_wrapped, card.get("notes", []))])


def _wrapped(words: str) -> str:
    return textwrap.fill(words, 118, break_on_hyphens=False, break_long_words=False)


def cards() -> dict[str, dict[str, Any]]:
    """All cards of the repository, by the name that their README gets."""
    shipped = {name: zoo.card(name) for name in zoo.model_names()}
    return shipped | {path.stem: read_card(path) for path in sorted(CARDS.glob("*.json"))}


def main() -> None:
    """Write one README, or all."""
    parser = argparse.ArgumentParser(description="write model cards as Hugging Face reads them")
    parser.add_argument("card", nargs="?", type=Path, help="a card of `intrs train` (all of the repository)")
    parser.add_argument("--out", type=Path, help="file to write, or with all cards a folder (docs/cards)")
    args = parser.parse_args()
    if args.card:
        (args.out or args.card.with_suffix(".md")).write_text(readme(read_card(args.card), args.card.stem), "utf-8")
        return
    for name, card in cards().items():
        ((args.out or CARDS) / f"{name}.md").write_text(readme(card, name), "utf-8")


if __name__ == "__main__":
    main()
