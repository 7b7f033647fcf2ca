"""The page in a real browser: its parts are painted, in light and in dark."""

import os
import re
import shutil
import struct
import subprocess
import zlib

import pytest

from mhc_ops.monitor import read_run, render_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (Debian: chromium)"),
]


def pixels(path):
    """The rows of an 8-bit RGB or RGBA PNG, as lists of (r, g, b)."""
    data, place, packed = path.read_bytes(), 8, b""
    while place < len(data):
        length, kind = struct.unpack_from(">I4s", data, place)
        body = data[place + 8 : place + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colours = struct.unpack_from(">IIBB", body)
        packed += body if kind == b"IDAT" else b""
        place += length + 12
    assert depth == 8
    size = {2: 3, 6: 4}[colours]
    raw, stride, before, rows = zlib.decompress(packed), width * size, bytes(width * size), []
    for r in range(height):
        start = r * (stride + 1)
        row = bytearray(raw[start + 1 : start + 1 + stride])
        unfilter(raw[start], row, before, size)
        rows.append([tuple(row[i : i + 3]) for i in range(0, stride, size)])
        before = row
    return rows


def unfilter(kind, row, above, size):
    """Undo a PNG row filter in place: 0 none, 1 left, 2 up, 3 average, 4 Paeth."""
    for i in range(len(row)):
        a = row[i - size] if i >= size else 0
        b, c = above[i], above[i - size] if i >= size else 0
        p = a + b - c
        nearest = min((a, b, c), key=lambda v: abs(p - v))
        row[i] = (row[i] + (0, a, b, (a + b) // 2, nearest)[kind]) & 255


def shot(folder, page):
    (folder / "page.html").write_text(page, encoding="utf-8")
    target = folder / "shot.png"
    root = ("--no-sandbox",) if hasattr(os, "geteuid") and os.geteuid() == 0 else ()
    size, profile = "--window-size=640,900", f"--user-data-dir={folder / 'profile'}"
    flags = ("--headless", "--disable-gpu", "--hide-scrollbars", size, profile, *root)
    address = (folder / "page.html").as_uri()
    subprocess.run(
        [CHROMIUM, *flags, f"--screenshot={target}", address],
        check=True,
        capture_output=True,
        timeout=300,
    )
    return pixels(target)


def section(page, title):
    """The page with one of its sections alone."""
    start = page.index("<section><h2>" + title)
    end = page.index("</section>", start) + len("</section>")
    head, _, _ = page.partition("<main>")
    return head + "<main>" + page[start:end] + "</main></body></html>"


def near(pixel, wanted):
    return max(abs(a - b) for a, b in zip(pixel, wanted, strict=True)) <= 6


def rgb(text):
    return tuple(int(text[i : i + 2], 16) for i in (1, 3, 5))


@pytest.mark.parametrize(
    ("title", "wanted"),
    [
        ("Training", "#2f6fb2"),
        ("Gain of the composed", "#c4552d"),
        ("Residual maps", "#2b1a5a"),
        ("Gates", "#3d8f5f"),
        ("Sinkhorn defect", "#c4552d"),
        ("Gradient norms", None),
    ],
)
def test_parts_are_painted(recorded, tmp_path, title, wanted):
    """Each part paints its own colour on the light page: a line, or a cell of a heat map."""
    page = section(render_page(read_run(recorded)), title)
    if wanted is None:
        wanted = re.search(r'class="cell" fill="(#\w{6})"', page)[1]
    rows = shot(tmp_path, page)
    assert near(rows[-1][2], rgb("#fbfaf7"))
    count = sum(near(pixel, rgb(wanted)) for row in rows for pixel in row)
    assert count > 60, f"{count} pixels of {wanted}"


def test_dark(recorded, tmp_path):
    page = render_page(read_run(recorded))
    dark = page.replace("(prefers-color-scheme: dark)", "(min-width: 1px)")
    assert near(shot(tmp_path, dark)[-1][2], rgb("#15171c"))
