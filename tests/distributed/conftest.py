"""Fixtures of the tests with several processes."""

import pytest

from .processes import Pool


class Pools:
    """A pool for each number of ranks, started when first asked for, anew after a failure."""

    def __init__(self):
        self.pools = {}

    def run(self, world, function, *args):
        if world not in self.pools:
            self.pools[world] = Pool(world)
        try:
            return self.pools[world].run(function, *args)
        except BaseException:
            self.pools.pop(world).close()
            raise

    def close(self):
        while self.pools:
            self.pools.popitem()[1].close()


@pytest.fixture(scope="session")
def ranks():
    """ranks.run(world, function, *args): the results of function(rank, world, *args)."""
    pools = Pools()
    yield pools
    pools.close()
