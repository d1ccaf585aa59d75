"""Keys: the numbers behind every committed result, so their values are pinned."""

import pickle

import numpy as np
import pytest
import torch

from featlearn.core import Key

# path -> seed, three torch draws and three numpy draws below 1000. Changing any of these changes every result.
PINNED = {
    "": (8238016292129134938, [502, 228, 976], [492, 394, 205]),
    "demo": (5078378350811123216, [25, 735, 251], [649, 743, 302]),
    "demo/x/1": (4835720529521143587, [58, 370, 309], [351, 88, 403]),
    "emergence/table1/seed/0": (7261915195044826043, [190, 48, 40], [13, 793, 4]),
}


@pytest.mark.parametrize("path", PINNED)
def test_seeds_and_streams_are_pinned(path):
    """Python's own hash() differs from process to process; a key must not."""
    seed, by_torch, by_numpy = PINNED[path]
    key = Key(path)
    assert key.seed == seed
    assert torch.randint(1000, (3,), generator=key.torch()).tolist() == by_torch
    assert key.numpy().integers(0, 1000, 3).tolist() == by_numpy


def test_children_depend_on_their_name_and_not_on_order_or_on_earlier_draws():
    parent = Key("p")
    first = (parent / "a").seed
    generator = parent.torch()
    torch.rand(10, generator=generator)
    parent.numpy().random(10)
    assert (parent / "b").seed != first
    assert (parent / "a").seed == first
    assert torch.equal(torch.rand(3, generator=parent.torch()), torch.rand(3, generator=Key("p").torch()))


def test_path_is_all_there_is_to_a_key():
    assert Key("demo") / "x" / 1 == Key("demo/x/1")
    assert hash(Key("demo") / "x") == hash(Key("demo/x"))
    assert pickle.loads(pickle.dumps(Key("demo/x"))) == Key("demo/x")


def test_nearby_paths_have_different_seeds():
    keys = (
        [Key(str(i)) for i in range(1000)]
        + [Key("s") / i for i in range(1000)]
        + [Key("s") / "t" / i for i in range(1000)]
    )
    seeds = {k.seed for k in keys}
    assert len(seeds) == len(keys)
    assert all(0 <= s < 2**63 for s in seeds)


def test_generators_are_fresh_and_leave_the_global_state_alone():
    before_torch, before_numpy = torch.get_rng_state(), np.random.get_state()  # noqa: NPY002 (the global state is the subject)
    key = Key("fresh")
    a, b = key.torch(), key.torch()
    assert a is not b
    assert torch.equal(torch.rand(4, generator=a), torch.rand(4, generator=b))
    assert np.array_equal(key.numpy().random(4), key.numpy().random(4))
    assert torch.equal(torch.get_rng_state(), before_torch)
    after = np.random.get_state()  # noqa: NPY002
    assert all(np.array_equal(x, y) for x, y in zip(before_numpy, after, strict=True))


def test_child_streams_are_uncorrelated():
    """1000 siblings, one normal each, and 500 pairs of neighbours: mean and correlation within 5 standard errors
    (two checks, false alarm below 2e-6 over keys; here the key is fixed)."""
    draws = np.array([(Key("stat") / i).numpy().standard_normal() for i in range(1000)])
    assert abs(draws.mean()) < 5 / 1000**0.5
    assert abs(np.mean(draws[::2] * draws[1::2])) < 5 / 500**0.5
