"""mHC on more than one process: sharding rules for DTensor, FSDP2, pipelines, hidden-sharded mHC.

Importing this package registers the sharding rules of every torch.ops.mhc operator.
"""

from . import sharding_rules

sharding_rules.register()
