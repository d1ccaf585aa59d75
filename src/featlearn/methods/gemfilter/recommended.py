"""Which filter layer a model should use: what was calibrated on this machine, else what is known for its shape."""

import dataclasses
import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from featlearn.core import SettingError
from featlearn.methods.gemfilter.layouts import layout_of
from featlearn.methods.gemfilter.selecting import SOFTMAX, Scoring

FORMAT = 1


@dataclass(frozen=True)
class Setting:
    """A filter layer, its scoring, and where the advice comes from."""

    layer: int
    scoring: Scoring
    source: str


PUBLISHED = (
    "layer published for {name} (thesis, section 9.4), softmax scores in place of the published raw products, which "
    "fail on chat prompts of the models measured here; neither was measured on this model: calibrate it"
)
# (model_type, layers, width, vocabulary) -> setting. The published scoring, RAW, missed the needle of chat prompts on
# every model measured here: their last token is a line feed of the template.
KNOWN: dict[tuple[str, int, int, int], Setting] = {
    ("llama", 32, 4096, 128256): Setting(13, SOFTMAX, PUBLISHED.format(name="LLaMA 3.1 8B Instruct")),
    ("mistral", 40, 5120, 131072): Setting(19, SOFTMAX, PUBLISHED.format(name="Mistral Nemo 12B Instruct")),
    ("phi3", 32, 3072, 32064): Setting(19, SOFTMAX, PUBLISHED.format(name="Phi 3.5 Mini 3.8B Instruct")),
    ("llama", 30, 576, 49152): Setting(
        14,
        SOFTMAX,
        "rows of gemfilter/layers for SmolLM2-135M-Instruct, on the needles that its results are reported on",
    ),
    ("gemma3_text", 18, 640, 262144): Setting(
        5,
        SOFTMAX,
        "rows of gemfilter/layers for Gemma-3-270m; all needles are kept there, but 74 % of 35 prompts were answered "
        "where the full model answered 94 %: see `score` on questions of yours",
    ),
}


def shape_of(model: Any) -> tuple[str, int, int, int]:
    """(model_type, layers, width, vocabulary)."""
    layout = layout_of(model)
    config = layout.config(model)
    return layout.model_type, config.num_hidden_layers, config.hidden_size, config.vocab_size


def fingerprint(model: Any) -> str:
    """A name for these weights: shape and a sample of the embedding, the same in any floating-point type.

    Models that another program has moved out of memory are known by their shape alone.
    """
    weight = model.get_input_embeddings().weight
    sample = b""
    if not weight.is_meta and weight.is_floating_point():
        rows = weight[:: max(1, len(weight) // 16), :16].detach()
        sample = rows.to("cpu", torch.bfloat16).view(torch.int16).numpy().tobytes()
    return hashlib.blake2b(repr(shape_of(model)).encode() + sample, digest_size=10).hexdigest()


def folder() -> Path:
    """Where calibrations are kept: `$FEATLEARN_CALIBRATION`, else ~/.cache/featlearn/gemfilter."""
    given = os.environ.get("FEATLEARN_CALIBRATION")
    return Path(given).expanduser() if given else Path.home() / ".cache" / "featlearn" / "gemfilter"


def save(model: Any, setting: Setting, evidence: Any = None) -> Path:
    """Keep a setting for `layer="auto"`; evidence: whatever JSON says how it was found."""
    path = folder() / f"{fingerprint(model)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {"format": FORMAT, "shape": shape_of(model), **dataclasses.asdict(setting), "evidence": evidence}
    text = json.dumps(data, indent=1)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False) as f:
        f.write(text)
    os.replace(f.name, path)
    return path


def recommended(model: Any) -> Setting:
    """The calibrated setting of this model, else the one known for its shape; SettingError where there is neither."""
    path = folder() / f"{fingerprint(model)}.json"
    if path.is_file():
        return _read(path)
    found = KNOWN.get(shape_of(model))
    if found is None:
        layers = shape_of(model)[1]
        raise SettingError(
            "layer",
            "auto",
            f"a calibrated model, or a number from 0 to {layers - 1}",
            "run `featlearn gemfilter calibrate MODEL` once, or give layer=",
        )
    return found


def _read(path: Path) -> Setting:
    try:
        data = json.loads(path.read_text())
        if data["format"] > FORMAT:
            raise SettingError(
                "layer", "auto", f"a calibration of format {FORMAT}", f"update featlearn, or move {path}"
            )
        scoring = dict(data["scoring"])
        scoring["heads"] = None if scoring["heads"] is None else tuple(scoring["heads"])
        return Setting(int(data["layer"]), Scoring(**scoring), f"{data['source']} ({path})")
    except SettingError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise SettingError("layer", "auto", f"a readable {path}", f"calibrate again, it is damaged ({e})") from None
