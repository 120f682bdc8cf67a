"""A model as the user has it: names, paths and networks, opened once."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tiny_model import save_model

import intrs
from intrs import zoo
from intrs.errors import ModelError, SettingsError
from intrs.exchange.onnx import file as onnx_file
from intrs.exchange.onnx import read
from intrs.model import Model, load, open_model

NAME = "resnet8-sigma0.25"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return save_model(tmp_path / "tiny.onnx")


def test_names_paths_and_networks(path: Path) -> None:
    named = open_model(NAME)
    assert (named.name, named.path, named.trained_sigma, named.is_quantized) == (
        NAME,
        zoo.model_path(NAME),
        "0.25",
        True,
    )
    assert named.class_names[:2] == ("airplane", "automobile")
    filed = open_model(path)
    assert (filed.name, filed.path, filed.class_names, filed.is_quantized) == (str(path), path, (), True)
    network = load(path)
    held = open_model(network)
    assert (held.name, held.path, held.trained_sigma, held.class_names) == ("", None, "", ())
    assert held.is_quantized
    assert held.network() is network
    assert open_model(held) is held
    assert load(str(path)).identity == load(filed).identity == network.identity


def test_names_of_the_zoo_are_models() -> None:
    assert intrs.load(NAME).identity == zoo.card(NAME)["results"]["identity"]
    twin = open_model("resnet20-paper0.25-fp32")
    assert (twin.is_quantized, twin.trained_sigma, len(twin.class_names)) == (False, "0.25", 10)


def test_a_file_wins_over_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mine = load(save_model(tmp_path / NAME))
    model = open_model(NAME)
    assert model.network().identity == mine.identity
    assert (model.trained_sigma, model.class_names) == (open_model(tmp_path / NAME).trained_sigma, ())


def test_metadata_says_sigma(path: Path) -> None:
    model = onnx.load(path)
    helper.set_model_props(model, {"intrs.sigma": "0.5"})
    onnx.save(model, path)
    assert open_model(path).trained_sigma == "0.5"
    helper.set_model_props(model, {})
    del model.metadata_props[:]
    onnx.save(model, path)
    assert open_model(path).trained_sigma == ""


def test_a_file_is_parsed_once_and_lowered_once_per_convention(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"parsed": 0, "lowered": 0}
    parse, lower = onnx_file._parse, read.lower

    def counted_parse(data: bytes) -> Any:
        counts["parsed"] += 1
        return parse(data)

    def counted_lower(*args: Any) -> Any:
        counts["lowered"] += 1
        return lower(*args)

    monkeypatch.setattr(onnx_file, "_parse", counted_parse)
    monkeypatch.setattr(read, "lower", counted_lower)
    model = open_model(path)
    first = model.network()
    path.unlink()  # nothing is read again
    assert model.network() is first
    assert model.network("auto", None, "") is first
    assert model.network("byte") is not first
    assert model.network(mean="0.5", std=[Fraction(1, 2)]) is model.network(mean=0.5, std="1/2")
    assert (model.is_quantized, model.trained_sigma) == (True, model.trained_sigma)
    assert counts == {"parsed": 1, "lowered": 3}


def test_engine(path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = open_model(path)
    path.unlink()
    engine = model.engine(threads="1")
    images = np.random.default_rng(0).integers(0, 256, (20, *engine.input_shape)).astype(np.float32)
    agree = engine(images).argmax(1) == model.network().predict(images.astype(np.int32))
    assert agree.mean() > 0.9
    assert (engine.quantized, engine.threads) == (True, 1)
    assert engine(images[:0]).shape == (0, engine.classes)
    assert len(repr(engine)) < 500
    with pytest.raises(intrs.IntrsError, match="expected images of"):
        engine(images[:, 1:])
    with pytest.raises(SettingsError, match="threads: expected an integer of at least 0, got -1"):
        model.engine(threads=-1)
    with pytest.raises(ModelError, match="an integer network cannot be run in floats"):
        open_model(model.network()).engine()


SAME: list[Any] = ["0.5,0.25,0.125", [0.5, 0.25, 0.125], ("1/2", "0.25", Fraction(1, 8)), np.array([0.5, 0.25, 0.125])]


@pytest.mark.parametrize("std", SAME)
def test_numbers_in_any_form(path: Path, std: Any) -> None:
    assert load(path, std=std).identity == load(path, std=SAME[0]).identity
    assert load(path, std="0.5").identity == load(path, std=0.5).identity == load(path, std=Fraction(1, 2)).identity


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pixels": "half"}, "pixels must be 'auto', 'unit' or 'byte', got 'half'"),
        ({"pixels": None}, "pixels must be 'auto', 'unit' or 'byte', got None"),
        ({"mean": "a,b,c"}, "mean: expected a number such as 0.25 or 1/4, got 'a'"),
        ({"mean": "1,,2"}, "mean: expected a number"),
        ({"std": [None]}, "std: expected a number"),
        ({"std": "0"}, "std must be positive, got 0"),
        ({"std": [1] * 5000}, "std has 5000 numbers"),
    ],
)
def test_mistaken_options(path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as error:
        load(path, **options)
    assert message in str(error.value)


def test_a_network_has_its_own_quantiser(path: Path) -> None:
    with pytest.raises(SettingsError, match="a Network has its own input quantiser"):
        load(load(path), mean=0.5)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "resnet20-sigma0.52",
            r"no such file, .* did you mean resnet20-sigma0\.5\? Models that ship .*resnet8-sigma0",
        ),
        ("resnet20", r"did you mean resnet20-sigma0\.25\? Models that ship"),
        ("nothing like it", r"nothing like it: no such file, and no model of that name; models that ship"),
        ("", "expected the name of a model, the path of a file or a Network, got ''"),
        ("a\0b", "no such file"),
        (None, "expected the name of a model, the path of a file or a Network, got None"),
        (b"model.onnx", "expected the name of a model"),
        (["model.onnx"], "expected the name of a model"),
        (Path(), "it is a folder"),
    ],
)
def test_wrong_models(spec: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        open_model(spec)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"PK\x03\x04zip", "it is not an ONNX"),
        (b"\x80\x02pickle", "it is a pickle"),
        (b"\x1c\x00\x00\x00TFL3", "it is not a TFLite file, or it is damaged"),
        (b"\x89HDF\r\n\x1a\n", "it is an HDF5 file"),
        (b"\x00", "it is not an ONNX"),
    ],
)
def test_other_files_are_told_apart_by_content(tmp_path: Path, data: bytes, what: str) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(data + bytes(100))
    with pytest.raises(ModelError, match=what):
        open_model(path)
    path.write_bytes(save_model(tmp_path / "tiny.onnx").read_bytes())
    assert open_model(path).is_quantized


def test_models_are_short_to_look_at(path: Path) -> None:
    assert len(repr(open_model(path))) < 300
    assert isinstance(open_model(path), Model)
