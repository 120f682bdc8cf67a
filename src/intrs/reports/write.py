"""`intrs.report` and `intrs.plot`: from results to a page or a figure, in memory or in a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from intrs.errors import SettingsError
from intrs.exact import parse_count
from intrs.files import as_path, check_new, check_suffix, write_whole
from intrs.metrics import Results
from intrs.progress import reporting
from intrs.reports.curves import open_curves
from intrs.reports.figure import WIDTHS, check_format, figure
from intrs.reports.gallery import Gallery, gallery, open_named
from intrs.reports.links import open_links
from intrs.reports.page import page
from intrs.reports.runs import PAPERS, open_runs, unfinished
from intrs.results import sidecar_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intrs.data import Spec
    from intrs.exact import Count
    from intrs.metrics import Denominator
    from intrs.progress import Shown
    from intrs.reports.runs import Source

MAX_IMAGES = 200  # of each run, unless said
PAGES = (".html", ".htm")
FRAME_HEIGHT = 640  # pixels of a page in a notebook


@dataclass(frozen=True, eq=False, repr=False)
class Page:
    """One self-contained page. In a notebook it shows itself."""

    html: str
    path: Path | None  # where it was written; None: nowhere
    runs: tuple[str, ...]  # the names under which they are shown
    unfinished: tuple[str, ...]  # those of runs that lack some of their images
    images: int
    remarks: tuple[str, ...]  # on runs whose images are not shown

    @property
    def data(self) -> bytes:
        """The page as a file has it."""
        return self.html.encode("utf-8", "backslashreplace")

    def __repr__(self) -> str:
        return f"Page({_made(self.path, self.runs)}, images: {self.images}, {len(self.data):,} bytes)"

    def _repr_html_(self) -> str:
        frame = f'width="100%" height="{FRAME_HEIGHT}" sandbox="allow-scripts" title="intrs report"'
        return f'<iframe {frame} srcdoc="{escape(self.data.decode())}"></iframe>'


@dataclass(frozen=True, eq=False, repr=False)
class Plot:
    """A figure as a file has it. In a notebook it shows itself, unless it is a PDF."""

    data: bytes
    form: str  # one of FORMATS
    path: Path | None  # where it was written; None: nowhere
    runs: tuple[str, ...]  # the names under which they are shown
    unfinished: tuple[str, ...]  # those of runs that lack some of their images

    def __repr__(self) -> str:
        return f"Plot({_made(self.path, self.runs)}, {self.form[1:]}, {len(self.data):,} bytes)"

    def _repr_svg_(self) -> str | None:
        return self.data.decode() if self.form == ".svg" else None

    def _repr_png_(self) -> bytes | None:
        return self.data if self.form == ".png" else None


def _made(path: Path | None, runs: Sequence[str]) -> str:
    return f"{str(path)!r}, runs: {len(runs)}" if path else f"runs: {len(runs)}"


def report(
    results: Source | Iterable[Source],
    out: str | Path | None = None,
    *,
    join: bool = False,
    labels: Sequence[str] = (),
    title: str = "",
    data: Spec | None = None,
    max_images: Count = MAX_IMAGES,
    training: str | Path | Sequence[str | Path] = (),
    paper: str = "auto",
    web: str | Path | None = None,
    overwrite: bool = False,
    progress: Shown = None,
) -> Page:
    """One self-contained page about runs: curves, numbers, images, what they rest on and how to repeat them.

    results: results files, logs of other programs, or `Results`, one or several; join: they are parts of one run.
    out: the .html file to write; without it the page is only returned. labels: names of the runs, in their order.
    data: the images of the runs, if they do not ship with intrs; at most max_images of each run are shown, 0: none.
    training: folders of training runs whose learning curves to show.
    paper: the table whose curves to show: "cifar10", "caltech101", "none", or "auto" for that of the data.
    web: a folder that `intrs.web` wrote; images that its page can certify link to it.
    Returns the page, with its HTML and what is to be said of it.
    """
    results = _listed(results)
    path, most = _target(out, results, overwrite=overwrite), parse_count(max_images, "max_images", least=0)
    if path:
        check_suffix(path.suffix, PAGES, "a report")
    _check_choice("paper", paper, ("auto", "none", *PAPERS))
    entries = open_runs(results, labels, joined=join)
    curves = open_curves([training] if isinstance(training, str | Path) else training)
    images, links = Gallery(), None if web is None else open_links(Path(web), path)
    if most:
        named = None if data is None else open_named(entries, data)
        with reporting(progress) as shown:
            images = gallery(entries, named, most, shown, links)
    made = page(entries, images, title=title, which=paper, curves=curves)
    names = tuple(entry.name for entry in entries)
    found = Page(made, path, names, tuple(unfinished(entries)), images.count, tuple(images.remarks))
    if path:
        write_whole(path, found.data)
    return found


def plot(
    results: Source | Iterable[Source],
    out: str | Path | None = None,
    *,
    join: bool = False,
    labels: Sequence[str] = (),
    of: Denominator = "all",
    cp: bool = False,
    votes: bool = False,
    width: str = "column",
    paper: str = "auto",
    overwrite: bool = False,
) -> Plot:
    """A figure of certified accuracy against radius, for papers. Needs matplotlib (extra `plot`).

    results, join, labels, paper: as for `report`. out: a .pdf, .svg or .png; without it an SVG is only returned.
    of: the images in the denominator, "all" or "answered"; cp: add a picture of the images certified, right or wrong;
    votes: add a picture of the votes for the true class; width: "column" or "page", 3.25 or 6.75 inches.
    Returns the figure, with its bytes.
    """
    results = _listed(results)
    path = _target(out, results, overwrite=overwrite)
    form = path.suffix if path else ".svg"
    check_format(form)
    for name, value, choices in (
        ("of", of, ("all", "answered")), ("width", width, tuple(WIDTHS)), ("paper", paper, ("auto", "none", *PAPERS)),
    ):  # fmt: skip
        _check_choice(name, value, choices)
    entries = open_runs(results, labels, joined=join)
    made = figure(entries, form, measure=of, cp=cp, votes=votes, width=width, which=paper)
    if path:
        write_whole(path, made)
    return Plot(made, form, path, tuple(entry.name for entry in entries), tuple(unfinished(entries)))


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise SettingsError(f"{name} must be one of {', '.join(choices)}, not {value!r}")


def _listed(results: Source | Iterable[Source]) -> Source | list[Source]:
    """Several as a list: what yields them can be gone through only once."""
    several = isinstance(results, Iterable) and not isinstance(results, str | Results)
    return list(results) if several else results  # type: ignore[arg-type,return-value]


def _target(out: str | Path | None, results: Source | Sequence[Source], *, overwrite: bool) -> Path | None:
    """Where to write, checked before any work is done: not over what is there, nor over what is to be read."""
    if out is None:
        return None
    listed = results if isinstance(results, list) else [results]
    sources = [Path(each) for each in listed if isinstance(each, str | Path)]
    path, inputs = as_path(out, "out"), [each for path in sources for each in (path, sidecar_path(path))]
    check_new(path, overwrite=overwrite, inputs=inputs)
    return path
