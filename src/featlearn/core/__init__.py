"""Key, Truth, Batch, Task, Predictor: what every other room speaks."""

from featlearn.core.key import Key as Key
from featlearn.core.types import Batch as Batch
from featlearn.core.types import Predictor as Predictor
from featlearn.core.types import Task as Task
from featlearn.core.types import Truth as Truth
from featlearn.core.types import VectorBatch as VectorBatch
from featlearn.errors import Diverged as Diverged
from featlearn.errors import SettingError as SettingError

__all__ = ["Batch", "Diverged", "Key", "Predictor", "SettingError", "Task", "Truth", "VectorBatch"]
