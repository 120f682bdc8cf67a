"""The page's images: each as the data set has it, and as the run's first sample of noise shows it to the network."""

from __future__ import annotations

import base64
import io
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs import zoo
from intrs.data import open_data
from intrs.errors import IntrsError
from intrs.noise import Noise
from intrs.votes import noisy_images

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from intrs.data import Images
    from intrs.metrics import Answer, Results
    from intrs.reports.runs import Entry
    from intrs.results import Row

LARGEST_SIDE = 112  # pixels of an embedded image; larger ones are thinned out, so that noise keeps its strength


@dataclass
class Gallery:
    """What the page's script draws from: images by data set and index, and one list of cards a run."""

    pictures: dict[str, str] = field(default_factory=dict)
    runs: list[dict[str, Any]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    dimension: int | None = None


def gallery(
    entries: Sequence[Entry], named: Images | None, most: int, progress: Callable[[int], object] | None = None
) -> Gallery:
    """Cards for at most `most` images a run, evenly spread over it.

    named are the images of the runs; without them, runs on data that ship are shown. progress hears of every card.
    """
    made, used = Gallery(), False
    for number, entry in enumerate(entries):
        images = named if named and _belongs(entry.log, named, strict=len(entries) == 1) else _shipped(entry.log)
        used |= images is named
        if images is None:
            made.remarks.append(
                f"{entry.name}: no images: only those that ship are shown unasked; --data says where others are."
            )
            continue
        made.dimension = int(np.prod(images.image_shape))
        made.runs.append(_run(made, number, entry, images, most, progress))
    if named and not used:
        raise IntrsError(f"{named.name} is the data of none of these runs")
    return made


def open_named(entries: Sequence[Entry], data: str) -> Images:
    """The images that the user names, of the split that the runs are about."""
    return open_data(data, next((entry.log.run.split for entry in entries if entry.log.run), "test"))


def _shipped(log: Results) -> Images | None:
    """Only what ships is opened unasked: a stranger's file must not name folders to read."""
    if log.run is None or log.run.data not in zoo.data_names():
        return None
    images = open_data(zoo.data_path(log.run.data))
    return images if images.sha256 == log.run.data_sha256 else None


def _belongs(log: Results, images: Images, *, strict: bool) -> bool:
    """Whether these are the images of the log: by their hash, or for a log without one by their labels."""
    if log.run is not None:
        if strict and images.sha256 != log.run.data_sha256:
            raise IntrsError(
                f"{images.name} is not what {log.path} was made from: its sha256 is {images.sha256}, "
                f"not {log.run.data_sha256}"
            )
        return images.sha256 == log.run.data_sha256
    labels = dict(zip(images.indices.tolist(), images.labels.tolist(), strict=True))
    common = [answer for answer in log.answers if answer.idx in labels]
    if wrong := next((answer for answer in common if answer.label != labels[answer.idx]), None):
        raise IntrsError(
            f"{images.name} is not what {log.path} is about: image {wrong.idx} is of class {labels[wrong.idx]} in the "
            f"data and {wrong.label} in the log"
        )
    return bool(common)


def _run(
    made: Gallery, number: int, entry: Entry, images: Images, most: int, progress: Callable[[int], object] | None
) -> dict[str, Any]:
    positions = {int(index): position for position, index in enumerate(images.indices)}
    lines = [i for i, answer in enumerate(entry.log.answers) if answer.idx in positions]
    count, before = min(most, len(lines)), sum(len(run["cards"]) for run in made.runs)
    cards = []
    for k in range(count):
        line = lines[k * len(lines) // count]
        position = positions[entry.log.answers[line].idx]
        cards.append(_card(made.pictures, entry.log, line, images, position))
        if progress:
            progress(before + k + 1)
    return {
        "run": number, "name": entry.name, "classes": list(images.classes), "cards": cards,
        "images": len(entry.log.answers),
    }  # fmt: skip


def _card(pictures: dict[str, str], log: Results, line: int, images: Images, position: int) -> dict[str, Any]:
    answer, image = log.answers[line], images.images[position]
    key = f"{images.sha256[:16]}-{answer.idx}"
    if key not in pictures:
        pictures[key] = png(image)
    card = {"picture": key, **_answer(answer)}
    return card | _votes(log.rows[line]) | {"noisy": png(_noisy(log, answer.idx, image))} if log.rows else card


def _answer(answer: Answer) -> dict[str, Any]:
    """The radius is rounded down: a page must not promise more than the file."""
    radius = None if answer.square is None else math.isqrt(math.floor(answer.square * 10**6)) / 1000
    return {"idx": answer.idx, "label": answer.label, "predict": answer.predict, "radius": radius}


def _votes(row: Row) -> dict[str, Any]:
    top = sorted(range(len(row.counts)), key=lambda c: -row.counts[c])[:3]
    return {"votes": row.votes, "n": sum(row.counts), "top": [[c, row.counts[c]] for c in top if row.counts[c]]}


def _noisy(log: Results, index: int, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Sample 0 of the estimation, as far as a screen can show it."""
    assert log.run
    drawn = noisy_images(image, Noise.of(log.run.noise, log.run.sigma), int(log.run.seed, 0), index, 0, 1)
    seen: NDArray[np.uint8] = drawn[0].clip(0, 255).astype(np.uint8)
    return seen


def png(image: NDArray[np.uint8]) -> str:
    """The image as a data URI."""
    from PIL import Image

    step = -(-max(image.shape[:2]) // LARGEST_SIDE)
    thin = image[::step, ::step]
    pixels = np.ascontiguousarray(thin if thin.shape[2] == 3 else thin[:, :, 0])
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
