"""The page's images: each as the data set has it, and as the run's first sample of noise shows it to the network."""

from __future__ import annotations

import base64
import io
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from intrs import zoo
from intrs.data import Images, open_data
from intrs.data.matching import matched
from intrs.errors import DataError
from intrs.progress import Progress
from intrs.votes import Samples, noisy_images

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from intrs.data import Spec
    from intrs.metrics import Answer, Results
    from intrs.progress import OnProgress
    from intrs.reports.links import Links
    from intrs.reports.runs import Entry
    from intrs.results import Row

LARGEST_SIDE = 112  # pixels of an embedded image; larger ones are thinned out, so that noise keeps its strength
NOT_SHIPPED = "only data sets that ship with intrs are opened unless the data are named"


@dataclass
class Gallery:
    """What the page's script draws from: images by data set and index, and one list of cards per run."""

    pictures: dict[str, str] = field(default_factory=dict)
    runs: list[dict[str, Any]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    dimension: int | None = None

    @property
    def count(self) -> int:
        """Images of all runs."""
        return sum(len(run["cards"]) for run in self.runs)


def gallery(
    entries: Sequence[Entry],
    named: Images | None,
    most: int,
    progress: OnProgress | None = None,
    links: Links | None = None,
) -> Gallery:
    """Cards for at most `most` images of each run, evenly spread over it.

    named are the images of the runs; without them, runs on data that ship are shown. progress hears of every card.
    links: a card leads to the page for browsers where that has its image.
    """
    made, used, strict = Gallery(), False, len(entries) == 1
    total = sum(min(most, len(entry.results)) for entry in entries)

    def drawn(done: int) -> None:
        if progress:
            progress(Progress(done, total, "images", f"image {done:,} of {total:,}"))

    drawn(0)
    for number, entry in enumerate(entries):
        images = named if named and _belongs(entry.results, named, strict=strict) else _shipped(entry.results)
        used |= images is named
        if images is None:
            made.remarks.append(f"The images of {entry.name} are not shown: {NOT_SHIPPED}.")
            continue
        made.dimension = int(np.prod(images.image_shape))
        made.runs.append(_run(made, number, entry, images, most, drawn))
        _link(made.runs[-1]["cards"], entry, links)
    if named and not used:
        raise DataError(f"{named.name} is the data of none of these runs")
    return made


def open_named(entries: Sequence[Entry], data: Spec) -> Images:
    """The images that the user names, of the split that the runs are about."""
    if isinstance(data, Images):
        return data
    request = next((entry.run.request for entry in entries if entry.run), None)
    return matched(open_data(data, request.split, request.fit), request.names) if request else open_data(data)


def _shipped(found: Results) -> Images | None:
    """Only what ships is opened unasked: a results file from elsewhere must not name folders to read."""
    if found.run is None or found.run.request.data not in zoo.data_names():
        return None
    images = open_data(zoo.data_path(found.run.request.data))
    return images if images.sha256 == found.run.data_sha256 else None


def _belongs(found: Results, images: Images, *, strict: bool) -> bool:
    """Whether these are the images of the log: by their hash, or for a log without one by their labels."""
    if found.run is not None:
        if strict and images.sha256 != found.run.data_sha256:
            raise DataError(
                f"{images.name} is not what {found.source} was made from: its sha256 is {images.sha256}, "
                f"not {found.run.data_sha256}"
            )
        return images.sha256 == found.run.data_sha256
    labels = dict(zip(images.indices.tolist(), images.labels.tolist(), strict=True))
    common = [answer for answer in found.answers if answer.idx in labels]
    if wrong := next((answer for answer in common if answer.truth != labels[answer.idx]), None):
        raise DataError(
            f"{images.name} is not what {found.source} is about: image {wrong.idx} is of class {labels[wrong.idx]} in "
            f"the data and {wrong.truth} in the log"
        )
    return bool(common)


def _run(
    made: Gallery, number: int, entry: Entry, images: Images, most: int, drawn: Callable[[int], object]
) -> dict[str, Any]:
    found, positions = entry.results, {int(index): position for position, index in enumerate(images.indices)}
    lines = [i for i, answer in enumerate(found) if answer.idx in positions]
    count, before, cards = min(most, len(lines)), made.count, []
    for k in range(count):
        line = lines[k * len(lines) // count]
        cards.append(_card(made.pictures, found, line, images, positions[found.answers[line].idx]))
        drawn(before + k + 1)
    return {
        "run": number, "name": entry.name, "classes": _classes(entry, images), "cards": cards, "images": len(found),
    }  # fmt: skip


def _link(cards: list[dict[str, Any]], entry: Entry, links: Links | None) -> None:
    for card in cards:
        if links and (address := links.to(entry.run, card["idx"])):
            card["page"] = address


def _classes(entry: Entry, images: Images) -> list[str]:
    """Names for the page: those of the run if it has some, for labels are its numbers."""
    return list((entry.run.request.names if entry.run else ()) or images.classes)


def _card(pictures: dict[str, str], found: Results, line: int, images: Images, position: int) -> dict[str, Any]:
    answer, image = found.answers[line], images.images[position]
    key = f"{images.sha256[:16]}-{answer.idx}"
    if key not in pictures:
        pictures[key] = png(image)
    card = {"picture": key, **_answer(answer)}
    return card | _votes(found.rows[line]) | {"noisy": png(_noisy(found, answer.idx, image))} if found.rows else card


def _answer(answer: Answer) -> dict[str, Any]:
    """The radius is rounded down: a page must not promise more than the file."""
    radius = None if answer.square is None else math.isqrt(math.floor(answer.square * 10**6)) / 1000
    file = {"file": answer.file} if answer.file else {}
    return {"idx": answer.idx, "label": answer.truth, "predict": answer.label, "radius": radius, **file}


def _votes(row: Row) -> dict[str, Any]:
    top = sorted(range(len(row.counts)), key=lambda c: -row.counts[c])[:3]
    return {"votes": row.votes, "n": sum(row.counts), "top": [[c, row.counts[c]] for c in top if row.counts[c]]}


def _noisy(found: Results, index: int, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Sample 0 of the estimation, as far as a screen can show it."""
    assert found.run
    drawn = noisy_images(image, found.run.noise, Samples(found.run.seed, index, 0, 1))
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
