"""C++ programs on the aclnn library: the published one unchanged, and ours with derived numbers."""

import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mhc_ops.cli import main

from .shared import shared

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "aclnn"
CENTRED = [n / 64 for row in ([9, -3, -3, -3], *[[-3, 1, 1, 1]] * 3) for n in row]


@pytest.fixture
def flags(capfd):
    """What `mhc-ops aclnn-flags` prints for these options, as arguments."""

    def ask(*options):
        capfd.readouterr()
        if main(["aclnn-flags", *options]):
            pytest.skip(capfd.readouterr().err)
        (line,) = capfd.readouterr().out.splitlines()
        return line.split()

    return ask


@pytest.fixture
def built(flags, tmp_path):
    """Compile a program with -std=c++17 and the flags; its path."""
    compiler = shutil.which("g++") or shutil.which("c++") or pytest.skip("no C++ compiler")

    def build(source, *options):
        program = tmp_path / "program"
        arguments = [compiler, "-std=c++17", *options, str(source), "-o", str(program)]
        arguments += flags("--cflags", "--libs")
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return program

    return build


def output(program):
    """What the program prints, run with nothing exported."""
    done = subprocess.run([program], capture_output=True, text=True, check=False, env={})
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout


def listed(printed):
    """name: value value .. lines as numbers."""
    return {
        name: [float(value) for value in values.split()]
        for name, values in (line.split(":") for line in printed.splitlines())
    }


@pytest.fixture(scope="session")
def published():
    """The program of the seeds, as it stands there."""
    for path in sorted(shared("seeds", fails_in_ci=True).iterdir()):
        text = path.read_text(encoding="utf-8")
        start = text.find("#include <iostream>\n")
        if start >= 0 and '#include "acl/acl.h"' in text[start:]:
            return text[start:]
    raise AssertionError("no document of the seeds carries the program")


def blocks(printed):
    """The first ten elements of each tensor that the published program prints."""
    parts = re.split(r"(\w+) result \(first 10 elements\):\n", printed)[1:]
    return {
        name: [float(line.partition("=")[2]) for line in lines.splitlines()]
        for name, lines in zip(parts[::2], parts[1::2], strict=True)
    }


def assert_published_numbers(printed):
    got = blocks(printed)
    assert got["gradX"] == [18.0] * 10
    assert got["gradAlpha"] == pytest.approx([0, 2048, 16384], abs=0.01)
    assert got["gradBias"] == pytest.approx([0] * 4 + [512] * 4 + [1024] * 2, abs=0.01)
    assert got["gradPhi"] == pytest.approx([0] * 10, abs=1e-30)
    assert got["gradGamma"] == pytest.approx([0] * 10, abs=1e-30)


def test_the_published_program_compiles_unchanged(published, built, tmp_path):
    source = tmp_path / "published.cpp"
    source.write_text(published, encoding="utf-8")
    assert_published_numbers(output(built(source)))


def test_the_published_program_with_the_edits_for_v2(published, built, tmp_path):
    edited = published.replace("aclnn_mhc_pre_backward.h", "aclnn_mhc_pre_backward_v2.h")
    edited = re.sub(
        r"aclnnMhcPreBackward(?=GetWorkspaceSize\(|\()", "aclnnMhcPreBackwardV2", edited
    )
    edited = edited.replace("hc_eps, gradX", "hc_eps, opImplMode, gradX")
    edited = edited.replace("    float hc_eps", "    int64_t opImplMode = 1;\n    float hc_eps")
    assert edited.count("opImplMode") == 2
    source = tmp_path / "edited.cpp"
    source.write_text(edited, encoding="utf-8")
    assert_published_numbers(output(built(source)))


