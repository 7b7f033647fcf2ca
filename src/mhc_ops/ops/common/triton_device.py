"""Device functions that the Triton kernels of several rooms share.

Matrix units multiply 16-bit numbers exactly and add in float32. So float32 operands go in as sums
of bfloat16 pieces, and a product of two keeps every pair of pieces above 2^-24 of the whole.
"""

import triton
import triton.language as tl


@triton.jit
def split(v, COUNT: tl.constexpr):
    """float32 v as bfloat16 pieces, largest first: three hold 24 bits. COUNT of them are used."""
    first = v.to(tl.bfloat16)
    second = first
    third = first
    if COUNT > 1:
        rest = v - first.to(tl.float32)
        second = rest.to(tl.bfloat16)
        if COUNT > 2:
            third = (rest - second.to(tl.float32)).to(tl.bfloat16)
    return first, second, third


@triton.jit
def dot_split(top, a0, a1, a2, b0, b1, b2, acc, A: tl.constexpr, B: tl.constexpr):
    """acc + a @ b for A and B pieces, the smallest products first.

    top stands for a0 in the largest product alone: an infinity in it then meets no second piece of
    b, whose other sign would make it NaN.
    """
    if A > 2:
        acc = tl.dot(a2, b0, acc)
    if A > 1 and B > 1:
        acc = tl.dot(a1, b1, acc)
    if B > 2:
        acc = tl.dot(a0, b2, acc)
    if A > 1:
        acc = tl.dot(a1, b0, acc)
    if B > 1:
        acc = tl.dot(a0, b1, acc)
    return tl.dot(top, b0, acc)


@triton.jit
def round_hf32(v):
    """float32 to 10 fraction bits, ties away from zero; infinity and NaN pass unchanged."""
    bits = v.to(tl.int32, bitcast=True)
    rounded = ((bits + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
    return tl.where(is_finite(v), rounded, v)


@triton.jit
def is_finite(v):
    return (v.to(tl.int32, bitcast=True) & 0x7F800000) != 0x7F800000


@triton.jit
def halved(v):
    """[R, C] -> [R, C / 2]: sums of neighbours. Unlike tl.sum, its order is that written."""
    left, right = tl.split(tl.reshape(v, [v.shape[0], v.shape[1] // 2, 2]))
    return left + right


@triton.jit
def sum_squares(v):
    """[R, C] of float32 -> sums of eight squares [R, C / 8] in float64, and whether all are finite.

    Each eight are scaled by a power of two first, so that no square leaves float32's range.
    """
    R: tl.constexpr = v.shape[0]
    C: tl.constexpr = v.shape[1]
    eights = tl.reshape(v, [R, C // 8, 8])
    largest = tl.max(eights.to(tl.int32, bitcast=True) & 0x7FFFFFFF, 2)
    exponent = largest >> 23
    finite = exponent < 255
    exponent = tl.where(finite, tl.minimum(tl.maximum(exponent, 1), 253), 127)
    scaled = eights * ((254 - exponent) << 23).to(tl.float32, bitcast=True)[:, :, None]
    sums = halved(halved(halved(tl.reshape(scaled * scaled, [R, C]))))
    back = (exponent << 23).to(tl.float32, bitcast=True).to(tl.float64)
    return sums.to(tl.float64) * back * back, finite


@triton.jit
def sigmoid(z):
    return tl.div_rn(1.0, 1.0 + tl.exp(-z))


@triton.jit
def zeros(BLOCKS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A tuple of BLOCKS accumulators [ROWS, COLUMNS]."""
    made = ()
    for _ in tl.static_range(BLOCKS):
        made = made + (tl.zeros([ROWS, COLUMNS], tl.float32),)
    return made
