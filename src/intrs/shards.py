"""Parts of a run that are made apart, on machines that need not know of each other, and merged afterwards."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from intrs.errors import SettingsError
from intrs.exact import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST = 10**6
FORM = re.compile(r"(\d{1,7})/(\d{1,7})(?::(images|samples))?", re.ASCII)
AUTO = re.compile(r"auto(?:/([1-9]\d{0,6}))?(:images|:samples)?", re.ASCII)


@dataclass(frozen=True)
class Shard:
    """Part `number` of `of`, counted from 1: every of-th image, or a range of the samples of every image."""

    number: int
    of: int
    by: Literal["images", "samples"] = "images"

    @classmethod
    def parse(cls, text: str) -> Shard:
        """ "2/8" or "2/8:samples"."""
        found = FORM.fullmatch(text)
        number, of = (int(found[1]), int(found[2])) if found else (0, 0)
        if not found or not 1 <= number <= of <= MOST:
            raise SettingsError(
                f"shard: expected a part and the number of parts, such as 2/8 (from 1/8 to 8/8), got {shown(text)}"
            )
        return cls(number, of, "samples" if found[3] == "samples" else "images")

    def __str__(self) -> str:
        return f"{self.number}/{self.of}" + (":samples" if self.by == "samples" else "")

    def places(self, whole: range) -> range:
        """Which of the run's images it has."""
        return whole if self.by == "samples" else whole[self.number - 1 :: self.of]

    def samples(self, n: int) -> tuple[int, int]:
        """Which of an image's n samples it has: the first, and the one after the last."""
        if self.by == "images":
            return 0, n
        return n * (self.number - 1) // self.of, n * self.number // self.of


def settled_shard(text: str, environment: Mapping[str, str]) -> str:
    """The shard in its one way of writing; "auto" takes the index that a batch system gives to its tasks.

    SLURM says which task of an array this is, and which tasks there are. An indexed job of Kubernetes says only which
    one it is, so the number of parts has to be given: "auto/8".
    """
    if not text:
        return ""
    found = AUTO.fullmatch(text)
    if not found:
        return str(Shard.parse(text))
    parts = int(found[1] or 0)
    number, of = _from_slurm(environment, parts) or _from_kubernetes(environment, parts) or (0, 0)
    if not number:
        raise SettingsError(
            "shard: neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set, so this is no task of a batch array; "
            "say which part it is, such as 2/8"
        )
    if not of:
        raise SettingsError("shard: an indexed job does not say how many parts there are; say it, such as auto/8")
    return str(Shard.parse(f"{number}/{of}{found[2] or ''}"))


def _from_slurm(environment: Mapping[str, str], parts: int) -> tuple[int, int] | None:
    """Which task of how many this is.

    Tasks that were submitted anew do not say of how many they once were: without the number of parts, those that begin
    at 0 or 1 and have no gaps look like a whole array.
    """
    if "SLURM_ARRAY_TASK_ID" not in environment:
        return None
    index, count, least, most, step = (
        _number(environment, f"SLURM_ARRAY_TASK_{name}", default)
        for name, default in (("ID", None), ("COUNT", None), ("MIN", None), ("MAX", None), ("STEP", 1))
    )
    even = count == (most - least) // max(step, 1) + 1
    if not even or (count != parts if parts else least > 1):
        wanted = f"{parts} evenly spaced ones" if parts else "evenly spaced ones from 0 or 1 on"
        raise SettingsError(
            f"shard: this SLURM array has {count} {'task' if count == 1 else 'tasks'} from {least} to {most}, where "
            f"auto needs {wanted}; name the part that this task is to do, such as 4/8"
        )
    return (index - least) // max(step, 1) + 1, count


def _from_kubernetes(environment: Mapping[str, str], parts: int) -> tuple[int, int] | None:
    if "JOB_COMPLETION_INDEX" not in environment:
        return None
    return _number(environment, "JOB_COMPLETION_INDEX", None) + 1, parts


def _number(environment: Mapping[str, str], name: str, default: int | None) -> int:
    text = environment.get(name, "" if default is None else str(default))
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise SettingsError(f"shard: the environment variable {name} should be a number, and is {shown(text)}")
    return int(text)
