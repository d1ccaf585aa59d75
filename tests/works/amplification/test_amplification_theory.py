"""Claims on the setting, the start and fixed networks: a wrong program changes their verdict."""

import pytest
import torch

from featlearn.core import Key
from featlearn.lab.claim import verdict_of
from featlearn.measure import gate_shares
from featlearn.works.amplification import setup
from featlearn.works.amplification.claims import data, networks, setting, start, steps

BY_NAME = {c.id.removeprefix("amplification."): c for m in (data, setting, start, networks) for c in m.CLAIMS}


def contradicted(name: str) -> list[str]:
    return [f.statement.name for f in verdict_of(BY_NAME[name], Key("verify")).findings if f.outcome == "contradicted"]


def test_a_wrong_task_is_seen(monkeypatch):
    class Louder(data.XorClusters):
        def sample(self, truth, n, key):
            batch = super().sample(truth, n, key)
            centre = truth.centres[batch.group]
            return type(batch)(centre + 1.05 * (batch.x - centre), batch.y, batch.hidden, batch.group)

    monkeypatch.setattr(data, "XorClusters", Louder)
    assert "covariance of z" in contradicted("data")
    assert contradicted("signal_variance")


def test_a_wrong_start_is_seen(monkeypatch):
    plain = setting.fixed_signs_init
    for module in (setting, start):
        monkeypatch.setattr(module, "fixed_signs_init", lambda m, d, key, *, omega: plain(m, d, key, omega=1.6 * omega))
    assert contradicted("lemma3")
    assert contradicted("model") == ["mean square of a first weight over omega^2"]


def test_wrong_steps_are_seen(monkeypatch):
    monkeypatch.setattr(setting, "steps_of", lambda alpha, rounding="up": round(1 / (4 * alpha)))
    assert contradicted("gd") == ["T at alpha = 0.05 and 0.25"]


def test_another_loss_is_seen(monkeypatch):
    plain = setting.fit
    monkeypatch.setattr(setting, "fit", lambda *a, **kw: plain(*a, **{**kw, "loss": "squared"}))
    assert contradicted("gd") == ["W after three steps"]


def test_a_wrong_interval_of_a_constant_is_seen(monkeypatch):
    plain = setting.allowed_constants
    monkeypatch.setattr(
        setting, "allowed_constants", lambda **p: {**plain(**p), "A7": (1 / (2 * p["alpha"] ** 2), 1.0)}
    )
    assert contradicted("assumptions")


def edges_of_all(w, own, data):
    return setup.edge_of_each(w, own, setup.Data(data.x, data.clean, data.clean, data.group, data.centres))


@pytest.mark.parametrize(
    "name, module, measure, wrong",
    [
        ("captures", start, "captures", lambda *a: gate_shares(*a) > 0.5),
        ("cond9", networks, "aligned", lambda w, x, group, own, opposite: own >= 0),
        ("cond10", networks, "off_class_overlap", lambda w, a, c, labels: w.norm(dim=2) / a.abs()),
        ("lemma4", start, "matching_neurons", lambda w, a, c, labels, least: torch.zeros(w.shape[:2]).long()),
        ("lemma6", setup, "gate_shares", lambda w, x, g, k: torch.full((*w.shape[:2], k), 0.5)),
        ("lemma6", start, "edge_of_each", lambda w, own, data: edges_of_all(w, own, data)),  # flipped samples as well
        ("proposition15", networks, "neuron_sup", lambda x, signs, *a: (signs @ x).norm(dim=1) * 3),
    ],
)
def test_a_wrong_measure_is_seen(name, module, measure, wrong, monkeypatch):
    monkeypatch.setattr(module, measure, wrong)
    assert contradicted(name)


def test_a_looser_subnetwork_is_seen(monkeypatch):
    plain = networks.tight
    monkeypatch.setattr(networks, "tight", lambda m, left, c4: plain(m, 2 * left, c4))
    assert "y f where y f^J >= 1/C4, random networks and the worst one" in contradicted("lemma8")


def test_premises_name_what_no_constant_satisfies():
    fits = {"d": 400, "n": 1000, "m": 400, "sigma": 0.005, "eta": 0.15, "scale": 0.1, "alpha": 0.25}
    first, second = setup.premises_of([fits])
    assert first.met
    assert second.met is None
    assert not setup.premises_of([fits, {**fits, "alpha": 0.1}])[0].met
    assert not setup.premises_of([{**fits, "d": 300}])[0].met  # A1 allows C <= 3.54, A7 asks for 4


def test_the_supremum_over_a_neuron_by_hand():
    """sup of relu(u_1) - relu(u_2) is 1, at u = e_1; of relu(u_1) + relu(u_2) it is sqrt(2)."""
    signs = torch.tensor([[1.0, -1.0], [1.0, 1.0]], dtype=torch.float64)
    found = networks.neuron_sup(torch.eye(2, dtype=torch.float64), signs, Key("sup"), restarts=3)
    assert found.tolist() == pytest.approx([1.0, 2**0.5], abs=1e-3)


def test_the_vacuous_bounds_by_hand():
    """1/C3 = 0.81/(4096 e^2), half of it, 0.95/128 of P(|g| < 2/3), e^-2/2^14; and the C0 = 2^30 e^4 of a good run."""
    found = {s.name: float(s.value) for s in steps.says_bounds(None)}
    assert found == pytest.approx(
        {
            "y f^J on clean samples": 2.67631e-5,
            "y f^J on flipped samples": -2.67631e-5,
            "y f on clean samples": 1.338155e-5,
            "||W||_F at T": 1.0,
            "least cosine over the sets after one step": 0.95 / 128 * 0.495015,
            "overlap over alpha |a_j|": 3.0,
            "||w_j|| over 2 |a_j| alpha t": 1.0,
            "||W||_F over 2 alpha t": 1.0,
            "omega sqrt(m d) times the movement": 8.26021e-6,
        },
        rel=1e-5,
    )
    assert setup.C0 == pytest.approx(5.8624317e10, rel=1e-6)


@pytest.mark.parametrize("left, good", [(0.82, True), (0.78, False)])
def test_a_run_with_a_small_set_is_not_good(monkeypatch, left, good):
    """A set with fewer than (1 - 1/10)^2 = 0.81 of a quarter of the neurons is too small."""
    honest = start.draw_sample

    def thinned(*args):
        data, w, own = honest(*args)
        members = (own[0] == 0).nonzero()[:, 0]
        own[0, members[round(left * start.M / 4) :]] = -1
        return data, w, own

    monkeypatch.setattr(start, "draw_sample", thinned)
    assert start.good_run(200, 0.1, 2000, Key("good")) is good
