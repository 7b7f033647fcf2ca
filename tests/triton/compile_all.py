"""Compile the launches of plans.py for GPUs that are not here.

python -m tests.triton.compile_all sm_90 [..] [--quick] [--json] [--kernel post_bwd_kernel]
python -m tests.triton.compile_all --page       # every target; renews the table of docs/gpu.md
"""

import argparse
import json
import sys
from pathlib import Path

from . import offline, plans

PAGE = Path(__file__).parents[2] / "docs" / "gpu.md"
_BEGIN, _END = "<!-- compiled -->", "<!-- /compiled -->"


def rows(target, cases, kernel=None):
    """What the launches of `cases` compile to, each once; of one kernel, or of all."""
    known = {}
    for name, run in cases.items():
        for launch in offline.launches(target, run):
            key = (launch.kernel, offline.specialisation(launch))
            if key in known or kernel not in (None, launch.kernel.__name__):
                continue
            built = offline.build(target, launch)
            tile = [launch.constants[k] for k in ("BT", "BK", "BD", "BF") if k in launch.constants]
            known[key] = {
                "case": name,
                **built._asdict(),
                "shared_limit": offline.SHARED[target],
                "tile": "x".join(map(str, tile)),
                "warps": launch.warps,
                "stages": launch.stages,
            }
            print(target, *known[key].values(), file=sys.stderr, flush=True)
    return list(known.values())


def table(found):
    """The first launch of each kernel at N = 4: registers, shared memory, matrix unit, tile."""
    kernels = dict.fromkeys(row["kernel"] for rows in found.values() for row in rows)
    lines = [f"| Kernel | {' | '.join(found)} |", "|---" * (len(found) + 1) + "|"]
    for kernel in kernels:
        cells = []
        for rows_of_target in found.values():
            row = next(r for r in rows_of_target if r["kernel"] == kernel)
            facts = [str(row["registers"]), str(row["shared"])]
            facts += [row["matrix"]] if row["matrix"] else []
            tiles = f"{row['tile']}, {row['warps']} warps" if row["matrix"] else ""
            cells.append("; ".join(filter(None, (", ".join(facts), tiles))))
        lines.append(f"| `{kernel}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def renewed(page, found):
    """The page with this table between its marks."""
    head, rest = page.split(_BEGIN)
    return f"{head}{_BEGIN}\n{table(found)}\n{_END}{rest.split(_END)[1]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", default=list(offline.TARGETS))
    parser.add_argument("--kernel", help="launches of this kernel alone")
    parser.add_argument("--quick", action="store_true", help="every kernel once")
    parser.add_argument("--json", action="store_true", help="all rows, machine-readable")
    parser.add_argument("--page", action="store_true", help="renew the table of docs/gpu.md")
    options = parser.parse_args()
    found = {}
    for target in options.targets:
        more = {} if options.quick or options.page else plans.ALL | plans.candidates(target)
        found[target] = rows(target, plans.QUICK | more, options.kernel)
    if options.page:
        PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
    elif options.json:
        print(json.dumps([row for rows in found.values() for row in rows]))
    else:
        print(table(found))


if __name__ == "__main__":
    main()
