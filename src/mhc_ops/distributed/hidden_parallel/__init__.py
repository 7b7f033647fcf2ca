"""mHC with the channels D of every token spread over ranks: tensor parallel for the streams.

The functions take this rank's share as plain tensors; HiddenParallel is the plan for modules. The
README.md beside this file derives what has to cross the ranks.
"""

from .head import stream_head as stream_head
from .read import mhc_pre as mhc_pre
from .read import mhc_pre_sinkhorn as mhc_pre_sinkhorn
from .shares import shard_columns as shard_columns
from .style import HiddenParallel as HiddenParallel
from .write import mhc_post as mhc_post
