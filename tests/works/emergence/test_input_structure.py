"""Students on mixtures of inputs: what they train on, what is measured when, and claims on planted rows."""

import dataclasses

import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.lab.blind import apart, blind
from featlearn.lab.claim import verdict_of
from featlearn.lab.experiment import Rows
from featlearn.lab.inventory import entry
from featlearn.lab.row import plain
from featlearn.lab.table import Table
from featlearn.works.emergence.claims import input_structure as claims
from featlearn.works.emergence.experiments import input_structure, labelling
from featlearn.works.emergence.experiments.input_structure import EXPERIMENT, TIMES
from featlearn.works.emergence.rows_teachers import Agreement, Labels

BY_ID = {c.id.removeprefix("emergence."): c for c in claims.CLAIMS}
SMOKE = EXPERIMENT.presets["smoke"]
CPU = EXPERIMENT.presets["cpu"]


# --- the experiment --------------------------------------------------------------------------------------------------


def smoke(net, injected="Gaussian"):
    return next(t for t in input_structure.trials(SMOKE) if (t.net, t.injected) == (net, injected))


@pytest.mark.parametrize("net", ["FC", "ResNet"])
def test_smoke_has_every_student_part_and_time(net):
    trial = smoke(net)
    rows = input_structure.run_trial(trial).rows
    said = [r for r in rows if isinstance(r, Labels)]
    seen = Table.of(Agreement, [r for r in rows if isinstance(r, Agreement)])
    assert {(r.part, r.accuracy is None) for r in said} == {("data", False), ("injected", True)}
    most = {r.part: r.largest for r in said}
    assert {r.student for r in seen.rows} == set(input_structure.BY_NET[net][1])
    for alpha, parts in ((0.0, 2), (0.5, 3), (1.0, 2)):
        assert len(seen.where(alpha=alpha)) == parts * len(TIMES) * len(input_structure.BY_NET[net][1])
    steps = sorted({(r.done, r.step) for r in seen.rows})
    last = input_structure.training(trial, net).steps(input_structure.count(trial, net))
    assert steps == [(done, round(done * last)) for done in TIMES]
    for (_, _), part in seen.where(alpha=0.5).by("student", "done").items():
        at = {r.part: r for r in part.rows}
        assert at["mixture"].accuracy == pytest.approx((at["data"].accuracy + at["injected"].accuracy) / 2)
        for name in ("data", "injected"):
            assert at[name].above == pytest.approx(at[name].accuracy - most[name])
    table = Rows(tuple({**plain(r), "trial": "0"} for r in rows))
    assert input_structure.summarise(table)
    pictures = input_structure.draw(table)
    assert set(pictures) == {"emergence.figure22", "emergence.figure24"} | (
        {"emergence.figure25"} if net == "FC" else set()
    )
    assert input_structure.draw(Rows(())) == {}


def test_a_student_reads_the_share_that_alpha_says_with_labels_of_the_teacher(monkeypatch):
    trial = dataclasses.replace(smoke("FC"), alphas=(0.25, 0.5, 0.75))
    seen, plainly = [], input_structure.train

    def spy(net, x, y, settings, key, balance=None, watch=None):
        seen.append((net, x, y, balance))
        return plainly(net, x, y, dataclasses.replace(settings, epochs=4), key, balance, watch)

    monkeypatch.setattr(input_structure, "train", spy)
    input_structure.run_trial(trial)
    (teacher, x, y, u), *students = seen
    assert len(students) == 2 * 5
    told = labelling.labels(teacher, torch.cat([x, u]))
    for i, (_, inputs, answers, balance) in enumerate(students):
        k = round((0.0, 0.25, 0.5, 0.75, 1.0)[i % 5] * trial.fc_n)
        assert balance is None
        assert torch.equal(inputs, torch.cat([x[: len(x) - k], u[:k]]))
        assert torch.equal(answers, torch.cat([told[: len(x) - k], told[len(x) : len(x) + k]]))
    assert not torch.equal(y, told[: len(x)])  # the teacher itself learns labels of the set


