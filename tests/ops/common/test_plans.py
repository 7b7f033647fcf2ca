"""Plans: an operator checks what a call looks like once, and never remembers an error."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from mhc_ops.ops.common import plans
from mhc_ops.ops.common.plans import Plans


@pytest.fixture
def counted():
    made = []

    def make(op, x, y, *options):
        if x.shape[0] == 0:
            raise ValueError(f"{op}: x is empty")
        made.append((tuple(x.shape), options))
        return x.shape[0], options

    return Plans(make), made


def test_a_look_is_checked_once(counted):
    plan, made = counted
    x = torch.zeros(3, 2)
    for other in (x, torch.ones(3, 2), torch.zeros(2, 3).T, torch.nn.Parameter(x)):
        assert plan("op", (other, None), True) == (3, (True,))
    assert len(made) == 1


def test_every_part_of_a_look_counts(counted):
    plan, made = counted
    x = torch.zeros(3, 2)
    looks = [(x, None), (x, x), (x[:2], None), (x.double(), None), (x.to("meta"), None)]
    looks += [(x[:, 0], None), (x.to_sparse(), None), (x[None], None)]
    for tensors in looks:
        for option in (False, True):
            for _ in range(2):
                assert plan("op", tensors, option) == (tensors[0].shape[0], (option,))
    assert len(made) == 2 * len(looks)


def test_an_error_is_raised_every_time_in_the_name_of_its_caller(counted):
    plan, _ = counted
    for op in ("one", "two", "one"):
        with pytest.raises(ValueError, match=f"^{op}: x is empty"):
            plan(op, (torch.zeros(0), None))


def test_what_has_no_look_is_checked_every_time(counted):
    plan, made = counted

    class Shaped:
        shape = (3,)

    for _ in range(2):
        assert plan("op", (Shaped(), None)) == (3, ())
        assert plan("op", (torch.zeros(3), None), [1]) == (3, ([1],))
    assert len(made) == 4


def test_it_forgets_before_it_grows(counted, monkeypatch):
    monkeypatch.setattr(plans, "_MOST", 4)
    plan, made = counted
    for size in (*range(1, 9), *range(1, 9)):
        assert plan("op", (torch.zeros(size), None)) == (size, ())
        assert len(plan._known) <= 4
    assert len(made) > 8


def test_several_python_threads(counted, monkeypatch):
    monkeypatch.setattr(plans, "_MOST", 3)
    plan, _ = counted
    sizes = [1 + i % 7 for i in range(2000)]
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda size: plan("op", (torch.zeros(size), None)), sizes)
        assert [size for size, _ in found] == sizes
