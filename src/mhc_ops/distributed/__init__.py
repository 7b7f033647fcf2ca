"""mHC on more than one process: sharding rules for DTensor, FSDP2, pipelines, hidden-sharded mHC.

Importing this package registers the sharding rules of every torch.ops.mhc operator.
docs/distributed.md starts from the task, docs/scale.md says what to choose when.
"""

from . import hidden_parallel as hidden_parallel
from . import sharding_rules
from .fsdp import shard_model as shard_model
from .hidden_parallel import HiddenParallel as HiddenParallel
from .pipeline import StreamsStage as StreamsStage
from .pipeline import pipeline_stage as pipeline_stage
from .token_parallel import TokenParallel as TokenParallel

sharding_rules.register()
