"""Numbers in the remarks of claims on images are those of the committed rows, counted here anew."""

from collections import Counter
from pathlib import Path
from statistics import mean

import pytest

from featlearn import works
from featlearn.lab.find import latest_complete
from featlearn.lab.quantity import REAL
from featlearn.lab.store import Store
from featlearn.lab.uncertainty import mean_of
from featlearn.works.emergence import rows_images, rows_teachers

EVIDENCE = Store(Path(__file__).resolve().parents[3] / "evidence")
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
REMARKS = {c.id.partition(".")[2]: " ".join(c.remarks.split()) for c in works.load_claims("emergence")}


def rows_of(kind, **at):
    found = latest_complete(works.load_experiment(kind.experiment), EVIDENCE, ("cpu",))
    assert found is not None
    return [r for r in found.table.of(kind).rows if all(getattr(r, name) == value for name, value in at.items())]


def groups(rows, *names):
    found = {}
    for r in rows:
        found.setdefault(tuple(getattr(r, name) for name in names), []).append(r)
    return found


def near(values, digits=1, level=0.9):
    """Mean with the interval of the claims' pages."""
    made = mean_of(list(values), REAL, "seed")
    low, high = made.at(level)
    return f"{made.value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def test_minima_of_curves():
    found = {arm: rows for (arm,), rows in groups(rows_of(rows_teachers.Minimum), "arm").items()}
    least = {arm: sorted({r.least for r in rows}) for arm, rows in found.items()}
    said = (
        f"minima are at {least['set'][0]} or {least['set'][-1]} units for the set, {least['chosen'][0]} to "
        f"{least['chosen'][-1]} for FC(i_t), {least['small'][0]} or {least['small'][-1]} for FC(9), "
        f"{least['middle'][0]} in all ten seeds for FC(50), and {least['large'][0]} or {least['large'][-1]} for FC(500)"
    )
    assert [len(least[arm]) for arm in ("set", "small", "middle", "large")] == [2, 2, 1, 2]
    for claim in ("teacher_sizes", "teacher_order"):
        assert said in REMARKS[claim]
    assert {r.descends for r in found["set"]} == {True}
    assert {r.descends for arm in ("chosen", "small") for r in found[arm]} == {False}
    curves = groups(rows_of(rows_teachers.Fitted, arm="large"), "size").values()
    best, loss = max(mean(r.test_acc for r in c) for c in curves), min(mean(r.test_loss for r in c) for c in curves)
    assert f"agree with it on {best:.0f} % of fresh inputs at best" in REMARKS["teacher_sizes"]
    assert f"at the minimum their loss is {loss:.2f}" in REMARKS["teacher_sizes"]


def test_labels_of_a_teacher_with_and_without_the_regulariser():
    words = REMARKS["algorithm1_labels"]
    with_, without = (rows_of(rows_teachers.Balance, regularised=r) for r in ("yes", "no"))
    sizes = Counter(r.size for r in with_)
    assert f"i_t is 9 in {WORDS[sizes[9]]} seeds and 6 in {WORDS[sizes[6]]}" in words
    assert sizes.total() == sizes[9] + sizes[6]
    assert f"has {mean(r.largest for r in without):.0f} % of Gaussian inputs" in words
    assert f"with it {mean(r.largest for r in with_):.0f} %" in words
    accuracy = {r.seed: r.test_acc for r in with_}
    assert f"costs {near(r.test_acc - accuracy[r.seed] for r in without)} points" in words


def agreed(alpha, part, **at):
    rows = rows_of(rows_teachers.Agreement, alpha=alpha, part=part, done=1.0, **{"injected": "Gaussian", **at})
    return {r.seed: r.accuracy for r in rows}


def test_students_that_read_one_part_alone():
    for claim in ("gaussian_part", "shares_of_inputs"):
        own, images = (agreed(a, p, net="ResNet") for a, p in ((1.0, "injected"), (0.0, "data")))
        assert f"agrees on it in {near(own.values(), 0)} %" in REMARKS[claim]
        assert f"images alone in {near(images.values(), 0)} %" in REMARKS[claim]
        (most,) = {
            f"{mean(r.largest for r in rows):.0f}"
            for rows in [rows_of(rows_teachers.Labels, net="ResNet", injected="Gaussian", part="injected")]
        }
        assert f"its most frequent label has {most}" in REMARKS[claim]