def test_students_of_both_kinds_of_inputs_have_one_start_and_one_set_of_images(monkeypatch):
    starts, images = [], []
    plainly = input_structure.built

    def spy(net, m, x, key):
        made = plainly(net, m, x, key)
        starts.append((key, [p.clone() for p in made.parameters()]))
        images.append(x)
        return made

    monkeypatch.setattr(input_structure, "built", spy)
    for injected in ("Gaussian", "images"):
        input_structure.run_trial(smoke("FC", injected))
    half = len(starts) // 2
    for (k, p), (q, r) in zip(starts[:half], starts[half:], strict=True):
        assert k == q
        assert all(torch.equal(a, b) for a, b in zip(p, r, strict=True))
    assert torch.equal(images[0], images[half])


def test_the_paper_preset_has_its_networks_and_needs_its_sets():
    trials = input_structure.trials(EXPERIMENT.presets["paper"])
    sizes = {(t.target, t.net): input_structure.sizes(t.target, t.net) for t in trials}
    assert sizes == {
        ("MNIST", "FC"): (9, (9, 50)),
        ("CIFAR-10", "ResNet"): (5, (9,)),
        ("SVHN", "ResNet"): (2, (8,)),
    }
    needed = {name for t in trials for name in EXPERIMENT.needs(t)}
    assert needed == {"mnist", "fashion-mnist", "cifar10", "svhn", "tiny-imagenet"}
    assert all(input_structure.edge(t, t.target) == (28 if t.target == "MNIST" else 32) for t in trials)
    assert {name for t in input_structure.trials(SMOKE) for name in EXPERIMENT.needs(t)} == set()


def test_a_residual_network_has_the_filters_of_resnet_18_in_proportion():
    net = labelling.ResNet(3, 64, Key("resnet"))
    count = sum(p.numel() for p in net.parameters())
    assert count == 11_173_962  # ResNet-18 for 32 x 32 with ten classes
    outputs = [m.out_channels for m in labelling.ResNet(1, 5, Key("r")).modules() if isinstance(m, torch.nn.Conv2d)]
    assert sorted(set(outputs)) == [5, 10, 20, 40]


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"targets": ()}, "targets"),
        ({"targets": ("MNIST", "MNIST")}, "targets"),
        ({"injected": ()}, "injected"),
        ({"injected": ("images", "images")}, "injected"),
        ({"alphas": ()}, "alphas"),
        ({"alphas": (0.5, 1.0)}, "alphas"),
        ({"alphas": (0.25, 0.75)}, "alphas"),
        ({"alphas": (0.5, 0.25)}, "alphas"),
        ({"size": 8}, "size"),
        ({"targets": ("digits",)}, "size"),
        ({"tested": 10_001}, "tested"),
        ({"fc_n": 60_001}, "fc_n"),
        ({"resnet_n": 0}, "resnet_n"),
        ({"fc_epochs": 0}, "fc_epochs"),
        ({"resnet_n": 100, "resnet_epochs": 1}, "resnet_epochs"),
        ({"resnet_batch": 1}, "resnet_batch"),
        ({"fc_rate": 0.0}, "fc_rate"),
        ({"resnet_rate": float("nan")}, "resnet_rate"),
        ({"weight": -0.1}, "weight"),
        ({"mixing": -0.1}, "mixing"),
        ({"device": "gpu"}, "device"),
        ({"seeds": (1, 1)}, "seeds"),
    ],
)
def test_impossible_settings_are_refused_by_field_and_remedy(changed, field):
    with pytest.raises(SettingError, match=f"^{field} = "):
        dataclasses.replace(CPU, **changed)


# --- claims ----------------------------------------------------------------------------------------------------------

ARMS = (("MNIST", "FC", 9), ("MNIST", "FC", 50), ("Fashion-MNIST", "FC", 9), ("Fashion-MNIST", "ResNet", 9))
ALONE = 90.0


