"""Compile every launch of plans.py for one target: `python -m tests.triton.compile_all sm_90`."""

import argparse
import json
import sys

from . import offline, plans


def rows(target, cases):
    known = {}
    for name, run in cases.items():
        for launch in offline.launches(target, run):
            specialised = tuple(
                (str(a.dtype) if hasattr(a, "dtype") else type(a).__name__) for a in launch.args
            )
            key = (
                launch.kernel,
                specialised,
                launch.warps,
                launch.stages,
                *launch.constants.items(),
            )
            if key in known:
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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=offline.TARGETS)
    parser.add_argument("--quick", action="store_true", help="every kernel once")
    parser.add_argument("--json", action="store_true", help="all rows, machine-readable")
    options = parser.parse_args()
    found = rows(options.target, plans.QUICK if options.quick else plans.ALL)
    if options.json:
        print(json.dumps(found))
        return
    for row in found:
        print("| {case} | {kernel} | {tile} | {warps} | {stages} | {registers} | {spilled} | "
              "{shared} | {matrix} |".format(**row))  # fmt: skip


if __name__ == "__main__":
    main()
