"""Margins by hand, on random scores, over blocks, and what is refused."""

import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.measure import class_weighted_margins, data_margin, margins
from featlearn.measure.margins import BLOCK


def _scores(n=50, c=4):
    g = Key("scores").torch()
    return torch.randn(n, c, generator=g, dtype=torch.float64), torch.randint(c, (n,), generator=g)


def test_margins_equal_a_loop():
    scores, y = _scores()
    slow = [s[t] - max(s[c] for c in range(4) if c != t) for s, t in zip(scores.tolist(), y.tolist(), strict=True)]
    assert margins(scores, y).tolist() == slow
    mean = [s[t] - sum(s[c] for c in range(4) if c != t) / 3 for s, t in zip(scores.tolist(), y.tolist(), strict=True)]
    torch.testing.assert_close(class_weighted_margins(scores, y), torch.tensor(mean, dtype=torch.float64))
    assert (margins(scores, y) <= class_weighted_margins(scores, y)).all()


def test_data_margin_over_blocks():
    scores, y = _scores(BLOCK + 3, 3)
    scores[-1], y[-1] = torch.tensor([-9.0, 5.0, 1.0]), 0  # the least one stands in the last, short block
    found = data_margin(lambda x: x, scores, y)
    each = margins(scores, y)
    assert found.least == -14.0
    assert found.n == BLOCK + 3
    assert found.mean == pytest.approx(float(each.mean()), rel=1e-10)
    assert found.right == float((each > 0).double().mean())
    assert found.weighted == pytest.approx(float(class_weighted_margins(scores, y).mean()), rel=1e-10)


@pytest.mark.parametrize(
    "scores, y, field",
    [
        (torch.zeros(2, 1), torch.zeros(2, dtype=torch.long), "scores"),
        (torch.zeros(2, 3), torch.tensor([0, 3]), "y"),
        (torch.zeros(2, 3), torch.tensor([-1, 0]), "y"),
        (torch.tensor([[0.0, torch.nan]]), torch.tensor([0]), "scores"),
    ],
)
def test_refused(scores, y, field):
    for measure in (margins, class_weighted_margins):
        with pytest.raises(SettingError) as error:
            measure(scores, y)
        assert error.value.field == field
    with pytest.raises(SettingError, match="x = "):
        data_margin(lambda x: x, torch.zeros(0, 3), torch.zeros(0, dtype=torch.long))
