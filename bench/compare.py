"""intrs end to end beside other engines' bare networks, in turns, each at its best batch size."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from bench.context import say
from bench.engines import Settings
from bench.hold import held_onnxruntime
from bench.processes import EngineError, Process, Run, in_turns, others, rates, ratios, started

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.context import Context

COHEN_BATCH = 1000  # as published
AVX2 = "avx2"
ORT = "onnxruntime"
UNHELD = ", all instructions"


@dataclass(frozen=True)
class Row:
    """One line of the table: an engine, and the settings among which it may choose its best."""

    label: str
    kind: str  # "intrs", "int8", "fp32" or "loop"
    options: tuple[Settings, ...]


def _options(base: Settings, batches: Sequence[int], streams: Sequence[int] = (1,)) -> tuple[Settings, ...]:
    return tuple(replace(base, batch=batch, streams=count) for batch, count in product(batches, streams))


def _intrs_rows(context: Context, kernels: Sequence[str], name: str, size: int) -> list[Row]:
    return [Row(f"intrs, {k}", "intrs", (context.intrs(k, name=name, size=size),)) for k in kernels]


def _held(context: Context, settings: Settings) -> Settings:
    """ONNX Runtime as on a machine without AVX-512, if that is asked for and can be had."""
    if not (context.isa and settings.engine == ORT):
        return settings
    return replace(settings, packages=str(held_onnxruntime(context.folder) or ""))


def _unheld(settings: Settings) -> str:
    """A remark on engines that could not be held to an instruction set."""
    return UNHELD if settings.isa and settings.engine == ORT and not settings.packages else ""


def resnet20_rows(context: Context) -> list[Row]:
    """What one would use instead of intrs, on CIFAR ResNet-20."""
    streams = (1, context.threads) if context.threads > 1 else (1,)
    some, many = ((64,), (256,)) if context.quick else ((16, 64, 256, 1000), (64, 128, 256, 512))

    def row(label: str, kind: str, engine: str, form: str) -> Row:
        base = _held(context, Settings(engine, context.model(form), context.threads, isa=context.isa))
        label += _unheld(base)
        if engine == "cohen":
            return Row(label, kind, _options(base, (COHEN_BATCH,)))
        if engine == "pt2e":
            return Row(label, kind, _options(base, many[::2]))
        return Row(label, kind, _options(base, many) if engine == "torch" else _options(base, some, streams))

    return [
        *_intrs_rows(context, context.kernels, "resnet20", 32),
        row("OpenVINO int8, NNCF", "int8", "openvino", "nncf"),
        row("OpenVINO int8, file of ONNX Runtime", "int8", "openvino", "int8"),
        row("PyTorch int8, PT2E, Inductor", "int8", "pt2e", "float"),
        row("ONNX Runtime int8", "int8", ORT, "int8"),
        row("ONNX Runtime int8, reduce_range", "int8", ORT, "reduced"),
        row("OpenVINO fp32", "fp32", "openvino", "float"),
        row("ONNX Runtime fp32", "fp32", ORT, "float"),
        row("PyTorch fp32, eager, channels_last", "fp32", "torch", "float"),
        row("Cohen's loop, end to end", "loop", "cohen", "float"),
    ]


def large_rows(context: Context, name: str) -> list[Row]:
    """The int8 engines that read one and the same file, at 224 x 224."""
    streams = (1, context.threads) if context.threads > 1 else (1,)
    batches = (1, 8) if context.quick else (1, 8, 32)

    def row(label: str, engine: str) -> Row:
        base = Settings(engine, context.model("int8", name, 224), context.threads, 224)
        return Row(label, "int8", _options(base, batches, streams))

    ours = _intrs_rows(context, context.fast_kernels, name, 224)
    return [*ours, row("OpenVINO int8", "openvino"), row("ONNX Runtime int8", ORT)]


def best_of(row: Row, seconds: float) -> Settings:
    """The fastest of a row's settings, each tried in a process of its own. Raises EngineError if none works."""
    if len(row.options) == 1:
        return row.options[0]
    speeds: dict[Settings, float] = {}
    failures = []
    for settings in row.options:
        try:
            with started([settings]) as (process,):
                count = process.samples_for(seconds)
                speeds[settings] = max(process.run(count).rate for _ in range(2))
        except EngineError as error:
            failures.append(str(error))
    if not speeds:
        raise EngineError(failures[0])
    best = max(speeds, key=speeds.__getitem__)
    say(f"{row.label}: best at batch {best.batch}, {best.streams} at once ({speeds[best]:.0f} per second)")
    return best


