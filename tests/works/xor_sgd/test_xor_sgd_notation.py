"""Claims on Table 1 and Definition 4.2 of the XOR work: parts, margins, heavy networks."""

import numpy as np
import pytest

from featlearn.core import Key
from featlearn.lab.claim import verdict_of
from featlearn.works.xor_sgd.claims import notation

BY_NAME = {c.id.removeprefix("xor_sgd."): c for c in notation.CLAIMS}


@pytest.mark.parametrize("clause", notation.CLAUSES)
def test_a_pair_breaks_its_own_clause_alone(clause):
    """Definition 4.2 once more, clause by clause, on the networks planted for it."""
    for near, broken in ((0.99, set()), (1.01, {clause})):
        net, zeta = notation.pair(clause, near)
        sig, opp, perp = (np.linalg.norm(v, axis=1) for v in (net.sig, net.opp, net.perp))
        square, h = net.norm**2, notation.H
        heavy = np.exp(6 * h) * perp + opp <= zeta * sig
        least = min(
            np.mean(heavy * (np.sign(net.a) == y) * (net.w @ mu > 0) * np.abs(net.a) * (net.w @ mu))
            for mu, y in zip(notation.centres(6), notation.LABEL, strict=True)
        )
        second = np.mean(net.a**2)
        bad = {
            notation.CLAUSES[0]: bool((opp > zeta * sig)[:4].any()),
            notation.CLAUSES[1]: bool((np.exp(6 * h) * perp > zeta * sig)[:4].any()),
            notation.CLAUSES[2]: bool(np.mean(square * ~heavy) > zeta * least),
            notation.CLAUSES[3]: bool(square.mean() > second + zeta * h),
            notation.CLAUSES[4]: bool(second + zeta * h > 2 * h),
            notation.CLAUSES[5]: bool((np.abs(net.a) > net.norm * (1 + 1e-14)).any()),
            notation.CLAUSES[6]: bool(zeta > np.exp(-10 * h)),
        }
        found = {name for name, is_bad in bad.items() if is_bad}
        if clause in notation.CLAUSES[:2] and broken:  # then no neuron is heavy, so none is left for the third
            found -= {notation.CLAUSES[2]}
        assert found == broken


def test_a_checker_that_takes_the_largest_heavy_margin_is_contradicted(monkeypatch):
    honest = notation.signal_heavy

    def lax(w, a, means, *, zeta, H):
        found = honest(w, a, means, zeta=zeta, H=H)
        enough = found.outside <= zeta * found.heavy_margins.max(1).values
        return type(found)(
            **{**vars(found), "holds": found.holds | (enough & found.balanced & (zeta <= notation.LIMIT))}
        )

    monkeypatch.setattr(notation, "signal_heavy", lax)
    findings = verdict_of(BY_NAME["signal_heavy"], Key("verify")).findings
    assert {f.statement.name: f.outcome for f in findings}[
        f"inside and outside of: {notation.CLAUSES[2]}"
    ] == "contradicted"
