"""Named tensors on disk: .safetensors, .npz, or a folder of raw .bin files with a manifest.json.

    read(path) -> TensorSet          write(path, tensor_set)          check_target(path)
    locate(path) -> StoredSet        lay_out(path, blanks, op, attrs) for runs larger than memory

The three hold the same: tensors of any dtype bit for bit (NaN payloads, bfloat16, no elements, no
dimensions), the operator they belong to and its attributes. Writing goes to a temporary name in the
same directory that is renamed when complete, so no reader ever sees half a file.
"""

from .files import check_target as check_target
from .files import lay_out as lay_out
from .files import locate as locate
from .files import read as read
from .files import write as write
from .tensor_set import Attr as Attr
from .tensor_set import Blank as Blank
from .tensor_set import Stored as Stored
from .tensor_set import StoredSet as StoredSet
from .tensor_set import TensorSet as TensorSet
