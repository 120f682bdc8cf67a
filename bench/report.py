"""The results as Markdown: printed after a run, and kept in RESULTS.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.compare import UNHELD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Results = dict[str, Any]
BUSY = 0.03  # share of the processors taken by others from which on figures are doubtful


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return [f"| {' | '.join(line)} |" for line in lines] + [""]


def spread(values: dict[str, float], digits: int = 0) -> str:
    """Median, and lowest to highest."""
    median, low, high = (f"{values[key]:,.{digits}f}" for key in ("median", "low", "high"))
    return f"{median} ({low} to {high})"


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def spread_percent(values: dict[str, float]) -> str:
    return f"{spread({key: 100 * value for key, value in values.items()}, 1)} %"


def _comparison(found: Results) -> list[str]:
    rows = []
    for row in found["rows"]:
        if "error" in row:
            rows.append([row["label"], "does not run here", "", "", row["error"].replace("|", "/")[:120]])
            continue
        streams = f" x {row['streams']}" if row["streams"] > 1 else ""
        batch = "" if row["kind"] == "intrs" else f"{row['batch']}{streams}"
        label = f"**{row['label']}**" if row["label"] == found["fastest"] else row["label"]
        rows.append(
            [label, spread(row["rate"], _digits(row)), spread(row["intrs_over_it"], 2), batch, f"{row['peak_mb']:.0f}"]
        )
    head = ["", "images/s", f"{found['fastest']} is faster by", "batch", "peak MB"]
    return table(head, rows)


def _digits(row: Results) -> int:
    return 0 if row["rate"]["median"] >= 1000 else 1


def headline(found: Results) -> list[str]:
    """The ratios that are promised: to the fastest int8 engine, to ONNX Runtime in fp32, to Cohen's loop."""
    rows = [row for row in found["rows"] if "rate" in row]
    int8 = [row for row in rows if row["kind"] == "int8" and not row["label"].endswith(UNHELD)]
    named = [max(int8, key=lambda row: float(row["rate"]["median"]))] if int8 else []
    named += [row for row in rows if row["label"].startswith(("ONNX Runtime fp32", "Cohen's loop"))]
    return [f"- {spread(row['intrs_over_it'], 2)} times {row['label']}" for row in named] + [""]


def compare(found: Results) -> list[str]:
    text = [
        "intrs runs end to end (noise, input quantiser, network, argmax, votes), and so does Cohen's loop; the others",
        "run the bare network on one batch again and again. `a x b` is b batches of a at once.",
    ]
    if found["isa"]:
        text += [f"All are held to {found['isa'].upper()}, but for rows that say otherwise."]
    return [*text, "", *_comparison(found), f"{found['fastest']}, end to end, is", "", *headline(found)]


def large(found: Results) -> list[str]:
    lines = []
    for name, part in found.items():
        lines += [f"### {name}", "", *_comparison(part)]
    return lines


def threads(found: Results) -> list[str]:
    rows = [[k, spread(r["one"]), spread(r["all"]), spread(r["speedup"], 2)] for k, r in found["kernels"].items()]
    return table(["images/s", "1 thread", f"{found['threads']} threads", "ratio"], rows)


def samples(found: Results) -> list[str]:
    head = ["seconds", f"{found['few']:,} samples", f"{found['many']:,} samples", "time per sample, many over few"]
    row = ["intrs", spread(found["seconds_few"], 2), spread(found["seconds_many"], 2), spread(found["relative"], 3)]
    return table(head, [row])


def sizes(found: Results) -> list[str]:
    rows = [
        [
            f"{size} x {size}",
            f"{row['multiply_adds'] / 1e6:,.1f} M",
            spread(row["rate"], 1),
            spread(row["giga_multiply_adds"]),
        ]
        for size, row in found["sizes"].items()
    ]
    return table([f"image, {found['kernels']}", "multiply-adds", "images/s", "10^9 multiply-adds/s"], rows)


def sparse(found: Results) -> list[str]:
    rows = [[k, spread(r["dense"]), spread(r["sparse"]), spread(r["speedup"], 2)] for k, r in found["networks"].items()]
    return table(["images/s", "dense", "half of the groups of four zero", "ratio"], rows)


def double(found: Results) -> list[str]:
    rows = [[k, spread(r["once"]), spread(r["twice"]), spread(r["relative"], 3)] for k, r in found["kernels"].items()]
    return table(["images/s, 1 thread", "rounding once", "rounding twice", "ratio"], rows)


