"""HY-V4's vision-language model: its text layers, which compute what HY-V4's do."""

from transformers.models.hy_v4_vl import modeling_hy_v4_vl as theirs

from .family import Family
from .hy_v4 import FAMILY as TEXT
from .hy_v4 import layer_forward
from .mixing import collapse_at_the_end, connect_independent


class HYV4VLHyperConnection(theirs.HYV4VLHyperConnection):
    forward = connect_independent


class HYV4VLHyperHead(theirs.HYV4VLHyperHead):
    forward = collapse_at_the_end


class HYV4VLDecoderLayer(theirs.HYV4VLDecoderLayer):
    forward = layer_forward


FAMILY = Family(
    name="HY-V4-VL",
    connection=(theirs.HYV4VLHyperConnection, HYV4VLHyperConnection),
    layer=(theirs.HYV4VLDecoderLayer, HYV4VLDecoderLayer),
    head=(theirs.HYV4VLHyperHead, HYV4VLHyperHead),
    norm=theirs.HYV4VLUnweightedRMSNorm,
    options=TEXT.options,
    layer_kinds=TEXT.layer_kinds,
)
