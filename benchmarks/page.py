"""docs/performance.md and its picture, made from the rows of the runs."""

import json
from pathlib import Path
from typing import Any

from .registry import OPERATORS

_BARS = (("eager", "#9aa5b1"), ("compiled", "#f0a04b"), ("torch", "#7fb069"), ("ours", "#2f6690"))


def best_compiled(row: dict[str, Any]) -> float | None:
    times = [ms for name, ms in row["ms"].items() if name.startswith("compiled")]
    return min(times) if times else None


def line(row: dict[str, Any]) -> str:
    """One row of the table."""
    ms, compiled = row["ms"], best_compiled(row)
    ours = ms["ours"]
    kept = ms.get("ours, preallocated", ours)
    chain = ms.get("ours, one after the other")
    cells = (
        f"{row['operator']} {row['direction']}",
        f"{row['T']}, {row['N']}, {row['D']}",
        f"{ours:.3g}",
        f"{kept:.3g}",
        f"{ms['eager'] / ours:.1f}x",
        f"{compiled / ours:.1f}x" if compiled else "",
        f"{ms['torch'] / ours:.1f}x" if "torch" in ms else "",
        f"{kept / chain:.2f}" if chain else "",
        f"{kept / row['floor_ms']:.2f}",
        f"{row['gflops']:.0f}",
        f"{row['gbytes_per_s']:.1f}",
        f"{row['peak_extra_mb']:.1f}",
    )
    return "| " + " | ".join(cells) + " |"


_HEAD = (
    "| operator | T, N, D | ms | ms, out= | vs eager | vs compiled | vs impl='torch' "
    "| of the two operators' time | out= / floor | GFLOP/s | GB/s | extra MB |\n|" + "---|" * 12
)


_MODEL_HEAD = (
    "| what | dtype | ms | patched | faster | mHC ms | patched | faster | mHC share | patched "
    "| peak MB | patched |\n|" + "---|" * 12
)


def model_line(row: dict[str, Any]) -> str:
    """One row of the table of whole models."""
    pairs = [(row[key]["unpatched"], row[key]["patched"]) for key in ("ms", "mhc_ms", "peak_mb")]
    (before, after), (mixing_before, mixing_after), memory = pairs
    cells = (
        row["mode"],
        row["dtype"],
        f"{before:.4g}",
        f"{after:.4g}",
        f"{before / after:.2f}x",
        f"{mixing_before:.4g}",
        f"{mixing_after:.4g}",
        f"{mixing_before / mixing_after:.1f}x",
        f"{mixing_before / before:.0%}",
        f"{mixing_after / after:.0%}",
        *(f"{megabytes:.0f}" for megabytes in memory),
    )
    return "| " + " | ".join(cells) + " |"


def write(results: Path, machine: str, folder: Path) -> None:
    """performance.md and performance.svg from the rows stored in `results` for this machine."""
    rows = [row for name in OPERATORS for row in _stored(results, name, machine)]
    models = _stored(results, "model", machine)
    text = "".join([_operators(rows) if rows else "", _models(models) if models else ""])
    (folder / "performance.md").write_text(text)
    if rows:
        picture = _picture([r for r in rows if best_compiled(r)])
        (folder / "performance.svg").write_text(picture)


def _stored(results: Path, kind: str, machine: str) -> list[dict[str, Any]]:
    file = results / f"{kind}-{machine}.jsonl"
    return [json.loads(row) for row in file.read_text().splitlines()] if file.exists() else []


def _models(rows: list[dict[str, Any]]) -> str:
    first = rows[0]
    return f"""
## Whole models

`benchmarks/model_step.py --page`: {first["model"]} of transformers {first["transformers"]}, hidden
{first["hidden"]}, {first["layers"]} layers, {first["tokens"]} tokens, before and after
`mhc_ops.integrations.transformers.accelerate`, by turns in one process; {first["threads"]} threads,
kernels: {first["kernels"]}, torch {first["torch"]}, commit {first["commit"]}, load average
{first["load"]:.1f}. "step" is forward, loss and backward, "prefill" a forward without gradients;
"mHC ms" is the time inside the hyper-connections, the mixing of the streams and the head; "peak MB"
is the most memory that torch holds for tensors of one call, gradients included, parameters not.

{_MODEL_HEAD}
{chr(10).join(model_line(r) for r in rows)}
"""