class _Field:
    """The rows that take part, with their best settings; rows that fail are kept with the reason."""

    def __init__(self, context: Context, rows: Sequence[Row]) -> None:
        self.context = context
        self.chosen: dict[str, Settings] = {}
        self.failed: dict[str, str] = {}
        for row in rows:
            try:
                self.chosen[row.label] = best_of(row, context.seconds / 2)
            except EngineError as error:
                self._fail(row.label, error)

    def _fail(self, label: str, error: EngineError) -> None:
        say(f"{label}: does not run: {error}")
        self.failed[label] = str(error)

    def runs(self) -> dict[str, list[Run]]:
        """The timings of every row that runs."""
        taking_part: dict[str, tuple[Process, int]] = {}
        with ExitStack() as stack:
            for label, settings in self.chosen.items():
                try:
                    process = stack.enter_context(closing(Process(settings)))
                    taking_part[label] = process, process.samples_for(self.context.seconds)
                except EngineError as error:
                    self._fail(label, error)
            processes, counts = zip(*taking_part.values(), strict=True)
            return dict(zip(taking_part, in_turns(processes, counts, self.context.rounds), strict=True))


def _entry(row: Row, field: _Field, runs: dict[str, list[Run]], first: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"label": row.label, "kind": row.kind}
    if row.label in field.failed:
        return entry | {"error": field.failed[row.label]}
    mine, settings = runs[row.label], field.chosen[row.label]
    entry |= {"batch": settings.batch, "streams": settings.streams, "rate": rates(mine)}
    entry |= {"intrs_over_it": ratios(runs[first], mine), "peak_mb": max(r.peak_mb for r in mine)}
    return entry | {"runs": [r.fields() for r in mine]}


def run(context: Context, rows: Sequence[Row]) -> dict[str, Any]:
    """All rows in turns. Ratios are of the fastest intrs row to each other one, round by round."""
    field = _Field(context, rows)
    runs = field.runs()
    ours = [row.label for row in rows if row.kind == "intrs" and row.label in runs]
    first = max(ours, key=lambda label: rates(runs[label])["median"])
    table = [_entry(row, field, runs, first) for row in rows]
    return {"isa": context.isa, "fastest": first, "rows": table, "others": others(*runs.values())}


def resnet20(context: Context) -> dict[str, Any]:
    return run(context, resnet20_rows(context))


def resnet20_avx2(context: Context) -> dict[str, Any]:
    """The same as on a machine that has AVX2 and no more."""
    if context.kernels[0] == AVX2 or AVX2 not in context.kernels:
        return {"skipped": "this machine has no more than AVX2, so that the table above is it"}
    return resnet20(replace(context, isa=AVX2))


def large(context: Context) -> dict[str, Any]:
    """ResNet-50 and MobileNetV2 at 224 x 224."""
    return {name: run(context, large_rows(context, name)) for name in ("resnet50", "mobilenetv2")}


def mobile(context: Context) -> dict[str, Any]:
    """MobileNetV3-Small and EfficientNet-Lite0 at 224 x 224: 5x5 depthwise layers, squeeze and excite, h-swish."""
    return {name: run(context, large_rows(context, name)) for name in ("mobilenetv3", "efficientnetlite0")}
