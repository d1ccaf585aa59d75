"""Numbers in the remarks of claims on adaptation are those of the committed rows, counted here anew."""

import statistics
from pathlib import Path

import pytest

from featlearn import works
from featlearn.lab.find import latest_complete
from featlearn.lab.store import Store
from featlearn.works.tradeoff.rows_images import Tuned as Image
from featlearn.works.tradeoff.rows_texts import Tuned as Text

EVIDENCE = Store(Path(__file__).resolve().parents[3] / "evidence")
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")
REMARKS = {c.id.partition(".")[2]: " ".join(c.remarks.split()) for c in works.load_claims("tradeoff")}


def committed(kind):
    found = latest_complete(works.load_experiment(kind.experiment), EVIDENCE, ("cpu",))
    assert found is not None
    return found.table.of(kind).rows


def setting(row):
    return (row.rate, row.decay, row.weight)


def by_setting(rows, role, **at):
    """Setting -> accuracies by seed, None for a run that diverged."""
    found = {}
    for r in rows:
        if r.role == role and all(getattr(r, name) == value for name, value in at.items()):
            found.setdefault(setting(r), {})[r.seed] = r.accuracy
    return found


def best(rows, **at):
    means = {s: statistics.mean(v or 0.0 for v in a.values()) for s, a in by_setting(rows, "validation", **at).items()}
    return max(means, key=lambda s: means[s])


@pytest.fixture(scope="module")
def images():
    return committed(Image)


@pytest.fixture(scope="module")
def texts():
    return committed(Text)


def test_what_diverges_on_products_with_a_fifth_of_the_labels(texts):
    words, at = REMARKS["regularised_texts"], {"target": "products", "share": 0.2}
    lost = []
    for t, share, how in sorted({(r.target, r.share, r.how) for r in texts}):
        here = {"target": t, "share": share, "how": how}
        if None in by_setting(texts, "reported", **here)[best(texts, **here)].values():
            lost.append((t, share, how))
    assert lost == [("products", 0.2, "CR")]
    assert "That happens in one place, products at 20 % of the labels" in words
    cr, ft = (by_setting(texts, "reported", how=how, **at) for how in ("CR", "FT"))
    rate, decay, weight = best(texts, how="CR", **at)
    gone = list(cr[rate, decay, weight].values())
    said = f"CR is chosen at step size {rate:g} and diverges there on {WORDS[gone.count(None)]} of {WORDS[len(gone)]}"
    assert f"{said} seeds" in words
    two = {d: list(a.values()).count(None) for (r, d, _), a in ft.items() if r == rate}
    assert f"FT diverges on {WORDS[two.pop(decay)]} of {WORDS[len(gone)]}, and at the larger" in words
    assert f"which CR may not use, on {WORDS[next(iter(two.values()))]}." in words
    usual, chosen = cr[0.06, decay, 0.1], ft[best(texts, how="FT", **at)]
    behind = statistics.mean(chosen[s] - usual[s] for s in chosen)
    assert f"at step size 0.06 and weight 0.1 it would be {behind:.1f} points behind" in words


def test_decay_probes_and_weights_on_images(images):
    words = REMARKS["regularised"]
    places = sorted({(r.target, r.sources, r.share) for r in images})
    worse = compared = 0
    for t, k, share in places:
        found = by_setting(images, "validation", target=t, sources=k, share=share, how="FT")
        means = {s: statistics.mean(a.values()) for s, a in found.items()}
        small, large = sorted({decay for _, decay, _ in means})
        for rate in {rate for rate, _, _ in means}:
            compared += 1
            worse += means[rate, large, 0.0] < means[rate, small, 0.0]
    assert worse == compared
    assert f"on validation seeds in all {compared} comparisons and never chosen" in words
    whole = [(t, k) for t, k, share in places if share == 1.0]
    behind = 0
    for t, k in whole:
        at = {"target": t, "sources": k, "share": 1.0}
        ft = by_setting(images, "reported", how="FT", **at)[best(images, how="FT", **at)]
        (lp,) = by_setting(images, "reported", how="LP", **at).values()
        behind += statistics.mean(ft.values()) < statistics.mean(lp.values())
    assert f"with all labels it is behind the frozen probe in {WORDS[behind]} of {WORDS[len(whole)]} arms" in words
    several = [(t, share) for t, k, share in places if k == 4]
    weights = {best(images, target=t, sources=4, share=share, how="CR")[2] for t, share in several}
    assert weights == {1.0}
    assert "the regulariser is at weight 1 in all of these arms" in REMARKS["regularised_clusters_chosen"]