def _operators(rows: list[dict[str, Any]]) -> str:
    first = rows[0]
    return f"""# Measured speed

Made by `make bench` (`benchmarks/run.py --page`) from `benchmarks/results/`; do not edit. Medians
of interleaved runs in one process, bfloat16, gamma and grad_x_post present, {first["threads"]}
threads, kernels: {first["kernels"]}, torch {first["torch"]}, commit {first["commit"]}, load
average before the run {first["load"]:.1f}.

The floor of a row is the larger of flops / FMA throughput and bytes / reading bandwidth, both
probed in the same run (here {first["fma_gflops"]:.0f} GFLOP/s and {first["memory_gb_s"]:.1f} GB/s);
`registry.py` has the formulas. Sinkhorn's has no part for its divisions. "compiled" is the faster
of torch.compile of autograd and of the formula written out. "ms" allocates its outputs, "out="
writes into given ones; "extra MB" is what a call with out= adds to the process's memory at its
peak. "sublayer" is a training step of a sublayer's mHC part: pre, sinkhorn and post, forward and
backward.

![time of one call, relative to eager](performance.svg)

{_HEAD}
{chr(10).join(line(r) for r in rows)}

{_subsets(rows)}
{_kept(rows)}
{_decode(rows)}"""


def _subsets(rows: list[dict[str, Any]]) -> str:
    found = [
        f"| {r['T']}, {r['N']}, {r['D']} | {r['ms']['ours']:.3g} "
        f"| {r['ms']['ours, grad_x alone']:.3g} | {r['ms']['ours, parameters alone']:.3g} |"
        for r in rows
        if "ours, grad_x alone" in r["ms"]
    ]
    title = "pre's backward, when only some gradients are wanted (ms)"
    return _table(title, ("all", "grad_x alone", "parameters alone"), found)


def _kept(rows: list[dict[str, Any]]) -> str:
    found = [
        f"| {r['T']}, {r['N']}, {r['D']} | {r['kept_bytes']['ours'] / 2**20:.1f} "
        f"| {r['kept_bytes']['eager'] / 2**20:.1f} |"
        for r in rows
        if r["kept_bytes"]
    ]
    title = "What a training sublayer keeps for its backward beside its inputs (MiB)"
    return _table(title, ("ours", "eager"), found)


def _decode(rows: list[dict[str, Any]]) -> str:
    found = [
        f"| {r['T']}, {r['N']}, {r['D']} | {r['ms']['ours'] * 1e3:.1f} "
        f"| {r['ms']['eager'] / r['ms']['ours']:.1f}x | {r['phi_from_l2_ms'] * 1e3:.1f} |"
        for r in rows
        if r["operator"] == "pre" and r["direction"] == "forward" and r["T"] == 1
    ]
    columns = ("us a call", "vs eager", "us to read phi from one core's L2")
    return _table("One token (pre, forward)", columns, found)


def _table(title: str, columns: tuple[str, ...], rows: list[str]) -> str:
    """Lines that begin with a shape."""
    head = f"| T, N, D | {' | '.join(columns)} |"
    rule = "|" + "---|" * (len(columns) + 1)
    return f"{title}:\n\n" + "\n".join([head, rule, *rows]) + "\n"


def _picture(rows: list[dict[str, Any]]) -> str:
    """Horizontal bars: time of each variant as a share of eager's."""
    width, bar, left = 820, 13, 250
    parts, y = [], 34
    for x, (name, colour) in enumerate(_BARS):
        parts.append(f'<rect x="{left + 120 * x}" y="8" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{left + 120 * x + 17}" y="18">{name}</text>')
    for row in rows:
        title = f"{row['operator']} {row['direction']} {row['T']}, {row['N']}, {row['D']}"
        parts.append(f'<text x="8" y="{y + 2.4 * bar:.0f}">{title}</text>')
        for name, colour in _BARS:
            ms = best_compiled(row) if name == "compiled" else row["ms"].get(name)
            if ms is None:
                continue
            length = (width - left - 90) * min(1.0, ms / row["ms"]["eager"])
            parts.append(
                f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{bar - 2}" '
                f'fill="{colour}"/>'
            )
            parts.append(f'<text x="{left + length + 5:.1f}" y="{y + bar - 3}">{ms:.3g} ms</text>')
            y += bar
        y += 10
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" '
        f'font-family="sans-serif" font-size="11">\n' + "\n".join(parts) + "\n</svg>\n"
    )