def stages(found: Results) -> list[str]:
    kernels = found["kernels"]
    rows = [
        [
            k,
            f"{r['microseconds']['everything']:.1f}",
            f"{r['microseconds']['around']:.2f}",
            percent(r["around_network"]),
        ]
        for k, r in kernels.items()
    ]
    lines = table(["microseconds per sample, 1 thread", "everything", "without network", "share"], rows)
    if "no_profile" in found:
        return [*lines, f"No profile: {found['no_profile']}.", ""]
    names = dict.fromkeys(stage for row in kernels.values() for stage in row["profile"])
    rows = [[name, *(percent(row["profile"].get(name, 0)) for row in kernels.values())] for name in names]
    rows.sort(key=lambda row: -float(row[1].split()[0]))
    lines += table(["share of the core's time, by perf", *kernels], rows)
    for name, row in kernels.items():
        listed = ", ".join(f"`{function}` {percent(share)}" for function, share in list(row["functions"].items())[:5])
        lines += [f"{name}: {listed}.", ""]
    return lines


def peak(found: Results) -> list[str]:
    counts = list(found["peaks"])
    ways = found["peaks"][counts[0]]
    head = ["10^9 multiply-adds/s, from registers", *(f"{n} thread{'s' * (n != '1')}" for n in counts)]
    rows = [[way, *(spread({k: v / 1e9 for k, v in found["peaks"][n][way].items()}) for n in counts)] for way in ways]
    lines = table(head, rows)
    rows = [[f"{r['kernels']}, {r['threads']}", r["instruction"], spread_percent(r["share"])] for r in found["rows"]]
    return lines + table(["intrs end to end, threads", "instruction", "share of its peak"], rows)


def memory(found: Results) -> list[str]:
    steps = ("interpreter", "imports", "model", "certified", "peak", "without_imports")
    rows = [[name, *(f"{row[step]:.0f}" for step in steps)] for name, row in found["networks"].items()]
    head = ["MB resident", "interpreter", "+ imports", "+ model", "after certifying", "peak", "peak without imports"]
    return table(head, rows)


Section = tuple[str, "Callable[[Results], list[str]]"]
SECTIONS: dict[str, Section] = {
    "compare": ("ResNet-20 for CIFAR", compare),
    "avx2": ("ResNet-20 for CIFAR, as on a machine with AVX2 only", compare),
    "large": ("224 x 224, int8, one file for all", large),
    "mobile": ("Mobile networks at 224 x 224, int8, one file for all", large),
    "threads": ("Threads", threads),
    "samples": ("Number of samples", samples),
    "sizes": ("Image size", sizes),
    "stages": ("Where the time goes", stages),
    "peak": ("Share of the machine's peak", peak),
    "memory": ("Memory", memory),
    "sparse": ("Zeros among the weights", sparse),
    "double": ("Two roundings", double),
}


def _machine(results: Results) -> list[str]:
    m = results["machine"]
    kind = "virtual machine, " if m["virtual"] else ""
    numbers = f" (family, model, stepping {m['family, model, stepping']})" if m["family, model, stepping"] else ""
    flags = " ".join(m["instructions"])
    lines = [f"- {m['processor']}{numbers}, {kind}{m['cores']} cores, {m['memory_gb']} GB; {flags}"]
    lines += [f"- {m['system']}; {', '.join(f'{name} {text}' for name, text in results['versions'].items())}"]
    taken = f"{results['threads']} threads, {results['rounds']} rounds of about {results['seconds']} s for each"
    lines += [f"- {results['date']}; {taken}; medians, with lowest and highest in brackets"]
    weights = f"those of {', '.join(results['trained'])}, shuffled" if results["trained"] else "Gaussian"
    lines += [f"- weights of ResNet-20: {weights}; of the others: Gaussian"]
    return lines


def others(found: Any) -> list[float]:
    """The shares of the processors that something else took, wherever they stand in these results."""
    if not isinstance(found, dict):
        return []
    own = [found["others"]] if "others" in found else []
    return [*own, *(share for part in found.values() for share in others(part))]


def _warning(results: Results) -> list[str]:
    taken = max(others(results["sections"]), default=0.0)
    lines = [f"- other processes took up to {percent(taken)} of the processors meanwhile"]
    if taken > BUSY or results["quick"]:
        lines += ["", "**Not for the record**: " + ("a quick run." if results["quick"] else "the machine was busy.")]
    return lines


def _section(key: str, part: Results) -> list[str]:
    title, render = SECTIONS[key]
    taken = [f"Other processes took {percent(max(shares))} of the processors.", ""] if (shares := others(part)) else []
    reasons = [f"{word}: {part[word]}" for word in ("error", "skipped") if word in part]
    return [f"## {title}", "", *([*reasons, ""] if reasons else [*render(part), *taken])]


def markdown(results: Results) -> str:
    """The whole page."""
    lines = ["# Results", "", f"From `{results['command']}`; README.md says how it measures.", ""]
    lines += [*_machine(results), *_warning(results), ""]
    for key, part in results["sections"].items():
        lines += _section(key, part)
    return "\n".join(lines).rstrip() + "\n"
