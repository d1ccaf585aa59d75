"""Long prompts as a task of `transformers.pipeline`."""

import functools
from typing import Any

from featlearn.apply.gemfilter.answer import Reply, answer
from featlearn.core import SettingError

TASK = "gemfilter-text-generation"
SETTINGS = (
    *("keep", "layer", "scoring", "max_new_tokens", "chat", "protect", "blind", "measure_loss"),
    *("choose", "read_once", "streamer"),
)
"""Arguments of `answer` that a pipeline takes, when it is made or when it is called."""


def register_pipeline() -> str:
    """Make `pipeline(TASK, ...)` of Transformers answer questions about long texts; returns the name of the task.

    The pipeline takes a text, or a list of texts, with `question=` or `questions=` and what `answer` takes, and loads
    as all pipelines do (device_map, revision, dtype, model_kwargs). Of a text it returns {"answer": ..., "reply": ...}
    or, for questions, {"answers": [...], "replies": [...]}, where a reply is that of `answer`.

    Errors: of `answer`; SettingError for neither or both of question and questions and for unknown settings.

    Example:
        >>> from transformers import pipeline
        >>> pipe = pipeline(register_pipeline(), model=model, tokenizer=tokenizer, device="cpu")
        >>> found = pipe(text, question="Who owns the mill?", keep=512, layer=18)
        >>> found["reply"].kept, found["answer"] == found["reply"].text
        (512, True)
    """
    from transformers import AutoModelForCausalLM
    from transformers.pipelines import PIPELINE_REGISTRY

    if TASK not in PIPELINE_REGISTRY.get_supported_tasks():
        PIPELINE_REGISTRY.register_pipeline(
            TASK, pipeline_class=pipeline_class(), pt_model=AutoModelForCausalLM, type="text"
        )
    return TASK


@functools.cache
def pipeline_class() -> Any:
    """The class of the task, made when Transformers is loaded."""
    from transformers import Pipeline

    class GemFilterPipeline(Pipeline):
        """Answers to questions about a long text, from the tokens that GemFilter keeps."""

        _load_tokenizer = True
        _load_processor = _load_image_processor = _load_feature_extractor = False

        def _sanitize_parameters(self, question: Any = None, questions: Any = None, **settings: Any) -> Any:
            for name in settings:
                if name not in SETTINGS:
                    raise SettingError(name, settings[name], f"question, questions, {', '.join(SETTINGS)}", "drop it")
            if question is not None and questions is not None:
                raise SettingError("question", "beside questions", "one of both", "put all of them into questions=")
            asked = {name: v for name, v in (("question", question), ("questions", questions)) if v is not None}
            return asked, settings, {}

        def preprocess(self, input_: Any, question: Any = None, questions: Any = None, **_: Any) -> dict[str, Any]:
            """A text and what is asked about it."""
            if not isinstance(input_, str):
                raise SettingError("context", type(input_).__name__, "a text, or a list of texts", "give a str")
            if (question is None) == (questions is None):
                raise SettingError("question", question, "one of question and questions", "pipe(text, question=...)")
            return {
                "context": input_,
                "one": question is not None,
                "questions": questions if question is None else [question],
            }

        def _forward(self, input_tensors: Any, **settings: Any) -> Any:
            one, text, questions = (input_tensors[name] for name in ("one", "context", "questions"))
            return {"one": one, "replies": answer(self.model, self.tokenizer, text, questions, **settings)}

        def postprocess(self, model_outputs: Any, **_: Any) -> dict[str, Any]:
            """Texts, and the replies they are from."""
            replies: tuple[Reply, ...] = tuple(model_outputs["replies"])
            if model_outputs["one"]:
                return {"answer": replies[0].text, "reply": replies[0]}
            return {"answers": [r.text for r in replies], "replies": list(replies)}

    return GemFilterPipeline
