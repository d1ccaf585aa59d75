"""A tiny random model with a tokenizer of whole words, made in memory, and a haystack for it."""

import numpy as np

WORDS = (
    "river stone market letter winter garden music paper harbour engine valley teacher window summer bridge"
    " forest captain mirror candle village ocean doctor basket mountain shadow painter railway kitchen"
).split()
TEMPLATE = (
    "{% for m in messages %}<user> {{ m['content'] }} <end>{% endfor %}{% if add_generation_prompt %} <bot>{% endif %}"
)


class Essay:
    """As `featlearn.data.texts` has them."""

    def __init__(self, name, text):
        self.name, self.text = name, text


def made_essays():
    draw = np.random.default_rng(7)

    def sentence():
        return " ".join(draw.choice(WORDS, size=draw.integers(6, 14))).capitalize() + "."

    return tuple(Essay(f"essay {i}", " ".join(sentence() for _ in range(400))) for i in range(4))


def made_tokenizer(essays):
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    from featlearn.tasks import miniset, needles
    from featlearn.tasks.needles import REPORTED, VALIDATION

    words = Tokenizer(models.WordLevel(unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"\s+"), "removed"), pre_tokenizers.Split(Regex(r"<\w+>|\w+|[^\w\s]"), "isolated")]
    )
    texts = [e.text for e in essays]
    for kind in (*VALIDATION, *REPORTED):
        texts += [kind.sentence, kind.question, *kind.names, *kind.values]
    texts += [
        *miniset.TOPICS,
        *miniset.NOUNS,
        *miniset.MONTHS,
        *(q for forms in miniset.QUESTIONS.values() for q in forms),
    ]
    texts += [
        needles.INTRODUCTION,
        needles.REQUEST,
        *map(str, range(30)),
        "Answer: Paragraph Number Person Place Time , ; ! - '",
    ]
    special = ["<unk>", "<s>", "</s>", "<user>", "<end>", "<bot>"]
    words.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=special, show_progress=False))
    found = PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )
    found.chat_template = TEMPLATE
    return found


def made_model(vocabulary, **changed):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    settings = {
        "num_hidden_layers": 5,
        "hidden_size": 32,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 64,
        "vocab_size": vocabulary,
        "max_position_embeddings": 4096,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
    }
    with torch.random.fork_rng():
        torch.manual_seed(11)
        model = LlamaForCausalLM(LlamaConfig(**{**settings, **changed})).eval()
        for weight in model.parameters():
            torch.nn.init.normal_(weight, std=0.2)
    return model
