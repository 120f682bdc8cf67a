"""The functions of `import intrs`: every command is one call, and the command line only parses, calls and prints."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from intrs import job as jobs
from intrs import results
from intrs.adaptive import SpendingRule, stages_of
from intrs.certificate import Certifier
from intrs.data import is_files, is_path
from intrs.driver import joined, work
from intrs.errors import SettingsError
from intrs.exact import parse_percent, shown
from intrs.exchange.targets import Exported, target_of, write
from intrs.files import as_path, check_new, check_new_folder, write_whole
from intrs.metrics import Results
from intrs.model import open_model
from intrs.noise import Noise
from intrs.progress import Progress, reporting
from intrs.request import Certify, Predict
from intrs.verification import Verification, Verified, open_verification

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from intrs.certificate import Bound, RadiusTable
    from intrs.data import Spec as AnyData
    from intrs.engines import Workers
    from intrs.exact import Count, Number
    from intrs.files import AnyPath
    from intrs.job import Job
    from intrs.model import AnyModel
    from intrs.noise import Kind
    from intrs.progress import Shown
    from intrs.request import Form
    from intrs.results import Row


@dataclass(frozen=True, eq=False)
class Started:
    """A run that is about to begin: what `on_start` is called with."""

    job: Job
    path: Path | None  # of the results file
    rows: Sequence[Row]  # grows while the run goes on; what it holds at the start was done before


def certify(
    model: AnyModel,
    data: AnyData,
    *,
    sigma: Number | None = None,
    noise: Kind = Certify.noise,  # type: ignore[assignment]
    n: Count = Certify.n,
    n0: Count = Certify.n0,
    alpha: Number = Certify.alpha,
    seed: str | int | None = None,
    bound: Bound = Certify.bound,
    form: Form = Certify.form,
    adaptive: bool = False,
    radii: Sequence[Number] = (),
    precision: Number | None = None,
    give_up: Number | None = None,
    split: str = Certify.split,
    fit: str = "",
    first: Count = Certify.first,
    skip: Count = Certify.skip,
    max: Count | None = None,  # the setting's name
    shard: str = "",
    pixels: Literal["auto", "unit", "byte"] = "auto",
    mean: str | Sequence[Number] = "",
    std: str | Sequence[Number] = "",
    dialect: Literal["", "tflm", "litert"] = "",
    names: str | Sequence[str] = (),
    by_number: bool = False,
    threads: Count = Certify.threads,
    kernels: str = "",
    ray: str | bool | None = None,
    workers: Workers = "core",
    twice: Number = 0,
    out: AnyPath | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: Shown = None,
    on_start: Callable[[Started], object] | None = None,
) -> Results:
    """Algorithm 1 for every image: a class and a radius that hold with probability at least 1 - alpha each.

    model is the name of a shipped model, a file, or a `Network`; data is the name of a data set, a file or folder, an
    `Images`, or the arrays (images, labels). Without labels it is an image file ("cat.png") or a list of them, a folder
    of images, an .npz without labels, or an array; fit="resize" or "crop" makes image files fit the model. sigma is a
    fraction of the pixel range; without it, the model's own is taken. Radii or a precision ("1%") make the run
    adaptive: then n is the most samples that an image gets.

    Where both the data's and the model's classes have names, labels are found by name. names gives those of the model,
    in the order of its outputs (a model that ships has its own); by_number=True takes labels as the model's numbers.

    shard="2/8" does the second of eight parts of the run, which `merge` puts together; "2/8:samples" divides the
    samples of every image instead of the images. With `out`, each line is written as soon as it is known, and `resume`
    continues a file that exists after Ctrl-C, kill -9 or a power cut. Returns the `Results`, which know certified
    accuracies and become a pandas DataFrame.

    ray=True counts on the Ray cluster that this machine knows, or on one that is started here; ray="ADDRESS" joins that
    one (extra `ray`). The votes are the same. workers says whether a unit of work takes a "core" or a whole "node", and
    twice which share of the units two nodes count, so that a machine that computes wrongly is found.
    """
    settings = locals()
    return _run(Certify, settings)


def predict(
    model: AnyModel,
    data: AnyData,
    *,
    sigma: Number | None = None,
    noise: Kind = Predict.noise,  # type: ignore[assignment]
    n: Count = Predict.n,
    alpha: Number = Predict.alpha,
    seed: str | int | None = None,
    split: str = Predict.split,
    fit: str = "",
    first: Count = Predict.first,
    skip: Count = Predict.skip,
    max: Count | None = None,  # the setting's name
    shard: str = "",
    pixels: Literal["auto", "unit", "byte"] = "auto",
    mean: str | Sequence[Number] = "",
    std: str | Sequence[Number] = "",
    dialect: Literal["", "tflm", "litert"] = "",
    names: str | Sequence[str] = (),
    by_number: bool = False,
    threads: Count = Predict.threads,
    kernels: str = "",
    ray: str | bool | None = None,
    workers: Workers = "core",
    twice: Number = 0,
    out: AnyPath | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: Shown = None,
    on_start: Callable[[Started], object] | None = None,
) -> Results:
    """Algorithm 2 for every image: a class that is wrong with probability at most alpha. Otherwise as `certify`."""
    settings = locals()
    return _run(Predict, settings)


def _run(kind: type[Certify | Predict], settings: dict[str, Any]) -> Results:
    model = open_model(settings["model"])
    request = kind.of(settings | {"model": model.name, "data": _names(settings["data"])})
    path = None if settings["out"] is None else as_path(settings["out"], "out")
    if settings["resume"] and (path is None or settings["overwrite"]):
        raise SettingsError("resume continues a file that out names; it cannot be combined with overwrite")
    twice = _share_counted_twice(settings["twice"], settings["ray"])
    job = jobs.open_job(request, model, settings["data"])
    with joined(settings["ray"], settings["workers"], job) as cluster:  # before a file is begun
        job, writer = jobs.begin(job, path, resume=settings["resume"], overwrite=settings["overwrite"])
        with writer:
            if settings["on_start"]:
                settings["on_start"](Started(job, path, writer.rows))
            with reporting(settings["progress"]) as report:
                work(job, writer, report, cluster.engine(job.voter) if cluster else None, twice)
    return Results.of(path, job.run, writer.rows)


def _share_counted_twice(twice: Number, ray: str | bool | None) -> Fraction:
    share = parse_percent(twice, "twice") or Fraction(0)
    if not 0 <= share <= 1:
        raise SettingsError(f"twice, a share of the work, must lie between 0 and 100%, got {shown(twice)}")
    if share and not ray:
        raise SettingsError("twice compares the nodes of a cluster; ask for one with ray, or leave it out")
    return share


def _names(data: AnyData) -> str | tuple[str, ...]:
    """What finds the data again; what is in memory has no name."""
    if is_files(data):
        return tuple(os.fspath(each) for each in data) if len(data) > 1 else os.fspath(data[0])
    return os.fspath(data) if is_path(data) else ""


def verify(
    results: AnyPath | Results,
    *,
    images: Count | None = None,
    model: AnyModel | None = None,
    data: AnyData | None = None,
    threads: Count = 0,
    kernels: str = "",
    ray: str | bool | None = None,
    workers: Workers = "core",
    progress: Shown = None,
    on_start: Callable[[Verification], object] | None = None,
) -> Verified:
    """Compute a results file again, bit for bit; the answer is true if nothing differs, and else says what does.

    Every line is judged again from its votes. The votes themselves are counted again for all images, or for `images`
    of them, drawn at random. model and data say where they are now if they were moved; files outside the folder of the
    results are opened only when they are named so.
    """
    path = results.path if isinstance(results, Results) else as_path(results, "results")
    if path is None:
        raise SettingsError("these results are in no file; certify with out= to have something to verify")
    opened = open_verification(
        path, images=images, model=model, data=data, threads=threads, kernels=kernels,  # type: ignore[arg-type]
    )  # fmt: skip
    if on_start:
        on_start(opened)
    with joined(ray, workers, opened.job) as cluster, reporting(progress) as report:
        return opened.check(report, cluster.engine(opened.job.voter) if cluster else None)


def _each(parts: AnyPath | Sequence[AnyPath | Results]) -> list[AnyPath]:
    """The files of one or several parts."""
    if not isinstance(parts, Iterable):
        raise SettingsError(f"parts: expected the files of a run, got {shown(parts)}")
    listed = [parts] if isinstance(parts, str | os.PathLike | Results) else parts
    return [path for part in listed for path in (part.paths if isinstance(part, Results) else [part])]


def merge(parts: AnyPath | Sequence[AnyPath | Results], out: AnyPath, *, overwrite: bool = False) -> Results:
    """Put the files of parts of one run together; the result is what one run would have written, but for the times.

    The parts may come from different machines and kernel sets, and may overlap: then they must agree. Raises
    `UnfinishedError`, a ResultsError, if something is missing.
    """
    path, files = as_path(out, "out"), [as_path(part, "parts") for part in _each(parts)]
    merged = results.merge(files)
    check_new(path, overwrite=overwrite, inputs=files)
    with results.create(path, merged.run, overwrite=overwrite) as writer:
        for row in merged.rows:
            writer.append(row)
    return Results.of(path, merged.run, merged.rows)


# --- Files for other programs ----------------------------------------------------------------------------------------


def export(
    model: AnyModel,
    out: AnyPath,
    *,
    target: str | None = None,
    pixels: Literal["auto", "unit", "byte"] = "auto",
    mean: str | Sequence[Number] = "",
    std: str | Sequence[Number] = "",
    dialect: Literal["", "tflm", "litert"] = "",
    overwrite: bool = False,
    **options: Any,
) -> Exported:
    """Write a model for other programs.

    target is "tosa" (a TOSA 1.0 flatbuffer, the standard whose integers a network computes), "tflite" (an int8 file for
    LiteRT and TFLite Micro), "onnx" (an int8 QDQ file for ONNX Runtime) or "web" (for browsers, see docs/web.md).
    Without one the suffix of `out` decides, and TOSA if it has none. `options` are those of the target. "tflite"
    and "onnx" round elsewhere than the network: `written` of what is returned has the network in the file, and how its
    scores differ on noisy images. These are drawn from a fixed seed, or those of `data`; the noise is `sigma`, or what
    the model was trained under.
    """
    opened, path = open_model(model), as_path(out, "out")
    chosen = target_of(target, path)
    if chosen.folder:
        check_new_folder(path, chosen.folder, overwrite=overwrite)
    else:
        check_new(path, overwrite=overwrite, inputs=[opened.path] if opened.path else [])
    if "sigma" in chosen.options and opened.trained_sigma:
        options.setdefault("sigma", opened.trained_sigma)
    if "names" in chosen.options and opened.class_names:
        options.setdefault("names", opened.class_names)
    return write(chosen, opened.network(pixels, mean, std, dialect), path, options, opened.trained_sigma)


def table(
    out: AnyPath | None = None,
    *,
    sigma: Number,
    dimension: Count,
    noise: Kind = Certify.noise,  # type: ignore[assignment]
    n: Count = Certify.n,
    alpha: Number = Certify.alpha,
    bound: Bound = Certify.bound,
    overwrite: bool = False,
    progress: Shown = None,
) -> RadiusTable:
    """The map from votes to squared radius, for devices that can only look up; written to a file if `out` names one.

    dimension is the number of values per image, height x width x channels.
    """
    path = None if out is None else as_path(out, "out")
    if path:
        check_new(path, overwrite=overwrite)
    certifier = Certifier(Noise.of(noise, sigma), dimension, n, alpha, bound)
    _check_certifies(certifier.least_votes() is not None, certifier)
    with reporting(progress) as report:
        made = certifier.table(report and (lambda done, of: report(Progress(done, of, "entries", f"entry {done:,}"))))
    if path:
        write_whole(path, made.to_bytes())
    return made


def adaptive_table(
    out: AnyPath | None = None,
    *,
    sigma: Number,
    dimension: Count,
    noise: Kind = Certify.noise,  # type: ignore[assignment]
    n: Count = Certify.n,
    alpha: Number = Certify.alpha,
    bound: Bound = Certify.bound,
    radii: Sequence[Number] = (),
    give_up: Number | None = None,
    overwrite: bool = False,
) -> SpendingRule:
    """The stopping rule of an adaptive run: the votes that accept or give up each radius, at each look.

    Written to a file if `out` names one. Without radii, all quarters that n samples can certify are decided.
    """
    path = None if out is None else as_path(out, "out")
    if path:
        check_new(path, overwrite=overwrite)
    certifier = Certifier(Noise.of(noise, sigma), dimension, n, alpha, bound)
    rule = stages_of(certifier, radii, give_up=give_up).rules(certifier)[-1]
    assert isinstance(rule, SpendingRule)
    _check_certifies(bool(rule.tables.thresholds), certifier)
    if path:
        write_whole(path, rule.to_bytes())
    return rule


def _check_certifies(certifies: bool, certifier: Certifier) -> None:
    if not certifies:
        n, alpha = certifier.n, float(certifier.alpha)
        raise SettingsError(f"with n = {n} and alpha = {alpha:g} no number of votes certifies; take a larger n")
