"""GemFilter: early layers read the long prompt and pick the tokens on which the whole model then runs."""

from featlearn.methods.gemfilter.blocks import Filtered as Filtered
from featlearn.methods.gemfilter.blocks import filtered as filtered
from featlearn.methods.gemfilter.chunked import select_chunked as select_chunked
from featlearn.methods.gemfilter.chunked_attention import SinksAndWindow as SinksAndWindow
from featlearn.methods.gemfilter.generating import Result as Result
from featlearn.methods.gemfilter.generating import generate as generate
from featlearn.methods.gemfilter.layout import Layout as Layout
from featlearn.methods.gemfilter.layouts import FAMILIES as FAMILIES
from featlearn.methods.gemfilter.layouts import layout_of as layout_of
from featlearn.methods.gemfilter.layouts import register as register
from featlearn.methods.gemfilter.offload import offloaded_for_filter as offloaded_for_filter
from featlearn.methods.gemfilter.recommended import Setting as Setting
from featlearn.methods.gemfilter.recommended import recommended as recommended
from featlearn.methods.gemfilter.selecting import RAW as RAW
from featlearn.methods.gemfilter.selecting import SOFTMAX as SOFTMAX
from featlearn.methods.gemfilter.selecting import Scoring as Scoring
from featlearn.methods.gemfilter.selecting import Selection as Selection
from featlearn.methods.gemfilter.selecting import select as select

__all__ = [
    "FAMILIES",
    "RAW",
    "SOFTMAX",
    "Filtered",
    "Layout",
    "Result",
    "Scoring",
    "Selection",
    "Setting",
    "SinksAndWindow",
    "filtered",
    "generate",
    "layout_of",
    "offloaded_for_filter",
    "recommended",
    "register",
    "select",
    "select_chunked",
]
