"""What Dynamo of torch 2.7 cannot trace, kept out of what a traced call builds."""

import inspect
import pkgutil
from importlib import import_module

import mhc_ops.ops


def tuples():
    """Every NamedTuple that the public functions and their checks see."""
    names = [m.name for m in pkgutil.walk_packages(mhc_ops.ops.__path__, "mhc_ops.ops.")]
    modules = [import_module(name) for name in names if name.endswith((".api", ".checks"))]
    return {
        cls
        for module in modules
        for cls in vars(module).values()
        if inspect.isclass(cls)
        and issubclass(cls, tuple)
        and hasattr(cls, "_fields")
        and not cls.__module__.endswith(".calls")  # built within the registered operators alone
    }


def test_no_named_tuple_has_a_property():
    found = tuples()
    assert len(found) > 10
    for cls in found:
        own = [name for name, member in vars(cls).items() if isinstance(member, property)]
        assert not own, f"{cls.__qualname__}.{own[0]}: make it a function"
