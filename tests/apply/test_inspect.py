"""What moved between checkpoints: known changes are told with their size, their rank and their directions."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from featlearn.apply.inspect.page import page
from featlearn.apply.inspect.public import Layer, compare, describe
from featlearn.apply.inspect.reading import LAZY, RICH, head_of
from featlearn.core import Key, SettingError
from featlearn.errors import DataError

KEY = Key("tests/inspect")


@pytest.fixture
def start() -> dict[str, Tensor]:
    generator = KEY.torch()
    shapes = {"0.weight": (220, 210), "0.bias": (220,), "1.weight": (230, 220), "head.weight": (5, 230)}
    return {name: torch.randn(shape, generator=generator) / shape[-1] ** 0.5 for name, shape in shapes.items()}


def changed(start: dict[str, Tensor], name: str, size: float, rank: int = 1) -> dict[str, Tensor]:
    """With a change of a rank and a spectral norm of `size` that of the weights."""
    generator = (KEY / name / rank).torch()
    m, n = start[name].shape
    left = torch.linalg.qr(torch.randn(m, rank, generator=generator)).Q
    right = torch.linalg.qr(torch.randn(n, rank, generator=generator)).Q
    return {**start, name: start[name] + size * torch.linalg.matrix_norm(start[name], 2) * left @ right.T}


def layer(found: object, name: str) -> Layer:
    return next(one for one in found.pairs[0].layers if one.name == name)  # pyright: ignore


@pytest.mark.parametrize("rank", [1, 3, 8])
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_a_change_of_low_rank_is_told_with_its_rank_and_size(start: dict[str, Tensor], rank: int, kind: str) -> None:
    """A change of 0.5 has singular values five times what rounding to bfloat16 leaves."""
    wide = getattr(torch, kind)
    after = {name: value.to(wide) for name, value in changed(start, "1.weight", 0.5, rank).items()}
    found = compare({name: value.to(wide) for name, value in start.items()}, after)
    one = layer(found, "1.weight")
    assert (one.rank, one.more, one.state) == (rank, False, "moved")
    assert one.spectral == pytest.approx(0.5, rel=0.05)
    assert {other.state for other in found.pairs[0].layers if other.name != "1.weight"} == {"same"}
    norm = float(torch.linalg.matrix_norm(start["1.weight"], 2) / start["1.weight"].norm())
    assert one.change == pytest.approx(0.5 * rank**0.5 * norm, rel=0.05)


def test_a_change_of_full_rank_is_above_64(start: dict[str, Tensor]) -> None:
    after = {**start, "1.weight": start["1.weight"] + 0.01 * torch.randn(230, 220, generator=KEY.torch())}
    assert (layer(compare(start, after), "1.weight").rank, layer(compare(start, after), "1.weight").more) == (64, True)


def test_rounding_is_no_change(start: dict[str, Tensor]) -> None:
    """The same weights kept in bfloat16: what differs is what rounding leaves, and of no rank."""
    found = compare(start, {name: value.bfloat16() for name, value in start.items()})
    assert layer(found, "1.weight").state == "rounding"
    assert layer(found, "1.weight").rank == 0


@pytest.mark.parametrize(
    ("size", "name", "regime"),
    [
        (0.8 * LAZY, "1.weight", "lazy"),
        (1.2 * LAZY, "1.weight", "undecided"),
        (0.8 * RICH, "0.weight", "undecided"),
        (1.2 * RICH, "0.weight", "rich"),
        (3.0, "head.weight", "lazy"),
    ],
)
def test_the_reading_is_that_of_the_matrix_of_the_body_that_moved_most(
    start: dict[str, Tensor], size: float, name: str, regime: str
) -> None:
    reading = compare(start, changed(start, name, size)).pairs[0].reading
    assert reading.regime == regime
    assert reading.head == "head.weight"
    if name != "head.weight":
        assert reading.layer == name
        assert reading.statistic == pytest.approx(size, rel=0.02)


def test_a_small_change_of_weights_that_were_trained_before_is_not_called_lazy(start: dict[str, Tensor]) -> None:
    """Few large directions: SmolLM2's matrices have .35 of a random one's stable rank in the median."""
    u, values, v = torch.linalg.svd(start["1.weight"], full_matrices=False)
    few = {**start, "1.weight": u @ torch.diag(values / torch.arange(1, len(values) + 1)) @ v}
    small = compare(few, changed(few, "1.weight", 0.8 * LAZY)).pairs[0].reading
    assert (small.regime, "trained before" in small.why) == ("undecided", True)
    assert compare(few, changed(few, "1.weight", 1.2 * RICH)).pairs[0].reading.regime == "rich"
    assert compare(few, changed(few, "0.weight", 0.8 * LAZY)).pairs[0].reading.regime == "lazy"  # that one was random
    assert compare(few, few).pairs[0].reading.regime == "lazy"


@pytest.mark.parametrize("shape", [(8, 2), (3, 400), (64, 27), (300, 300)])
def test_a_random_start_is_random_whatever_its_shape(shape: tuple[int, int]) -> None:
    for seed in range(20):
        w = torch.rand(shape, generator=(KEY / seed).torch()) - 0.5
        start, after = ({"a.weight": size * w, "fc.weight": torch.ones(2, 2)} for size in (1.0, 1.01))
        assert compare(start, after).pairs[0].reading.regime == "lazy"


def test_a_read_out_that_is_named_is_the_one_left_out(start: dict[str, Tensor]) -> None:
    after = changed(start, "1.weight", 1.0)
    assert compare(start, after, head="1.weight").pairs[0].reading.regime == "lazy"
    with pytest.raises(SettingError, match=r"head = 2\.weight"):
        compare(start, after, head="2.weight")


@pytest.mark.parametrize(
    ("names", "head"),
    [
        (["lm_head.weight", "model.embed_tokens.weight", "model.layers.1.mlp.weight"], "lm_head.weight"),
        (["conv1.weight", "fc.weight", "layer4.1.conv2.weight"], "fc.weight"),
        (["0.weight", "10.weight", "2.weight"], "10.weight"),
        (["model.embed_tokens.weight", "model.layers.9.mlp.weight"], "model.embed_tokens.weight"),
        (["net.fc.0.weight", "net.fc.2.weight"], "net.fc.2.weight"),
    ],
)
def test_read_outs_are_known_by_name_or_place(names: list[str], head: str) -> None:
    assert head_of(names) == head


def test_the_read_out_is_left_out_of_layers_that_are_named_too(start: dict[str, Tensor]) -> None:
    reading = compare(start, changed(start, "head.weight", 3.0), layers=["*.weight"]).pairs[0].reading
    assert (reading.head, reading.regime) == ("head.weight", "lazy")


def test_directions_that_moved_are_held_against_those_of_the_weights(start: dict[str, Tensor]) -> None:
    u, s, vh = torch.linalg.svd(start["1.weight"], full_matrices=False)
    after = {**start, "1.weight": start["1.weight"] + 0.3 * s[0] * u[:, 100:101] @ vh[:1]}
    one = layer(compare(start, after), "1.weight")
    assert one.within == pytest.approx((1.0, 0.0), abs=1e-3)
    assert one.chance == pytest.approx((8 / 220, 8 / 230))


def test_clusters_of_neurons_are_held_against_those_of_the_start(start: dict[str, Tensor]) -> None:
    centres = torch.linalg.qr(torch.randn(210, 3, generator=KEY.torch())).Q.T
    labels = torch.arange(220) % 3
    after = {**start, "0.weight": 4 * centres[labels] + 0.3 * start["0.weight"]}
    found = layer(compare(start, after), "0.weight").clusters
    assert found is not None
    assert found.k == 3
    assert found.after > 0.8
    assert found.before is not None
    assert found.before < 0.1
    groups = {tuple(sorted(set(torch.tensor(found.labels)[labels == i].tolist()))) for i in range(3)}
    assert groups == {(0,), (1,), (2,)}


def test_two_networks_are_not_read_as_one(start: dict[str, Tensor]) -> None:
    other = {name: value[torch.randperm(len(value), generator=KEY.torch())] for name, value in start.items()}
    reading = compare(start, other).pairs[0].reading
    assert reading.regime == "unread"
    assert "nothing in common" in reading.why


def test_one_matrix_that_was_drawn_anew_does_not_make_two_networks(start: dict[str, Tensor]) -> None:
    after = {**start, "1.weight": torch.randn(230, 220, generator=KEY.torch()) / 220**0.5}
    assert compare(start, after).pairs[0].reading.regime == "rich"


def test_a_matrix_of_zeros_that_grew_is_not_called_lazy(start: dict[str, Tensor]) -> None:
    """As of adapters and residual branches that start at 0: there is no size to hold the change against."""
    before = {**start, "1.weight": torch.zeros(230, 220)}
    reading = compare(before, start).pairs[0].reading
    assert reading.regime == "undecided"
    assert "1 matrices were zeros before, 1.weight first" in reading.why


def test_values_that_are_not_finite_are_named_and_nothing_is_read(start: dict[str, Tensor]) -> None:
    bad = start["0.weight"].clone()
    bad[0, :3] = torch.nan
    found = compare(start, {**start, "0.weight": bad})
    assert layer(found, "0.weight").why == "3 of 46200 entries after are nan or infinite"
    assert found.pairs[0].reading.regime == "unread"
    assert next(one for one in describe({"w": bad}).layers).state == "not finite"


def test_what_is_not_compared_says_why(start: dict[str, Tensor]) -> None:
    after = {**start, "0.weight": start["0.weight"][:5], "1.weight": start["1.weight"].to(torch.int8)}
    after["new"] = torch.ones(2)
    del after["0.bias"]
    found = compare(start, after)
    assert layer(found, "0.weight").why == "shape (220, 210) before and (5, 210) after"
    assert layer(found, "1.weight").why.startswith("int8: whole or quantised numbers")
    assert found.pairs[0].only_before == ("0.bias",)
    assert found.pairs[0].only_after == ("new",)


@pytest.mark.parametrize("prefix", ["model.", "encoder.net."])
def test_a_prefix_that_one_of_two_has_does_not_keep_them_apart(start: dict[str, Tensor], prefix: str) -> None:
    longer = {f"{prefix}{name}": value for name, value in start.items()}
    assert {one.state for one in compare(start, longer).pairs[0].layers} == {"same"}
    assert {one.state for one in compare(longer, start).pairs[0].layers} == {"same"}


def test_networks_without_a_common_tensor_are_refused(start: dict[str, Tensor]) -> None:
    with pytest.raises(DataError, match="no tensor of one name"):
        compare(start, {"other": torch.ones(2, 2)})
    with pytest.raises(DataError, match="one name, shape and floating type"):
        compare({"w": torch.ones(2, 2)}, {"w": torch.ones(3, 2)})
    with pytest.raises(SettingError, match=r"layers = x\*"):
        compare(start, start, layers=["x*"])


def test_several_checkpoints_are_held_against_the_first_and_nothing_of_them_changes(start: dict[str, Tensor]) -> None:
    kept = {name: value.clone() for name, value in start.items()}
    state = torch.random.get_rng_state()
    net = nn.ParameterDict({name.replace(".", "_"): nn.Parameter(value) for name, value in start.items()})
    found = compare(net, net.state_dict(), net)
    assert [pair.reading.regime for pair in found.pairs] == ["lazy", "lazy"]
    assert all(torch.equal(kept[name], value) for name, value in start.items())
    assert torch.equal(state, torch.random.get_rng_state())


def test_a_page_holds_its_pictures_and_every_tensor(tmp_path: Path, start: dict[str, Tensor]) -> None:
    after = changed(start, "1.weight", 0.4, 2)
    save_file(start, tmp_path / "before.safetensors")
    save_file(after, tmp_path / "after.safetensors")
    paths = [str(tmp_path / name) for name in ("before.safetensors", "after.safetensors")]
    text = page(compare(*paths), paths[0], paths[1:])
    assert text.count("<img") == 3
    assert "http" not in text.replace("http-equiv", "")
    assert all(f">{name}<" in text for name in start)
    alone = page(describe(paths[0]), paths[0], [])
    assert "effective rank" in alone
