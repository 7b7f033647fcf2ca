"""Which bytes a strided tensor occupies, so that results never land on what is still read."""

import torch
from torch import Tensor


def may_overlap(a: Tensor, b: Tensor) -> bool:
    """Whether the address ranges of two tensors meet; false alarms where views interleave."""
    (start_a, end_a), (start_b, end_b) = extent(a), extent(b)
    meet = start_a < end_b and start_b < end_a
    return meet and a.numel() > 0 and b.numel() > 0 and a.device == b.device


def share_bytes(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors really have a byte in common."""
    if not may_overlap(a, b):
        return False
    if a.is_contiguous() and b.is_contiguous():
        return True
    (start_a, end_a), (start_b, end_b) = extent(a), extent(b)
    start = min(start_a, start_b)
    marks = torch.zeros(max(end_a, end_b) - start, dtype=torch.uint8)
    _bytes(marks, a, start).fill_(1)
    return bool(_bytes(marks, b, start).any())


def overlaps_itself(t: Tensor) -> bool:
    """Whether two elements of one tensor lie on the same bytes."""
    if t.numel() == 0 or t.is_contiguous():
        return False
    start, end = extent(t)
    marks = torch.zeros(end - start, dtype=torch.uint8)
    _bytes(marks, t, start).fill_(1)
    return int(marks.sum(dtype=torch.int64)) < t.nbytes


def extent(t: Tensor) -> tuple[int, int]:
    """The address of the first byte, and the one behind the last."""
    start = t.data_ptr()
    if t.is_contiguous():
        return start, start + t.nbytes
    reach = sum((size - 1) * step for size, step in zip(t.shape, t.stride(), strict=True))
    return start, start + (reach + 1) * t.element_size()


def _bytes(marks: Tensor, t: Tensor, start: int) -> Tensor:
    """The marks of the bytes of `t`, where `marks` stands for memory from address `start`."""
    size = t.element_size()
    strides = [*(step * size for step in t.stride()), 1]
    return marks.as_strided([*t.shape, size], strides, t.data_ptr() - start)
