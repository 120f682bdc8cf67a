"""What a reproduction writes at its end: Markdown, JSON, figures, and the page of all methods' runs."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from intrs import __version__
from intrs.data.matching import matched
from intrs.exact import plain
from intrs.experiments.attacks import finished
from intrs.experiments.certificates import ALPHAS
from intrs.experiments.plan import COMPARED, SIGMAS
from intrs.experiments.tables import sections
from intrs.files import write_whole
from intrs.noise import Noise
from intrs.reports.runs import METHODS, Entry
from intrs.reports.tables import text
from intrs.votes import Samples, noisy_images

if TYPE_CHECKING:
    from collections.abc import Callable

    from intrs.experiments.folder import Found
    from intrs.experiments.section import Section

FIGURES = "figures"
SHOWN = 8  # images under noise
ENLARGED = 2
CARDS = 40  # images of each run on the page, which has up to 12
FORMAT = "intrs reproduction 1"


def write(found: Found) -> tuple[list[Section], list[Path]]:
    """Write everything: the experiments as data, and the paths of the pages."""
    (found.folder / FIGURES).mkdir(exist_ok=True)
    made = [_with_figures(found, section) for section in sections(found)]
    markdown, data = found.folder / "results.md", found.folder / "results.json"
    write_whole(markdown, _markdown(found, made).encode())
    write_whole(data, (json.dumps(_json(found, made), indent=1, default=str) + "\n").encode())
    return made, [markdown, data, *_page(found)]


def _markdown(found: Found, made: list[Section]) -> str:
    plan = found.plan
    taken, floats = (len(found.data.positions(0, plan.skip, most)) for most in (plan.images, plan.images_of_floats))
    fewer = f" ({floats:,} of the float methods)" if floats < taken else ""
    begin = (
        f"intrs {__version__}, {platform.platform()}, Python {platform.python_version()}. "
        f"Data: {text(found.data.name)}, {taken:,} images{fewer}; n = {plan.n:,}, "
        f"n0 = {plan.n0:,}, alpha = {plan.alpha}, seed {plan.seed}."
    )
    networks = [f"- {m} trained at sigma {plain(s)}: {text(Path(spec).name)}" for m, s, spec in plan.models]
    absent = [f"The plan names {text(spec)}, which does not exist." for spec in plan.absent]
    return (
        "\n\n".join(["# The paper's experiments", begin, "\n".join(networks), *absent, *(s.markdown() for s in made)])
        + "\n"
    )


def _json(found: Found, made: list[Section]) -> dict[str, object]:
    origin = {"intrs": __version__, "platform": platform.platform(), "python": platform.python_version()}
    return {
        "format": FORMAT, **origin, "plan": asdict(found.plan), "data_sha256": found.data.sha256,
        "experiments": [section.as_json() for section in made],
    }  # fmt: skip


# --- Figures ---------------------------------------------------------------------------------------------------------


def _with_figures(found: Found, section: Section) -> Section:
    if section.experiment == "i":
        return replace(section, figures=(_noisy(found),))
    draw = _DRAWN.get(section.experiment)
    if draw is None or not section.tables:
        return section
    if find_spec("matplotlib") is None:
        return replace(section, notes=(*section.notes, "Figures need matplotlib: pip install 'intrs[plot]'."))
    return replace(section, figures=tuple(draw(found)))


def _curves(found: Found) -> list[str]:
    """One figure per sigma: certified accuracy and, beside it, what was certified right or wrong."""
    from intrs.reports.figure import figure

    names = []
    for sigma in SIGMAS:
        if entries := [entry for entry in _entries(found) if entry.sigma == sigma]:
            names.append(f"{FIGURES}/accuracy-sigma{plain(sigma)}.svg")
            made = figure(entries, ".svg", cp=True, width="page", which=found.plan.paper)
            write_whole(found.folder / names[-1], made)
    return names


def _alphas(found: Found) -> list[str]:
    """One figure per method: its votes judged at every alpha."""
    from intrs.reports.figure import figure

    names = []
    for method in COMPARED:
        if judged := found.at_alphas(method, ALPHAS):
            names.append(f"{FIGURES}/alpha-{method}.svg")
            entries = [Entry(f"{method}, α {alpha}", again, method) for alpha, again in judged.items()]
            write_whole(found.folder / names[-1], figure(entries, ".svg", which="none"))
    return names


def _attacks(found: Found, letter: str, xlabel: str) -> list[str]:
    """Accuracy against the radius of the attack."""
    from intrs.reports.figure import simple_figure

    lines = []
    for each in finished(found, letter):
        shares = found.attacked(each)
        lines.append((each.victim, [float(eps) for eps in shares], [right for right, *_ in shares.values()]))
    path = f"{FIGURES}/attack-{letter}.svg"
    write_whole(found.folder / path, simple_figure(lines, xlabel, "accuracy under attack", ".svg"))
    return [path]


_DRAWN: dict[str, Callable[[Found], list[str]]] = {
    "a": _curves,
    "e": _alphas,
    "f": lambda found: _attacks(found, "f", r"$\ell_2$ radius of the attack"),
    "g": lambda found: _attacks(found, "g", r"$\ell_\infty$ radius of the attack"),
}


def _entries(found: Found) -> list[Entry]:
    """The runs at the sigma of training; methods at one sigma stand together, so that their colours differ."""
    wanted = [(m, s, found.votes(found.plan.certify(m, s, s))) for s in SIGMAS for m in METHODS]
    return [Entry(f"{method}, σ {plain(sigma)}", votes, method) for method, sigma, votes in wanted if votes]


def _noisy(found: Found) -> str:
    """One row per image: without noise, then under each sigma."""
    import io

    from PIL import Image

    rows = []
    for position in range(min(SHOWN, len(found.data))):
        image, index = found.data.images[position], int(found.data.indices[position])
        sample = Samples(found.plan.seed, index, 0, 1)
        drawn = [noisy_images(image, Noise("discrete", s), sample)[0] for s in SIGMAS]
        rows.append(np.concatenate([image, *(d.clip(0, 255).astype(np.uint8) for d in drawn)], 1))
    grid = np.concatenate(rows).repeat(ENLARGED, 0).repeat(ENLARGED, 1)
    buffer, name = io.BytesIO(), f"{FIGURES}/noisy.png"
    Image.fromarray(grid if grid.shape[2] == 3 else grid[:, :, 0]).save(buffer, "PNG")
    write_whole(found.folder / name, buffer.getvalue())
    return name


# --- The page --------------------------------------------------------------------------------------------------------


def _page(found: Found) -> list[Path]:
    """`intrs report` on the runs at the sigma of training."""
    from intrs.reports.gallery import gallery
    from intrs.reports.page import page

    entries = _entries(found)
    if not entries:
        return []
    run = entries[0].run
    assert run
    images = gallery(entries, matched(found.data, run.request.names), CARDS)  # with the labels that the run went by
    made = page(entries, images, which=found.plan.paper, curves=found.curves())
    path = found.folder / "report.html"
    write_whole(path, made.encode("utf-8", "backslashreplace"))
    return [path]
