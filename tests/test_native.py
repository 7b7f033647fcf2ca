"""How arguments become the bytes that the C interface reads."""

import ctypes

import pytest

from mhc_ops import _native

STRUCTURES = [s for s in vars(_native).values() if isinstance(s, type(ctypes.Structure))]


def scalars(structure):
    for name, kind in structure._fields_:
        member = getattr(structure, name)
        if hasattr(kind, "_fields_"):
            yield from ((member.offset + offset, inner) for offset, inner in scalars(kind))
        else:
            yield member.offset, kind


@pytest.mark.parametrize("structure", STRUCTURES, ids=lambda s: s.__name__)
def test_packed_bytes_are_those_of_the_filled_structure(structure):
    filled = structure()
    values = []
    for i, (offset, kind) in enumerate(scalars(structure)):
        values.append(i + 0.5 if kind is ctypes.c_double else i + 1)
        kind.from_buffer(filled, offset).value = values[-1]
    assert _native.packer(structure)(*values) == bytes(filled)
    assert len(values) > 1