def test_gaps_of_students_that_have_read_no_image():
    words = REMARKS["wider_student"]
    for student in (9, 50):
        at = {"target": "MNIST", "net": "FC", "student": student}
        none, half = (
            {s: v - agreed(a, "injected", **at)[s] for s, v in agreed(a, "data", **at).items()} for a in (1.0, 0.5)
        )
        of = f"{near(none.values())} of {mean(half.values()):.1f}"
        assert f"{of} points of FC(9)" in words if student == 9 else f"{of} of FC(50)" in words
    alone = [
        [mean(agreed(a, "data", target="MNIST", net="FC", student=m).values()) for a in (1.0, 0.0)] for m in (9, 50)
    ]
    (a, b), (c, d) = alone
    assert f"{a:.0f} % against {b:.0f} and {c:.0f} against {d:.0f}" in words


def test_other_images_in_fully_connected_networks():
    words = REMARKS["other_images"]
    for target in ("MNIST", "Fashion-MNIST"):
        said = []
        for student in (9, 50):
            at = {"target": target, "net": "FC", "student": student, "injected": "images"}
            data, other = (agreed(0.5, part, **at) for part in ("data", "injected"))
            said.append(near((v - other[s] for s, v in data.items())).replace("-0.0", "0.0"))
        points = " points" if target == "MNIST" else ""
        assert f"{' and '.join(said)}{points}" in words


def test_shares_of_movement():
    words, of = REMARKS["early_movement"], {}
    for labels in ("true", "shuffled"):
        rows = rows_of(rows_images.Moved, labels=labels)
        of[labels] = {
            place: mean(r.early_share for r in part) for place, part in groups(rows, "width", "stage").items()
        }
    stages = sorted({stage for _, stage in of["true"]})
    last, first = ([v for (_, stage), v in of["true"].items() if stage in some] for some in (stages[-2:], stages[:2]))
    assert f"{min(last):.2f} to {max(last):.2f} in the last two stages" in words
    assert f"{min(first):.2f} to {max(first):.2f} in the first two" in words
    assert len(last) + len(first) == len(of["true"]) == 8
    assert min(first) > 0.30
    shuffled = of["shuffled"].values()
    assert f"with shuffled labels {min(shuffled):.2f} to {max(shuffled):.2f}" in words


@pytest.mark.parametrize("column", ["to_centre", "centres"])
def test_cosines_of_groups(column):
    found = {}
    for when in ("start", "end"):
        rows = rows_of(rows_images.Grouped, labels="true", snapshot=when, chosen="there")
        found[when] = [mean(getattr(r, column) for r in part) for part in groups(rows, "width", "stage").values()]
    ends = [sorted((min(v, key=abs), max(v, key=abs)), key=abs, reverse=column == "to_centre") for v in found.values()]
    (a, b), (c, d) = ends
    said = {
        "to_centre": f"they are {a:.2f} to {b:.2f} at the start and {c:.2f} to {d:.2f} at the end",
        "centres": f"those of the centres {a:.2f} to {b:.2f} and {c:.2f} to {d:.2f}",
    }
    assert said[column] in REMARKS["filter_groups"]


def test_cosines_of_early_gradients():
    columns = ("cos_v1_v2", "cos_v1_v3", "cos_v2_v3")

    def span(filters):
        parts = groups(rows_of(rows_images.Early, labels="true", filters=filters), "width").values()
        values = [mean(getattr(r, c) for r in part) for part in parts for c in columns]
        return f"{min(values):.2f} to {max(values):.2f}"

    words = REMARKS["early_gradients"]
    assert f"between means are {span('chosen')} for it and {span('all')} on average" in words


def test_clusters_by_seed():
    words, full = REMARKS["two_clusters_images"], []
    rows = [r for r in rows_of(rows_images.Parted, labels="true") if not r.pair.startswith("digits")]
    for (pair,), part in groups([r for r in rows if r.snapshot == "end"], "pair").items():
        tighter = sum(r.silhouette_2 > r.silhouette_4 for r in part)
        if tighter == len(part):
            full.append(pair)
            continue
        assert pair == "Fashion-MNIST t-shirt/trouser"
        assert f"in {WORDS[tighter]} of {WORDS[len(part)]} of t-shirts and trousers" in words
        best = Counter(max((2, 3, 4), key=lambda k, r=r: getattr(r, f"silhouette_{k}")) for r in part)
        assert f"tightest in {best[2]}, {best[3]} and {best[4]} seeds" in words
    assert f"in all seeds of {WORDS[len(full)]} pairs" in words
    means = groups(rows, "pair", "snapshot")
    for pair in {r.pair for r in rows}:
        at = {s: mean(r.silhouette_2 for r in means[pair, s]) for s in ("start", "early", "epoch 1", "end")}
        assert max(at, key=lambda s, at=at: at[s]) == "epoch 1"
    coats = [mean(r.centres for r in means["Fashion-MNIST pullover/coat", s]) for s in ("end", "epoch 1")]
    assert f"{coats[0]:.2f} against {coats[1]:.2f} for pullovers and coats" in words