def planted(
    gap=20.0,
    late=None,
    narrow=10.0,
    wide=15.0,
    images=10.0,
    data=88.0,
    most=(15.0, 15.0),
    flat=(),
    arms=ARMS,
    teacher=5,
    unread=0.3,
):
    """At the end the data part has `data` percent and the Gaussian `gap` points less, other images `images` less; FC(9)
    and FC(50) on MNIST have gaps of `narrow` and `wide`; earlier it is all 20 points lower, and the gap `late` if that
    is given for the end alone. No gap at the shares `flat`. Of the data alone a student has ALONE; of the injected part
    alone it has the share `unread` of the gap."""
    said, seen, rng = [], [], Key("planted").numpy()
    for target, net, m in arms:
        for injected in ("Gaussian", "images"):
            for seed in range(5):
                at = {"target": target, "net": net, "injected": injected, "seed": seed}
                if m == 9:
                    for part, largest in zip(("data", "injected"), most, strict=True):
                        said.append(
                            Labels(
                                part=part,
                                examples=10_000,
                                pixels=14,
                                teacher=teacher if net == "ResNet" else 9,
                                largest=largest,
                                divergence=0.1,
                                accuracy=85.0 if part == "data" else None,
                                **at,
                            )
                        )
                own = {9: narrow, 50: wide}[m] if net == "FC" else gap
                for alpha in (0.0, 0.25, 0.5, 0.75, 1.0):
                    for done in TIMES:
                        lead = images if injected == "images" else own
                        lead = late if late is not None and done == 1.0 and net == "ResNet" else lead
                        lead = 0.0 if alpha in flat else lead * unread if alpha == 1.0 else lead
                        base = (ALONE if alpha == 0.0 else data) - (0.0 if done == 1.0 else 20.0)
                        base += 0.1 * float(rng.standard_normal())
                        values = {"data": base, "injected": base - lead + 0.1 * float(rng.standard_normal())}
                        if 0 < alpha < 1:
                            values["mixture"] = (1 - alpha) * values["data"] + alpha * values["injected"]
                        of = dict(zip(("data", "injected"), most, strict=True))
                        for part, value in values.items():
                            above = value - of.get(part, (1 - alpha) * most[0] + alpha * most[1])
                            time = {"student": m, "alpha": alpha, "done": done, "step": round(2000 * done)}
                            seen.append(Agreement(part=part, accuracy=value, above=above, **time, **at))
    return Table.of(Agreement, seen), Table.of(Labels, said)


def judged(name, **changed):
    return verdict_of(BY_ID[name], Key("verify"), planted(**changed))


@pytest.mark.parametrize("name", BY_ID)
def test_rows_that_agree_are_confirmed_and_told_apart_from_others(name):
    claim, tables = BY_ID[name], planted()
    verdict = judged(name)
    assert verdict.as_expected, [(f.statement.name, f.outcome, f.why) for f in verdict.findings]
    assert verdict.scope == ("premise not decidable" if name == "wider_student" else "premise unmet")
    assert verdict.covers == (name == "wider_student")  # other images than the paper's confirm nothing
    assert blind(claim, Key("verify"), tables) == []
    assert apart(claim, Key("verify"), tables) == []


GAPS, SHARES = claims.GAPS, claims.SHARES
ENDS = {GAPS["accuracy", "end"], GAPS["above", "end"]}
ABOVE = {GAPS["above", "mean"], GAPS["above", "end"]}


