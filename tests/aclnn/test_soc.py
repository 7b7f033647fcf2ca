"""soc(...): which chip's rules apply where."""

import asyncio
import dataclasses
import threading

import pytest
import torch

from mhc_ops import aclnn
from mhc_ops.aclnn.platform import current_soc
from mhc_ops.aclnn.spec import OPERATORS

from .calls import pre, prepare, status, tensors


def test_blocks_nest_and_end_with_errors():
    assert current_soc() == "ascend950"
    with aclnn.soc("ascend910b"):
        with aclnn.soc("ascend910_93"):
            assert current_soc() == "ascend910_93"
        with pytest.raises(KeyError), aclnn.soc("ascend950"):
            raise KeyError
        assert current_soc() == "ascend910b"
    assert current_soc() == "ascend950"


@pytest.mark.parametrize("name", ["ascend350", "Ascend950", "default", "", None])
def test_any_other_name_is_an_error_at_once(name):
    with pytest.raises(ValueError, match="soc must be one of ascend950, ascend910b, ascend910_93"):
        aclnn.soc(name)


def test_other_threads_keep_the_default():
    seen = []
    with aclnn.soc("ascend910b"):
        thread = threading.Thread(target=lambda: seen.append(status("aclnnMhcPre", pre(n=8))))
        thread.start()
        thread.join()
        assert status("aclnnMhcPre", pre(n=8)) == 161002
    assert seen == [0]


def test_tasks_do_not_disturb_one_another():
    async def in_block(name):
        with aclnn.soc(name):
            await asyncio.sleep(0)
            return current_soc()

    async def both():
        return await asyncio.gather(in_block("ascend910b"), in_block("ascend910_93"))

    assert asyncio.run(both()) == ["ascend910b", "ascend910_93"]


def test_an_operator_is_refused_where_it_is_not_registered(monkeypatch):
    table = OPERATORS["MhcPre"]
    here = {"op_api": {"ascend950": table.op_api["ascend950"]}}
    here["tiling"] = {"ascend950": table.tiling["ascend950"]}
    monkeypatch.setitem(OPERATORS, "MhcPre", dataclasses.replace(table, **here))
    assert status("aclnnMhcPre", pre()) == 0
    with aclnn.soc("ascend910b"):
        assert status("aclnnMhcPre", pre()) == 161002
        assert aclnn.aclGetRecentErrMsg() == "aclnnMhcPre: not registered for ascend910b."
        result = aclnn.tiling("MhcPre", {}, {})
    assert result.status == aclnn.GRAPH_FAILED
    assert result.message == "MhcPre: not registered for ascend910b."


def test_an_executor_keeps_its_chip():
    t = tensors(pre(rows=32, h_res=(24,)))
    with aclnn.soc("ascend910b"):
        _, size, executor = prepare("aclnnMhcPre", t)
    assert executor.soc == "ascend910b"
    assert aclnn.aclnnMhcPre(torch.empty(size, dtype=torch.uint8), size, executor) == 0


def test_messages_belong_to_their_thread():
    status("aclnnMhcPre", pre(n=5))
    seen = []
    thread = threading.Thread(target=lambda: seen.append(aclnn.aclGetRecentErrMsg()))
    thread.start()
    thread.join()
    assert seen == [""]
    assert "n = 5" in aclnn.aclGetRecentErrMsg()
