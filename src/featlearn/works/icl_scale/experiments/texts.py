"""What the experiments on language models share: which models, which labelled texts, how an example is written."""

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from featlearn.core import SettingError
from featlearn.data.models import BUNDLED, check_model, load_model
from featlearn.data.reviews import COLLECTION, NAMES, Labelled, check_dataset, labelled
from featlearn.errors import DataError
from featlearn.tasks.demonstrations import DEFAULT, Template

MILLISECONDS = {"smollm2-135m": 4.2, "gemma3-270m": 4.6}
"""Of one core for a token of a prompt, measured."""
PER_BILLION = 35.0
"""The same for a billion weights of other models, of which few are embeddings."""
TOKENS = 32
"""Of an example of `reviews`, on average."""
LLAMA_CHAT = tuple(f"meta-llama/Llama-2-{size}-chat-hf" for size in ("7b", "13b", "70b"))
LLAMA = tuple(f"meta-llama/Llama-2-{size}-hf" for size in ("7b", "13b", "70b"))


@dataclass(frozen=True, kw_only=True)
class OnTexts:
    """Models, and tasks of labelled texts."""

    model: tuple[str, ...] = ("smollm2-135m", "gemma3-270m")
    """Bundled models (smollm2-135m, gemma3-270m), hub ids, local folders or GGUF files."""
    dataset: str = COLLECTION
    """reviews (`featlearn data fetch reviews` brings it), or a .csv or .tsv file with the columns text and label."""
    tasks: tuple[str, ...] = ()
    """Some of the tasks of the data set; none for all. Of reviews: movies, products, editorials, tweets."""
    template: str = DEFAULT
    """How an example is written, with {text} and then {label}; \\n stands for a line end."""
    words: tuple[str, ...] = ()
    """What the two classes are called, that of the smaller label first; none for the labels of the data set."""
    dtype: str = "float32"
    """Floating-point type of the weights."""
    device: str = "auto"
    """auto, cpu or cuda."""

    def __post_init__(self) -> None:
        if not self.model or len(set(self.model)) < len(self.model):
            raise SettingError("model", self.model, "different models, at least one", "name each once")
        for name in self.model:
            check_model(name, self.dtype, self.device)
        check_dataset(self.dataset)
        known = tuple(NAMES) if self.dataset == COLLECTION else (labelled(self.dataset)[0].name,)
        if len(set(self.tasks)) < len(self.tasks) or not set(self.tasks) <= set(known):
            raise SettingError("tasks", self.tasks, f"different ones of {', '.join(known)}", "leave it out for all")
        self.written()
        if (
            len(self.words) not in (0, 2)
            or len(set(self.words)) < len(self.words)
            or not all(map(str.strip, self.words))
        ):
            raise SettingError("words", self.words, "two different words", "that of the smaller label first")

    def written(self) -> Template:
        """The template, line ends put in."""
        return Template(self.template.replace("\\n", "\n"))

    def names(self) -> tuple[str, ...]:
        """The tasks that are meant."""
        return self.tasks or (tuple(NAMES) if self.dataset == COLLECTION else (labelled(self.dataset)[0].name,))

    def content(self) -> str:
        """Tells two versions of the user's file apart; empty for a data set of ours."""
        if self.dataset == COLLECTION:
            return ""
        return hashlib.sha256(Path(self.dataset).expanduser().read_bytes()).hexdigest()[:16]


def needs(trial: Any) -> tuple[str, ...]:
    """What of `featlearn data` a trial reads: models and texts of the user's own are theirs."""
    return tuple(n for n in (trial.model, trial.dataset) if n in (*BUNDLED, COLLECTION))


@lru_cache(maxsize=1)
def loaded(model: str, dtype: str, device: str) -> tuple[Any, Any]:
    """The model and its tokenizer; the trials of one worker share them."""
    return load_model(model, dtype=dtype, device=device)


def task_of(dataset: str, name: str) -> Labelled:
    """One task. Errors: DataError where the file no longer has it."""
    for task in labelled(dataset):
        if task.name == name:
            return task
    raise DataError(f"tasks = {name!r} is not in {dataset}; start the run anew")


def billions(model: str) -> float:
    """Weights of a model in billions, as its name says; 0.27 where it does not.

    Example:
        >>> billions("meta-llama/Llama-2-7b-hf"), billions("smollm2-135m"), billions("./mine")
        (7.0, 0.135, 0.27)
    """
    found = re.findall(r"(\d+(?:\.\d+)?)([bm])(?![a-z0-9])", model.lower())
    return float(found[-1][0]) * (1.0 if found[-1][1] == "b" else 1e-3) if found else 0.27


def seconds(model: str, tokens: float | int) -> float:
    """Of one core, for so many tokens of prompts; a GPU takes far less."""
    return 1e-3 * MILLISECONDS.get(model, PER_BILLION * billions(model)) * tokens


def mib(model: str) -> float:
    """Peak memory of a process, weights of 32 bits."""
    return 1500.0 + 4e9 / 2**20 * billions(model)
