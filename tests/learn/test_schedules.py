"""Stages and minibatches."""

import itertools

import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.learn import Stage
from featlearn.learn.schedules import batches

KEY = Key("batches")


def listed(n, batch, steps, key=KEY):
    return [b.tolist() for b in batches(n, batch, steps, key) if b is not None]


def test_every_epoch_is_a_fresh_permutation():
    got = listed(12, 4, 9)
    epochs = [list(itertools.chain(*got[i : i + 3])) for i in (0, 3, 6)]
    assert all(sorted(epoch) == list(range(12)) for epoch in epochs)
    assert all(one != two for one, two in itertools.combinations(epochs, 2))
    assert epochs[0] != list(range(12))


def test_short_last_batch_of_an_epoch_is_dropped():
    got = listed(11, 4, 8)
    assert {len(b) for b in got} == {4}
    for i in range(0, 8, 2):  # two batches an epoch, three samples left out, no sample twice
        assert len(set(got[i] + got[i + 1])) == 8


def test_samples_are_left_out_evenly():
    """3000 epochs of 11 in twos of 4: each sample sits out 3/11 of them, within 5 s.e. (11 checks at 6e-7 each)."""
    used = torch.zeros(11)
    for rows in batches(11, 4, 6000, KEY):
        used[rows] += 1
    expect = 3000 * 8 / 11
    assert (used - expect).abs().max() < 5 * (3000 * (8 / 11) * (3 / 11)) ** 0.5


def test_batches_depend_on_the_key_alone():
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = listed(20, 3, 10)
    torch.manual_seed(2)
    torch.rand(5)
    assert listed(20, 3, 10) == first
    assert listed(20, 3, 4) == first[:4]  # nor on how many will be asked for
    assert listed(20, 3, 10, KEY / "other") != first
    torch.manual_seed(1)
    listed(20, 3, 10)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("batch", [None, 7])
def test_the_whole_set_is_none_so_that_no_rows_are_copied(batch):
    assert list(batches(7, batch, 3, KEY)) == [None, None, None]


def test_batch_above_n_is_refused_when_asked_for_and_not_when_first_used():
    with pytest.raises(SettingError, match=r"batch = 8 is not allowed: at most n = 7; lower batch or raise n"):
        batches(7, 8, 3, KEY)


@pytest.mark.parametrize(
    "field, value, allowed",
    [
        ("steps", -1, "at least 0"),
        ("batch", 0, "at least 1"),
        ("noise", -0.1, "at least 0"),
        ("momentum", 1.0, r"in \[0, 1\)"),
        ("momentum", -0.5, r"in \[0, 1\)"),
    ],
)
def test_wrong_stage_is_refused_by_field_value_and_range(field, value, allowed):
    with pytest.raises(SettingError, match=rf"^{field} = {value} is not allowed: {allowed}.*; \S") as info:
        Stage(**{"steps": 1, field: value})
    assert "\n" not in str(info.value)
