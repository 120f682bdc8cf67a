"""How the speed of intrs changes with threads, samples, image size, zeros among the weights, and two roundings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bench.processes import in_turns, median_and_range, others, rates, ratios, started, timed_in_turns

if TYPE_CHECKING:
    from bench.context import Context

FEW, MANY = 10_000, 100_000
SIZES = (32, 64, 128, 224)
SPARSE = (("resnet20", 32), ("resnet50", 224))


def threads(context: Context) -> dict[str, Any]:
    """All threads against one, for each kernel set."""
    table = {}
    for kernels in context.fast_kernels:
        settings = [context.intrs(kernels, count) for count in (1, context.threads)]
        one, all_ = timed_in_turns(settings, context.seconds, context.rounds)
        row = {"one": rates(one), "all": rates(all_), "speedup": ratios(all_, one), "others": others(one, all_)}
        table[kernels] = row
    return {"threads": context.threads, "kernels": table}


def samples(context: Context) -> dict[str, Any]:
    """Time for many samples over ten times the time for few, in one process, in turns."""
    few, many = (FEW // 10, MANY // 10) if context.quick else (FEW, MANY)
    with started([context.intrs(context.kernels[0])]) as (process,):
        process.samples_for(context.seconds)  # warms up
        pairs = [(process.run_exactly(few), process.run_exactly(many)) for _ in range(max(3, context.rounds))]
    linear = median_and_range([b.seconds / b.samples / (a.seconds / a.samples) for a, b in pairs])
    short, long = (median_and_range([pair[i].seconds for pair in pairs]) for i in (0, 1))
    return {
        "few": few, "many": many, "seconds_few": short, "seconds_many": long, "relative": linear,
        "others": others([run for pair in pairs for run in pair]),
    }  # fmt: skip


def sizes(context: Context) -> dict[str, Any]:
    """ResNet-20 on larger images: multiply-adds a second should not fall."""
    import intrs

    chosen = SIZES[:2] if context.quick else SIZES
    settings = [context.intrs(context.kernels[0], size=size) for size in chosen]
    runs = timed_in_turns(settings, context.seconds, context.rounds)
    table = {}
    for size, setting, mine in zip(chosen, settings, runs, strict=True):
        work = intrs.load(setting.model, pixels="unit").native.multiply_adds()
        rate = rates(mine)
        gigas = {key: value * work / 1e9 for key, value in rate.items()}
        table[str(size)] = {"multiply_adds": work, "rate": rate, "giga_multiply_adds": gigas}
    return {"kernels": context.kernels[0], "sizes": table, "others": others(*runs)}


def sparse(context: Context) -> dict[str, Any]:
    """Networks of which half of the groups of four weights are zero, against the dense ones."""
    table = {}
    for name, size in SPARSE[:1] if context.quick else SPARSE:
        for kernels in context.fast_kernels:
            settings = [context.intrs(kernels, name=name, size=size, sparse=zero) for zero in (False, True)]
            with started(settings) as processes:
                counts = [process.samples_for(context.seconds) for process in processes]
                dense, zeros = in_turns(processes, counts, context.rounds)
            row = {"dense": rates(dense), "sparse": rates(zeros), "speedup": ratios(zeros, dense)}
            table[f"{name}, {kernels}"] = row | {"others": others(dense, zeros)}
    return {"networks": table}


def double(context: Context) -> dict[str, Any]:
    """ResNet-20 with Convs that round twice against the same with Convs that round once, one thread."""
    table = {}
    for kernels in context.fast_kernels:
        once = context.intrs(kernels, 1)
        settings = [once, replace(once, engine="intrs, twice")]
        first, second = timed_in_turns(settings, context.seconds, context.rounds)
        row = {"once": rates(first), "twice": rates(second), "relative": ratios(second, first)}
        table[kernels] = row | {"others": others(first, second)}
    return {"kernels": table}
