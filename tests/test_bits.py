"""ChaCha20 against the vectors of RFC 8439, and the address scheme of core/bits.h."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

import numpy as np
import pytest

from intrs import _core

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEY = bytes(range(32))

RFC_VECTORS = [  # key, counter, nonce, keystream block
    (  # section 2.3.2
        KEY,
        1,
        bytes.fromhex("000000090000004a00000000"),
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
    ),
    (  # appendix A.1, test vector 1
        bytes(32),
        0,
        bytes(12),
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
    ),
    (  # appendix A.1, test vector 2
        bytes(32),
        1,
        bytes(12),
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
    ),
    (  # appendix A.1, test vector 3
        bytes(31) + b"\x01",
        1,
        bytes(12),
        "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
        "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0",
    ),
    (  # appendix A.1, test vector 4
        b"\x00\xff" + bytes(30),
        2,
        bytes(12),
        "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
        "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096",
    ),
    (  # appendix A.1, test vector 5
        bytes(32),
        0,
        bytes(11) + b"\x02",
        "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"
        "8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d",
    ),
]


@pytest.mark.parametrize(("key", "counter", "nonce", "expected"), RFC_VECTORS)
def test_rfc_8439(key: bytes, counter: int, nonce: bytes, expected: str) -> None:
    assert _core.chacha20_block(key, counter, nonce).hex() == expected


def zeros(count: int) -> NDArray[np.uint8]:
    return np.zeros(count, np.uint8)


def uniform(seed: bytes, image: int, sample: int, coordinate: int) -> int:
    """The 64-bit number of a coordinate, from the address scheme's words alone."""
    nonce = sample.to_bytes(8, "little") + image.to_bytes(4, "little")
    block, word = divmod(coordinate, 16)
    high, low = (_core.chacha20_block(seed, top | block, nonce)[4 * word : 4 * word + 4] for top in (0, 1 << 31))
    return int.from_bytes(low + high, "little")


def test_addresses() -> None:
    """Every (image, sample, coordinate) has its own number, and the table sees exactly that number."""
    places = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 17), (2**32 - 1, 2**64 - 1, 40), (0, 2**32, 3)]
    for image, sample, coordinate in places:
        u = uniform(KEY, image, sample, coordinate)
        around = _core.NoiseTable(0, np.array([u - 1, u, u + 1], np.uint64))  # value 2: u itself is reached, u + 1 not
        assert around.draw(KEY, image, sample, 1, zeros(48))[0, coordinate] == 2
    assert len({uniform(KEY, *place) for place in places}) == len(places)


@pytest.mark.parametrize("kernels", _core.kernel_names())
@pytest.mark.parametrize("coordinate", [0, 17, 255, 256, 300])
def test_a_threshold_at_every_distance(coordinate: int, kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The value counts the thresholds up to the number, whether its first 12, 28, 32 or all bits decide."""
    monkeypatch.setenv("INTRS_KERNELS", kernels)
    u = uniform(KEY, 0, 7, coordinate)
    for distance in (0, *(1 << k for k in range(64))):
        for threshold in (u - distance, u + distance):
            if 0 <= threshold < 1 << 64:
                table = _core.NoiseTable(-3, np.array([threshold], np.uint64))
                assert table.draw(KEY, 0, 7, 1, zeros(301))[0, coordinate] == -3 + (threshold <= u)


@pytest.mark.parametrize("kernels", _core.kernel_names())
@pytest.mark.parametrize("upto", [1 << 64, 1 << 52, 1 << 40])
def test_the_widest_table(upto: int, kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All values of 16 bits but -32768, spread over all numbers, within one bucket, and at one end of all numbers."""
    monkeypatch.setenv("INTRS_KERNELS", kernels)
    thresholds = [1 + upto * i // 65534 for i in range(65534)]
    image = np.full(300, 255, np.uint8)
    found = _core.NoiseTable(-32767, np.array(thresholds, np.uint64)).draw(KEY, 1, 2, 1, image)[0]
    numbers = [uniform(KEY, 1, 2, coordinate) for coordinate in range(300)]
    assert found.tolist() == [255 - 32767 + bisect.bisect_right(thresholds, u) for u in numbers]


def test_noise_is_added_to_the_image() -> None:
    table = _core.NoiseTable(-8, np.linspace(2**60, 2**63, 15).astype(np.uint64))
    image = np.arange(50, dtype=np.uint8)
    assert np.array_equal(table.draw(KEY, 5, 1, 3, image), table.draw(KEY, 5, 1, 3, zeros(50)) + np.arange(50))


def test_any_sample_alone() -> None:
    table = _core.NoiseTable(-8, np.linspace(2**60, 2**63, 15).astype(np.uint64))
    together = table.draw(KEY, 5, 100, 20, zeros(50))
    alone = [table.draw(KEY, 5, 100 + i, 1, zeros(50))[0] for i in reversed(range(20))]
    assert np.array_equal(together, alone[::-1])
    assert np.array_equal(together[:, :33], table.draw(KEY, 5, 100, 20, zeros(33)))


@pytest.mark.parametrize("thresholds", [[5, 5], [6, 5]])
def test_table_must_increase(thresholds: list[int]) -> None:
    with pytest.raises(ValueError, match="increase"):
        _core.NoiseTable(0, np.array(thresholds, np.uint64))


def test_values_fit_16_bits() -> None:
    with pytest.raises(ValueError, match="16 bits"):
        _core.NoiseTable(32767, np.array([5], np.uint64))


def test_seed_has_32_bytes() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        _core.NoiseTable(0, np.array([5], np.uint64)).draw(b"short", 0, 0, 1, zeros(1))
