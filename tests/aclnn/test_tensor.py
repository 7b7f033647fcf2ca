"""aclTensor: views on memory."""

import pytest
import torch

from mhc_ops import aclnn
from mhc_ops.aclnn import aclCreateTensor, aclDestroyTensor, aclGetRecentErrMsg, from_torch


def test_a_view_with_strides_and_offset_on_raw_memory():
    values = torch.arange(24, dtype=torch.float32)
    memory = values.clone().view(torch.uint8)
    handle = aclCreateTensor([3, 2], aclnn.ACL_FLOAT, [1, 6], 4, aclnn.ACL_FORMAT_ND, [24], memory)
    expected = values.as_strided((3, 2), (1, 6), 4)
    assert torch.equal(handle.view(), expected)
    handle.view()[2, 1] = -1.0
    assert memory.view(torch.float32)[12] == -1.0


def test_bf16_on_memory_of_another_dtype_that_starts_inside_its_storage():
    whole = torch.zeros(8, dtype=torch.int16)
    handle = aclCreateTensor([2], aclnn.ACL_BF16, [2], 1, aclnn.ACL_FORMAT_ND, [6], whole[2:])
    handle.view().fill_(1.0)
    assert whole.view(torch.bfloat16).tolist() == [0, 0, 0, 1, 0, 1, 0, 0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.int64])
def test_from_torch_shares_memory_and_keeps_strides(dtype):
    base = torch.arange(60).reshape(5, 12).to(dtype)
    part = base.t()[2:8:3, 1:]
    handle = from_torch(part)
    assert handle.view_dims == (2, 4)
    assert handle.stride == (3, 12)
    assert handle.offset == 14
    assert handle.format == aclnn.ACL_FORMAT_ND
    assert torch.equal(handle.view(), part)
    handle.view().zero_()
    assert part.abs().sum() == 0
    assert base.abs().sum() > 0


def test_from_torch_of_an_expanded_and_of_a_scalar_tensor():
    row = torch.tensor([1.0, 2.0])
    assert torch.equal(from_torch(row.expand(3, 2)).view(), row.expand(3, 2))
    assert from_torch(torch.tensor(2.0)).view_dims == ()
    assert from_torch(torch.zeros(0, 4)).view().shape == (0, 4)


def test_a_parameter_is_aliased_too():
    weight = torch.nn.Parameter(torch.ones(3))
    from_torch(weight).view()[0] = 5.0
    assert weight[0] == 5.0


@pytest.mark.parametrize(
    ("value", "text"),
    [([1.0], "got list"), (torch.zeros(2).to_sparse(), "got torch.sparse_coo torch.float32")],
)
def test_from_torch_refuses(value, text):
    with pytest.raises(TypeError, match=text):
        from_torch(value)


BAD = {
    "negative size": (([-1, 2], 0, [2, 1], 0, 2, [4], None), "must not be negative"),
    "negative stride": (([2, 2], 0, [-2, 1], 0, 2, [4], None), "must not be negative"),
    "negative offset": (([2, 2], 0, [2, 1], -1, 2, [4], None), "must not be negative"),
    "strides": (([2, 2], 0, [1], 0, 2, [4], None), "stride must have 2 entries as viewDims, got 1"),
    "dtype": (
        ([2, 2], 77, [2, 1], 0, 2, [4], None),
        "must be an ACL dtype number, got 77",
    ),
    "format": (([2, 2], 0, [2, 1], 0, 5, [4], None), "format must be an ACL format number, got 5"),
}


@pytest.mark.parametrize(("arguments", "text"), BAD.values(), ids=list(BAD))
def test_what_cannot_be_created_is_a_null_pointer(arguments, text):
    assert aclCreateTensor(*arguments) is None
    assert text in aclGetRecentErrMsg()


def test_memory_must_be_a_torch_tensor():
    with pytest.raises(TypeError, match="tensorData must be a torch tensor or None, got bytes"):
        aclCreateTensor([1], 0, [1], 0, 2, [1], b"1234")


def test_without_strides_the_view_is_contiguous():
    handle = aclCreateTensor([2, 3], 0, None, 0, 2, [6], torch.arange(6.0))
    assert handle.stride == (3, 1)
    assert handle.view().tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: aclCreateTensor([2], 0, None, 0, 2, [2], None), "has no memory"),
        (lambda: aclCreateTensor([3], 0, None, 0, 2, [3], torch.zeros(2)), "needs 12 bytes"),
        (lambda: aclCreateTensor([2], 0, [9], 0, 2, [2], torch.zeros(2)), "needs 40 bytes"),
        (
            lambda: aclCreateTensor([1], 0, None, 0, 2, [1], torch.zeros(9, dtype=torch.uint8)[1:]),
            "starts at a byte",
        ),
    ],
)
def test_views_that_their_memory_cannot_hold(make, text):
    with pytest.raises(RuntimeError, match=text):
        make().view()


def test_destroyed_handles():
    memory = torch.ones(2)
    handle = from_torch(memory)
    assert aclDestroyTensor(handle) == aclDestroyTensor(None) == 0
    assert memory.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="was destroyed"):
        handle.view()
