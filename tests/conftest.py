"""Settings of the whole suite.

Hypothesis profiles: `ci` (the default) draws the same examples every time, `quick` new ones.
"""

import os

import torch
from hypothesis import settings

# pytest-xdist already runs one worker a core; a second layer of threads only makes them spin. Tests
# about threads set their own number.
torch.set_num_threads(1)

if os.environ.get("TRITON_INTERPRET") == "1":
    from .triton.interpreter import correct

    correct()

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=25, database=None)
settings.register_profile("quick", deadline=None, max_examples=25)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
