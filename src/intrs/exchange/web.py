"""The file that `intrs export --target web` writes: a network with all that a browser needs to certify by it.

magic, length of the header (32 bits), header (JSON), the network's canonical bytes, noise tables, tables of decisions,
tables of Algorithm 2, and the SHA-256 of all before it; little-endian. docs/web.md describes the header.
"""

from __future__ import annotations

import hashlib
import json
import struct
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from intrs.certificate import least_wins_table, parse_alpha
from intrs.errors import SettingsError
from intrs.exact import plain, shown
from intrs.exchange.device.settings import decisions_of
from intrs.files import write_whole
from intrs.request import Predict, Request

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from intrs.exact import Count, Number
    from intrs.exchange.device.decisions import Decisions
    from intrs.network import Network

MAGIC = b"intrswb1"
MOST_SIGMAS = 16
MOST_PREDICT = 100_000
LONGEST = 200  # of a name, in the units of UTF-16 by which browsers count


def write_file(network: Network, path: Path, **options: Any) -> None:
    """Write the file; options are those of `bundle`."""
    options.setdefault("name", path.stem)
    write_whole(path, bundle(network, **options))


def bundle(
    network: Network,
    *,
    sigma: str | Number | Sequence[Number] | None = None,
    name: str = "model",
    names: str | Sequence[str] = (),
    alpha: Number = Request.alpha,
    predict_n: Count = Predict.n,
    **settings: Any,
) -> bytes:
    """The bytes of a file for the web.

    sigma may be several ("0.12,0.25"): each has its noise table and its tables of decisions. settings are those of
    `decisions_of`: n alone for a fixed number of samples; otherwise adaptive, with at most n samples. names are those
    of the classes.
    """
    level = parse_alpha(alpha)
    decided = [decisions_of(network, sigma=one, alpha=level, predict_n=predict_n, **settings) for one in _sigmas(sigma)]
    parts = [network.to_bytes(), *(each.noise.table().to_bytes() for each in decided)]
    rules = [_rule(i, each, level) for i, each in enumerate(decided)]
    predictions = [_prediction(i, each, level) for i, each in enumerate(decided)]
    header = {
        "name": checked_name(name),
        "identity": network.identity,
        "shape": list(network.input_shape),
        "classes": network.classes,
        "names": _names(names, network.classes),
        "network": len(parts[0]),
        "noises": [
            {"kind": each.noise.kind, "sigma": plain(each.noise.sigma), "bytes": len(data)}
            for each, data in zip(decided, parts[1:], strict=True)
        ],
        "rules": [about for about, _ in rules],
        "predictions": [about for about, _ in predictions],
    }
    text = json.dumps(header, ensure_ascii=False).encode()
    parts += [data for _, data in (*rules, *predictions)]
    body = b"".join([MAGIC, struct.pack("<I", len(text)), text, *parts])
    return body + hashlib.sha256(body).digest()


def _sigmas(sigma: str | Number | Sequence[Number] | None) -> list[Number]:
    if sigma is None:
        raise SettingsError("how much noise? Pass sigma, a fraction of the pixel range, such as sigma=0.25")
    if isinstance(sigma, str):
        found: list[Number] = [part.strip() for part in sigma.split(",")]
    elif isinstance(sigma, int | float | Fraction):
        found = [sigma]
    else:
        found = list(sigma)
    if not 0 < len(found) <= MOST_SIGMAS:
        raise SettingsError(f"sigma: expected 1 to {MOST_SIGMAS} of them, got {len(found)}")
    return found


def checked_name(name: str) -> str:
    """A name that the header can hold; SettingsError for others."""
    if not isinstance(name, str) or not 0 < units_of(name) <= LONGEST:
        raise SettingsError(f"a name has 1 to {LONGEST} characters; those beyond U+FFFF, such as emoji, count twice")
    return name


def units_of(name: str) -> int:
    """The length of a name for browsers; SettingsError if it is no text, such as a file's in another encoding."""
    try:
        return len(name.encode("utf-16-le")) // 2
    except UnicodeEncodeError:
        raise SettingsError(f"the name {shown(name)} has bytes that are not UTF-8; choose another one") from None


def _names(names: str | Sequence[str], classes: int) -> list[str] | None:
    split = names.split(",") if isinstance(names, str) and names else list(names)
    if split and len(split) != classes:
        raise SettingsError(f"the network has {classes} classes, but there are {len(split)} names")
    return [checked_name(name.strip()) for name in split] or None


def _rule(noise: int, decided: Decisions, alpha: Fraction) -> tuple[dict[str, Any], bytes]:
    """A table of decisions, and what the header says of it."""
    about: dict[str, Any] = {"noise": noise, "alpha": plain(alpha)}
    if decided.adaptive:
        rule, data = decided.adaptive.rule, decided.adaptive.rule.to_bytes()
        certifier, n0 = rule.certifier, decided.adaptive.n0
        about |= {"adaptive": True, "radii": [plain(r) for r in rule.radii], "giveUp": plain(rule.give_up)}
    else:
        assert decided.certify is not None
        assert decided.certify.table is not None
        data, certifier, n0 = decided.certify.table.to_bytes(), decided.certify.certifier, decided.certify.n0
        about |= {"adaptive": False, "radii": [], "giveUp": None}
    return about | {"n": certifier.n, "n0": n0, "bound": certifier.bound, "bytes": len(data)}, data


def _prediction(noise: int, decided: Decisions, alpha: Fraction) -> tuple[dict[str, Any], bytes]:
    """The least winning votes by the votes of the two best classes together, and what the header says of them."""
    predict = decided.predict
    assert predict is not None
    if predict.n > MOST_PREDICT:
        raise SettingsError(f"predict_n: at most {MOST_PREDICT:,} samples, got {predict.n:,}")
    data = least_wins_table(predict.n, predict.level).astype("<u4").tobytes()
    return {"noise": noise, "alpha": plain(alpha), "n": predict.n, "bytes": len(data)}, data
