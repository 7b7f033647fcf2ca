"""Triton's interpreter, corrected where it silently differs from hardware.

As shipped it truncates float32 to bfloat16, multiplies bfloat16 operands of tl.dot as integers, and
computes "tf32" in full float32. Imported by tests/conftest.py under TRITON_INTERPRET=1 alone.
"""

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

_convert = interpreter._convert_float


def widen(bits):
    """bfloat16 bit patterns as float32, exactly."""
    return (bits.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def narrow(values):
    """float32 rounded to nearest even, as bfloat16 bit patterns; NaN stays NaN."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)


def to_tf32(values):
    """float32 with 10 fraction bits, to nearest, ties away from zero."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = ((bits + 0x1000) & 0xFFFFE000).view(np.float32)
    return np.where(np.isfinite(values), rounded, values)


def convert_float(values, source, target, rounding):
    if (source, target) == (tl.float32, tl.bfloat16):
        return narrow(values)
    if (source, target) == (tl.bfloat16, tl.float32):
        return widen(values).reshape(values.shape).view(np.uint32)
    return _convert(values, source, target, rounding)


def create_dot(self, a, b, acc, input_precision, max_num_imprecise_acc):
    if min(*a.data.shape, b.data.shape[-1]) < 16:
        raise ValueError(
            f"tl.dot of {a.data.shape} and {b.data.shape}: matrix units take 16 or more"
        )
    left, right = (_operand(t, input_precision) for t in (a, b))
    return interpreter.TensorHandle(
        np.matmul(left, right, dtype=np.float32) + acc.data, acc.dtype.scalar
    )


def _operand(t, input_precision):
    if t.dtype.scalar == tl.bfloat16:
        return widen(np.ascontiguousarray(t.data)).reshape(t.data.shape)
    values = t.data.astype(np.float32)
    single = t.dtype.scalar == tl.float32
    return to_tf32(values) if single and "TF32" in str(input_precision) else values


def correct():
    interpreter._convert_float = convert_float
    interpreter.InterpreterBuilder.create_dot = create_dot
    np.seterr(all="ignore")  # a GPU raises no flag for inf - inf
