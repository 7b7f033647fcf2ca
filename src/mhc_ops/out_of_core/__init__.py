"""An operator over files that are larger than memory, by one process or several.

    run_files(operation, inputs, target, ...) -> Outcome

Tokens stream in superblocks of 256 from mapped files, chunks of superblocks go round the ranks, and
the parameters' gradients are added superblock by superblock in ascending order. So the bits are
those of one call in memory, whatever the ranks, the chunk, or how often a run was resumed.
"""

from .operation import FlatRows as FlatRows
from .operation import Operation as Operation
from .operation import Rows as Rows
from .run import Outcome as Outcome
from .run import Settings as Settings
from .run import run_files as run_files
