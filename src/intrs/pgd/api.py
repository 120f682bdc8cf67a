"""`intrs.attack`: PGD on a network or its smoothed form, as one call."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from intrs import pgd
from intrs.data import Images, is_path, open_data
from intrs.errors import SettingsError
from intrs.files import as_path
from intrs.model import open_model
from intrs.progress import reporting
from intrs.request import Attack
from intrs.shards import Shard, settled_shard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from intrs.data import Spec as AnyData
    from intrs.exact import Count, Number
    from intrs.files import AnyPath
    from intrs.model import AnyModel
    from intrs.noise import Kind
    from intrs.pgd import Attacked
    from intrs.pgd.campaign import Campaign
    from intrs.progress import Shown
    from intrs.request import Norm


def attack(
    model: AnyModel,
    data: AnyData,
    outdir: AnyPath,
    *,
    norm: Norm = Attack.norm,
    eps: Sequence[Number] = (),
    steps: Count | None = None,
    draws: Count = Attack.draws,
    restarts: Count = Attack.restarts,
    source: AnyPath = "",
    sigma: Number | None = None,
    noise: Kind = Attack.noise,  # type: ignore[assignment]
    n: Count = Attack.n,
    alpha: Number = Attack.alpha,
    seed: str | int | None = None,
    split: str = Attack.split,
    first: Count = Attack.first,
    skip: Count = Attack.skip,
    max: Count | None = None,  # the setting's name
    shard: str = "",
    pixels: Literal["auto", "unit", "byte"] = "auto",
    mean: str | Sequence[Number] = "",
    std: str | Sequence[Number] = "",
    dialect: Literal["", "tflm", "litert"] = "",
    names: str | Sequence[str] = (),
    by_number: bool = False,
    threads: Count = Attack.threads,
    kernels: str = "",
    device: str = "auto",
    progress: Shown = None,
    on_start: Callable[[Campaign], object] | None = None,
) -> Attacked:
    """PGD on every image at every eps, kept in the folder `outdir`; the same call continues an interrupted attack.

    eps are fractions of the pixel range; without them the paper's are taken. sigma 0 attacks the network itself, else
    its smoothed form, by default under the noise that the model was trained for. source is another network to take
    the gradients from. device is where PyTorch computes gradients (cpu, cuda; auto: CUDA, else the CPU); answers are
    always the CPU's. names are those of the model's classes in the order of its outputs (a model that ships has its
    own); by_number=True takes labels as the model's numbers. shard="2/8" attacks the second of eight parts of the
    images, which `pgd.join` puts together. Returns what came of it: a line per image and eps, and accuracy at each eps.
    """
    settings, folder = locals(), as_path(outdir, "outdir")
    opened = open_model(model)
    images = data if isinstance(data, Images) else open_data(data, split)
    named = {
        "model": opened.name, "data": os.fspath(data) if is_path(data) else "",
        "source": os.fspath(source) if is_path(source) else source,
    }  # fmt: skip
    request = part_of(Attack.of(settings | named), shard)
    with reporting(progress) as report:
        return pgd.attack(request, folder, model=opened, data=images, device=device, progress=report, announce=on_start)


def part_of(request: Attack, shard: str) -> Attack:
    """The attack on a part of the images: every k-th, which is what first, skip and max say."""
    if not shard:
        return request
    part = Shard.parse(settled_shard(shard, os.environ))
    if part.by == "samples":
        raise SettingsError("shard: an attack is divided by images, because every image is attacked as a whole")
    if request.seed is None:
        raise SettingsError("the parts of an attack need one seed, or their noise differs; give a seed")
    most = None if request.max is None else len(range(request.max)[part.number - 1 :: part.of])
    if most == 0:
        raise SettingsError(
            f"shard: {part.of} parts of {request.max} images would leave some of them empty; take fewer"
        )
    first = request.first + (part.number - 1) * request.skip
    return replace(request, first=first, skip=request.skip * part.of, max=most)