@pytest.mark.parametrize(
    ("name", "changed", "against"),
    [
        ("gaussian_part", {"gap": 0.0}, {*GAPS.values(), claims.BEYOND}),
        ("gaussian_part", {"unread": 1.0}, {claims.BEYOND}),
        ("wider_student", {"unread": 1.0}, set(claims.BEYONDS.values())),
        ("gaussian_part", {"gap": 3.0}, set(GAPS.values())),
        ("gaussian_part", {"late": 3.0}, ENDS),
        ("gaussian_part", {"most": (30.0, 12.0)}, ABOVE),
        ("gaussian_part", {"data": 80.0}, {claims.KEPT}),
        ("gaussian_part", {"data": 99.0, "gap": 12.0}, {claims.BELOW}),
        ("wider_student", {"narrow": 0.0}, {*list(claims.OPENS.values())[:2], claims.BEYONDS[9]}),
        ("wider_student", {"wide": 10.0}, set(claims.WIDENS.values())),
        (
            "wider_student",
            {"narrow": 0.0, "wide": 0.0},
            {*claims.OPENS.values(), *claims.WIDENS.values(), *claims.BEYONDS.values()},
        ),
        ("other_images", {"images": 0.0}, set(claims.UNDER.values())),
        ("other_images", {"images": 25.0}, set(claims.OVER.values())),
        ("other_images", {"images": -5.0}, set(claims.UNDER.values())),
        ("shares_of_inputs", {"flat": (0.75,)}, set(SHARES.values())),
        ("shares_of_inputs", {"late": -2.0}, {SHARES["accuracy", "end"], SHARES["above", "end"]}),
        ("shares_of_inputs", {"most": (50.0, 12.0)}, {SHARES["above", "mean"], SHARES["above", "end"]}),
    ],
)
def test_rows_that_disagree_are_contradicted_where_they_do(name, changed, against):
    found = {f.statement.name: f.outcome for f in judged(name, **changed).findings}
    assert {statement for statement, outcome in found.items() if outcome == "contradicted"} == against


def test_a_trend_of_two_points_is_one():
    """A point is asked for."""
    found = {f.statement.name: f.outcome for f in judged("shares_of_inputs", gap=2.0).findings}
    assert set(found.values()) == {"confirmed"}


def test_a_gap_that_the_student_of_the_data_alone_does_not_see_says_nothing_of_the_mixture():
    """The control: where the Gaussian part is learnt as well, "as well as alone" tells the data from nothing."""
    found = {f.statement.name: f for f in judged("gaussian_part", gap=0.0).findings}
    assert found[claims.KEPT].outcome in ("too weak to test", "inconclusive")


def test_one_set_that_goes_the_other_way_is_seen():
    table, said = planted(arms=(*ARMS, ("digits", "ResNet", 9)))
    rows = [
        dataclasses.replace(r, accuracy=r.accuracy + 25, above=r.above + 25)
        if (r.target, r.part, r.injected) == ("digits", "injected", "Gaussian")
        else r
        for r in table.where(done=1.0).rows
    ] + [r for r in table.rows if r.done < 1.0]
    rows = [dataclasses.replace(r, accuracy=min(r.accuracy, 100.0)) for r in rows]
    verdict = verdict_of(BY_ID["gaussian_part"], Key("verify"), (Table.of(Agreement, rows), said))
    found = {f.statement.name: f.outcome for f in verdict.findings}
    assert {n for n, o in found.items() if o == "contradicted"} >= ENDS


def test_a_gap_on_mnist_is_no_matter_of_the_figure_that_sees_no_trend_there():
    assert BY_ID["wider_student"].entries == ("emergence.figure25",)
    assert entry("emergence.figure22").waits.startswith("CIFAR-10 and SVHN as folders of yours")


def test_the_paper_sets_meet_the_premise_of_the_sets():
    arms = (("MNIST", "FC", 9), ("MNIST", "FC", 50), ("CIFAR-10", "ResNet", 9))
    first = judged("gaussian_part", arms=arms).premises[0]
    assert (first.met, first.detail) == (False, "CIFAR-10, teacher ResNet(5)")
    tables = planted(arms=(*arms, ("SVHN", "ResNet", 9)))
    said = [dataclasses.replace(r, teacher=2) if r.target == "SVHN" else r for r in tables[1].rows]
    verdict = verdict_of(BY_ID["gaussian_part"], Key("verify"), (tables[0], Table.of(Labels, said)))
    assert (verdict.premises[0].met, verdict.scope) == (True, "premise not decidable")