@pytest.mark.long
def test_the_published_program_under_valgrind(published, built, tmp_path):
    valgrind = shutil.which("valgrind") or pytest.skip("no valgrind")
    source = tmp_path / "published.cpp"
    source.write_text(published, encoding="utf-8")
    command = [valgrind, "--leak-check=full", "--error-exitcode=9", str(built(source))]
    # It knows no AVX-512, and takes the team that OpenMP keeps for a leak.
    env = {"MHC_OPS_ISA": "avx2", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    assert_published_numbers(done.stdout)


EXPECTED = {
    "mhc_pre": {
        "hIn": [6] * 32,
        "hPost": [1.5] * 8,
        "hRes": [6] * 32,
        "invRms": [0.5] * 2,
        "hMix": [2] * 48,
        "hPre": [0.75] * 8,
    },
    "mhc_post": {"out": ([11] * 4 + [1] * 12) * 2},
    "mhc_post_backward": {
        "gradX": [2.5] * 128,
        "gradHres": [32, 64, 96, 128] * 8,
        "gradHout": [5] * 32,
        "gradHpost": [48, 96, 144, 192] * 2,
    },
    "mhc_sinkhorn": {
        "output": [32 / 169] * 32,
        "normOut": [
            value
            for entry in (1 / 4, 2 / 9, 8 / 41, 32 / 169)
            for value in ([entry] * 4 + [0] * 4) * 8
        ],
        "sumOut": [0] * 16
        + [value for s in (9 / 4, 41 / 36, 169 / 164) for value in ([s] * 4 + [0] * 4) * 2],
    },
    "mhc_sinkhorn_backward": {"out": CENTRED},
    "mhc_pre_sinkhorn": {
        "hin": [6] * 256,
        "hPost": [1.5] * 8,
        "hRes": [0.25] * 32,
        "hPre": [0.75] * 8,
        "hcBeforeNorm": [2] * 48,
        "invRms": [0.5] * 2,
        "sumOut": [4] * 8 + [1] * 312,
        "normOut": [0.25] * 1280,
    },
    "mhc_pre_sinkhorn_backward": {
        "gradX": [0] * 512,
        "gradPhi": [
            value * math.log(3) for value in [0] * 4 + [0.375] * 4 + CENTRED for _ in range(512)
        ],
        "gradAlpha": [0, 1.5, 0],
        "gradBias": [0] * 4 + [0.375] * 4 + CENTRED,
    },
}


def test_every_example_has_its_numbers_here():
    assert {path.stem for path in EXAMPLES.glob("*.cpp")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_example(name, built):
    warnings = ("-Wall", "-Wextra", "-Werror")
    printed = output(built(EXAMPLES / f"{name}.cpp", *warnings))
    runs = 2 if name == "mhc_pre" else 1  # V1, then V2
    lines = printed.splitlines()
    for part in range(runs):
        share = lines[part * len(lines) // runs : (part + 1) * len(lines) // runs]
        got = listed("\n".join(share))
        assert set(got) == set(EXPECTED[name])
        for tensor, values in EXPECTED[name].items():
            assert got[tensor] == pytest.approx(values, abs=1e-6), tensor


def test_flags_before_the_source_and_headers_in_plain_c(flags, tmp_path):
    compiler = shutil.which("gcc") or shutil.which("cc") or pytest.skip("no C compiler")
    headers = sorted(path.name for path in (ROOT / "include" / "aclnnop").glob("*.h"))
    source = tmp_path / "program.c"
    includes = "".join(f'#include "aclnnop/{name}"\n' for name in headers)
    source.write_text(
        f"{includes}#include <mhc_ops/aclnn.h>\n"
        "int main(void) {\n"
        '    return aclInit(0) || mhc_aclnn_set_soc("ascend910b") || aclFinalize();\n'
        "}\n",
        encoding="utf-8",
    )
    program = tmp_path / "program"
    arguments = [compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-unused-const-variable"]
    arguments += [*flags(), str(source), "-o", str(program)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert output(program) == ""


def test_flags_of_one_kind(flags):
    compiling, linking = flags("--cflags"), flags("--libs")
    assert [f[:2] for f in compiling] == ["-I"]
    assert not any(f.startswith("-I") for f in linking)
    assert flags("--cflags", "--libs") == flags() == [*compiling, *linking]


def test_pkg_config_says_the_same(flags):
    tool = shutil.which("pkg-config") or pytest.skip("no pkg-config")
    (folder,) = (flag[2:] for flag in flags("--libs") if flag.startswith("-L"))
    done = subprocess.run(
        [tool, "--cflags", "--libs", "mhc-aclnn"],
        capture_output=True,
        text=True,
        check=True,
        env={"PKG_CONFIG_PATH": f"{folder}/pkgconfig"},
    )
    found = {
        flag[:2] + str(Path(flag[2:]).resolve())
        for flag in done.stdout.split()
        if flag[:2] in ("-I", "-L")
    }
    assert found == {f"-L{Path(folder).resolve()}", f"-I{(Path(folder) / 'include').resolve()}"}
    assert "-lmhc_aclnn" in done.stdout
