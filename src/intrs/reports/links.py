"""Links from the images of a report to the page of `intrs web`, where their certificates can be watched growing."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from intrs.errors import SettingsError
from intrs.exact import plain
from intrs.files import read_bounded

if TYPE_CHECKING:
    from intrs.results.run import Run

LISTED = "site.json"  # what the page says that it holds (intrs.site.folder)
MOST_BYTES = 2**20


@dataclass(frozen=True)
class Links:
    """A folder of `intrs web`: where it lies, seen from the report, and what it can show."""

    address: str
    data: str
    pictures: frozenset[int]  # indices in the data set
    models: dict[tuple[str, str], str]  # (model as a command names it, sigma) -> the page's name for it

    def to(self, run: Run | None, index: int) -> str | None:
        """The address at which the page certifies this image with the run's model, noise and seed, if it can."""
        if run is None or run.noise.kind != "discrete" or run.request.data != self.data or index not in self.pictures:
            return None
        name = self.models.get((run.request.model, plain(run.noise.sigma)))
        asked = {"picture": index, "model": name, "seed": hex(run.seed)}
        return None if name is None else f"{self.address}#{urlencode(asked)}"


def open_links(folder: Path, report: Path | None) -> Links:
    """Read what the page in the folder holds; report is the file that will link to it."""
    path = folder / LISTED
    if not path.is_file():
        raise SettingsError(f"{folder}: not a folder that `intrs web -o {folder}` wrote: it has no {LISTED}")
    try:
        listed = json.loads(read_bounded(path, MOST_BYTES))
        shown = listed["pictures"]
        pictures = frozenset(int(each["index"]) for each in shown["list"])
        models = {(str(each["spec"]), str(each["sigma"])): str(each["name"]) for each in listed["models"]}
        data = str(shown["data"])
    except (ValueError, KeyError, TypeError) as error:
        raise SettingsError(f"{path}: not what `intrs web` writes ({error}); write the folder anew") from None
    below = os.path.relpath(folder, report.parent if report else Path())
    return Links(f"{quote(Path(below).as_posix())}/index.html", data, pictures, models)
