"""`featlearn.gemfilter`: long prompts on a model of yours; the verbs of the command line and the method below them."""

from featlearn.apply.gemfilter.answer import Reply as Reply
from featlearn.apply.gemfilter.answer import answer as answer
from featlearn.apply.gemfilter.bench import Timing as Timing
from featlearn.apply.gemfilter.bench import bench as bench
from featlearn.apply.gemfilter.calibrate import Calibration as Calibration
from featlearn.apply.gemfilter.calibrate import calibrate as calibrate
from featlearn.apply.gemfilter.calibrate import hidden as hidden
from featlearn.apply.gemfilter.calibrate import marked as marked
from featlearn.apply.gemfilter.longbench import items_of as items_of
from featlearn.apply.gemfilter.longbench import longbench as longbench
from featlearn.apply.gemfilter.longbench import mini as mini
from featlearn.apply.gemfilter.pipeline import register_pipeline as register_pipeline
from featlearn.apply.gemfilter.score import Scored as Scored
from featlearn.apply.gemfilter.score import questions_of as questions_of
from featlearn.apply.gemfilter.score import score as score
from featlearn.data.loading import load_model as load_model
from featlearn.methods.eviction_block import evicting as evicting
from featlearn.methods.gemfilter import FAMILIES as FAMILIES
from featlearn.methods.gemfilter import RAW as RAW
from featlearn.methods.gemfilter import SOFTMAX as SOFTMAX
from featlearn.methods.gemfilter import Layout as Layout
from featlearn.methods.gemfilter import Result as Result
from featlearn.methods.gemfilter import Scoring as Scoring
from featlearn.methods.gemfilter import Selection as Selection
from featlearn.methods.gemfilter import Setting as Setting
from featlearn.methods.gemfilter import SinksAndWindow as SinksAndWindow
from featlearn.methods.gemfilter import filtered as filtered
from featlearn.methods.gemfilter import generate as generate
from featlearn.methods.gemfilter import layout_of as layout_of
from featlearn.methods.gemfilter import offloaded_for_filter as offloaded_for_filter
from featlearn.methods.gemfilter import recommended as recommended
from featlearn.methods.gemfilter import register as register
from featlearn.methods.gemfilter import select as select
from featlearn.methods.gemfilter import select_chunked as select_chunked
from featlearn.methods.shared_context import Context as Context
from featlearn.methods.shared_context import read_context as read_context
from featlearn.tasks.chat import Chat as Chat

__all__ = [
    "FAMILIES",
    "RAW",
    "SOFTMAX",
    "Calibration",
    "Chat",
    "Context",
    "Layout",
    "Reply",
    "Result",
    "Scored",
    "Scoring",
    "Selection",
    "Setting",
    "SinksAndWindow",
    "Timing",
    "answer",
    "bench",
    "calibrate",
    "evicting",
    "filtered",
    "generate",
    "hidden",
    "items_of",
    "layout_of",
    "load_model",
    "longbench",
    "marked",
    "mini",
    "offloaded_for_filter",
    "questions_of",
    "read_context",
    "recommended",
    "register",
    "register_pipeline",
    "score",
    "select",
    "select_chunked",
]
