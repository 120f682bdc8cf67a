"""Attacks on networks and smoothed classifiers: projected gradient descent on the integer grid (extra `train`).

`attack` runs one and keeps it in a folder, `join` puts folders together that hold parts of one, `read` reads a folder.
Importing this needs no PyTorch.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from intrs.pgd.attacked import Attacked, read
from intrs.pgd.joined import join
from intrs.training import pytorch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from intrs.data import Images
    from intrs.model import Model
    from intrs.pgd.campaign import Campaign
    from intrs.progress import OnProgress
    from intrs.request import Attack

__all__ = ["Attacked", "attack", "check", "join", "read"]


def attack(
    request: Attack,
    folder: Path,
    *,
    model: Model | None = None,
    data: Images | None = None,
    device: str = "cpu",
    progress: OnProgress | None = None,
    announce: Callable[[Campaign], object] | None = None,
) -> Attacked:
    """Attack every image at every eps and keep the results in a folder; the same call continues an interrupted attack.

    model and data: those of the request, if they are open already. device: where gradients are computed. announce is
    called once, when everything is opened and checked and before the first image is attacked. `intrs.attack` is this
    with settings instead of a request.
    """
    pytorch.check_installed("an attack", "torch")
    from intrs.pgd.campaign import open_campaign

    where = pytorch.choose_device(device, doubles=True)
    with (
        pytorch.threads(request.threads),
        contextlib.closing(open_campaign(request, folder, model, data, where)) as campaign,
    ):
        if announce:
            announce(campaign)
        campaign.work(progress)
        return campaign.finish()


def check(request: Attack, folder: Path) -> None:
    """Open all that an attack needs, and raise what is wrong with it, before anything is attacked."""
    pytorch.check_installed("an attack", "torch")
    from intrs.pgd.campaign import open_campaign

    open_campaign(request, folder).close()
