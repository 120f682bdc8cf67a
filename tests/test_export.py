"""Networks written for other programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from intrs.errors import SettingsError
from intrs.exchange.targets import DEFAULT, TARGETS, target_of


def test_the_suffix_says_the_target_unless_one_is_given() -> None:
    for target in TARGETS.values():
        assert target_of(None, Path(f"model{target.suffix}")) is target
        assert target_of(None, Path(f"model{target.suffix.upper()}")) is target
        assert target_of(target.name, Path("model.tosa")) is target
    assert target_of(None, Path("model.bin")).name == DEFAULT
    with pytest.raises(SettingsError, match="unknown target 'coreml'; choose from tosa, "):
        target_of("coreml", Path("model.tosa"))


def test_options_of_other_targets_are_refused(tmp_path: Path) -> None:
    import intrs

    with pytest.raises(SettingsError, match="the target tosa has no option colour; it has none"):
        intrs.export("resnet20-sigma0.25", tmp_path / "model.tosa", colour="red")
    assert not list(tmp_path.iterdir())
