"""Answer a question about a long text from 256 of its tokens."""

import torch

from featlearn.data.models import load_model
from featlearn.data.texts import essays
from featlearn.methods import gemfilter
from featlearn.tasks.needles import Needle, hide

model, tokenizer = load_model("smollm2-135m")  # or a hub id, a folder, a .gguf file
needle = Needle("The key of Ada hangs behind the barometer.", "Where does the key of Ada hang?", "barometer")
prompt = hide(tokenizer, essays("sotu")[100].text, needle, length=2048, depth=0.3)  # your own ids do as well

keep_anyway = torch.zeros(1, 2048, dtype=torch.bool)
keep_anyway[:, :4] = True  # the start, and the question
keep_anyway[:, prompt.question[0] :] = True
options = {"max_new_tokens": 16, "do_sample": False}  # as for the model's own generate
result = gemfilter.generate(
    model, prompt.input_ids[None], keep=256, protect=keep_anyway, tokenizer=tokenizer, **options
)
print(result.text[0])
print(f"kept {result.selection.kept[0]} of {result.selection.lengths[0]} tokens, layer {result.selection.layer}")
print(f"pass one {result.first.seconds:.1f} s, pass two {result.second.seconds:.1f} s")
print(result.kept_text[0][:300])
