"""Filters of a residual network: the network and its training by hand, groups and cosines on planted filters, planted
rows, refusals, and whether the cosines of Table 7 can be."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from featlearn.core import Key, SettingError
from featlearn.lab.blind import apart, blind
from featlearn.lab.claim import verdict_of
from featlearn.lab.experiment import Rows
from featlearn.lab.row import plain
from featlearn.lab.table import Table
from featlearn.works.emergence.claims import filters as said
from featlearn.works.emergence.claims import table7
from featlearn.works.emergence.claims.filters import CLAIMS
from featlearn.works.emergence.experiments import filters, resnet
from featlearn.works.emergence.experiments.filters import COSINES, EXPERIMENT, Config
from featlearn.works.emergence.experiments.resnet import STAGES, ResNet18, centre_of, grouped, groups, mixed, train
from featlearn.works.emergence.rows_images import Early, Grouped, Moved, Trained

BY_ID = {c.id.removeprefix("emergence."): c for c in CLAIMS}
KEY = Key("tests/filters")


# --- the network -----------------------------------------------------------------------------------------------------


def test_filters_are_in_proportion_to_those_of_the_first_block():
    net = ResNet18(3, 6, KEY)
    assert {s: tuple(f.shape) for s, f in net.filters().items()} == {
        1: (6, 54), 2: (12, 108), 3: (24, 216), 4: (48, 432)
    }  # fmt: skip
    convolutions = [m for m in net.modules() if isinstance(m, torch.nn.Conv2d)]
    assert len([m for m in convolutions if m.kernel_size == (3, 3)]) == 17  # and a linear map: 18 layers
    assert net(torch.rand(2, 3, 14, 14)).shape == (2,)


def test_it_is_the_resnet_of_torchvision():
    """Same weights, same features: the ResNet-18 of torchvision with a stem for small images."""
    models = pytest.importorskip("torchvision.models")
    ours, theirs = ResNet18(3, 64, KEY).eval(), models.resnet18(weights=None).eval()
    theirs.conv1 = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False)
    theirs.maxpool = torch.nn.Identity()
    theirs.fc = torch.nn.Linear(512, 1)
    pairs = [(theirs.conv1, ours.stem), (theirs.bn1, ours.norm), (theirs.fc, ours.map)]
    for stage, blocks in enumerate(ours.stages, 1):
        for block, twin in zip(blocks, getattr(theirs, f"layer{stage}"), strict=True):
            pairs += [(twin.conv1, block.one), (twin.conv2, block.two), (twin.bn1, block.norms[0])]
            pairs += [(twin.bn2, block.norms[1])]
            assert (twin.downsample is None) == isinstance(block.past, torch.nn.Identity)
            if twin.downsample is not None:
                pairs += [(twin.downsample[0], block.past[0]), (twin.downsample[1], block.past[1])]
    for to, of in pairs:
        to.load_state_dict(of.state_dict())
    assert sum(p.numel() for p in theirs.parameters()) == sum(p.numel() for p in ours.parameters())
    x = torch.randn(3, 3, 16, 16, generator=KEY.torch())
    torch.testing.assert_close(ours(x), theirs(x)[:, 0])


def test_the_start_is_of_the_key_and_the_global_state_stays():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, two = ResNet18(1, 4, KEY), ResNet18(1, 4, KEY)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not torch.equal(one.last(4), ResNet18(1, 4, KEY / "other").last(4))
    wide = ResNet18(1, 32, KEY)
    assert float(wide.filters()[4].std()) == pytest.approx(math.sqrt(2 / (9 * 256)), rel=0.01)  # 589824 entries


def test_training_is_heavy_ball_on_the_logistic_loss_and_early_gradients_are_means_of_its_own():
    """Steps by hand, with the same orders: theta <- theta - rate (g + momentum m)."""
    x, y = torch.rand(12, 1, 8, 8, generator=KEY.torch()).double(), torch.tensor([1.0, -1.0]).double().repeat(6)
    net, twin = ResNet18(1, 4, KEY).double(), ResNet18(1, 4, KEY).double()
    start = net.filters()[4]
    settings = {"epochs": 3, "batch": 5, "rate": 0.05, "momentum": 0.9, "keep": (1, 3), "trunk": 1}
    history = train(net, x, y, KEY / "order", **settings)
    velocity = [torch.zeros_like(p) for p in twin.parameters()]
    gradients, kept = [], {}
    twin.train()
    for epoch in (1, 2, 3):
        order = torch.randperm(12, generator=(KEY / "order" / epoch).torch())
        for rows in (order[:5], order[5:10]):  # the two that are left of 12 are no batch
            loss = torch.log1p(torch.exp(-y[rows] * twin(x[rows]))).mean()
            g = torch.autograd.grad(loss, list(twin.parameters()))
            names = [n for n, _ in twin.named_parameters()]
            gradients.append(g[names.index("stages.3.1.two.weight")].flatten(1))
            velocity = [0.9 * v + d for v, d in zip(velocity, g, strict=True)]
            with torch.no_grad():
                for p, v in zip(twin.parameters(), velocity, strict=True):
                    p -= 0.05 * v
        kept[epoch] = twin.filters()
    assert sorted(history.filters) == [0, 1, 3]
    assert torch.equal(history.filters[0][4], start)
    for epoch in (1, 3):
        for stage in STAGES:
            torch.testing.assert_close(history.filters[epoch][stage], kept[epoch][stage], rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(history.early, torch.stack(gradients[:3]), rtol=1e-9, atol=1e-11)


def test_a_trunk_is_the_mean_of_its_steps():
    x, y = torch.rand(8, 1, 8, 8, generator=KEY.torch()), torch.tensor([1.0, -1.0]).repeat(4)
    settings = {"epochs": 6, "batch": 8, "momentum": 0.0, "keep": ()}
    ones = train(ResNet18(1, 4, KEY), x, y, KEY, rate=0.0, trunk=1, **settings).early
    twos = train(ResNet18(1, 4, KEY), x, y, KEY, rate=0.0, trunk=2, **settings).early
    torch.testing.assert_close(ones.mean(0), twos.mean(0), rtol=1e-3, atol=1e-7)  # one batch, weights that stay
    torch.testing.assert_close(twos[0], twos[2], rtol=1e-3, atol=1e-7)


def test_accuracy_is_the_share_of_right_signs():
    net = ResNet18(1, 4, KEY)
    x = torch.rand(10, 1, 8, 8, generator=KEY.torch())
    y = torch.where(net.eval()(x) > 0, 1.0, -1.0)
    y[:3] *= -1
    assert resnet.accuracy(net.train(), x, y, batch=4) == pytest.approx(70.0)
    assert not net.training


# --- groups and cosines ----------------------------------------------------------------------------------------------


def planted_filters(spread=0.1, sizes=(20, 16), d=30):
    """Filters about two opposite directions, the first cluster the larger one, in a drawn order."""
    g = KEY.torch()
    centre = torch.eye(d)[0]
    u = torch.cat([sign * centre.expand(n, d) for sign, n in zip((1, -1), sizes, strict=True)])
    order = torch.randperm(len(u), generator=g)
    return (u + spread * torch.randn(u.shape, generator=g))[order] * torch.rand(len(u), 1, generator=g).add(0.5)


def test_groups_are_on_either_side_and_green_is_of_the_larger_cluster():
    w = planted_filters()
    at = groups(w, KEY)
    assert len(at.green) == len(at.red) == 6  # a sixth of 36
    assert (w[at.green, 0] > 0).all()
    assert (w[at.red, 0] < 0).all()
    assert at.nearest in at.green.tolist()
    flipped = groups(-w, KEY)
    assert sorted(flipped.green.tolist()) == sorted(at.green.tolist())
    found = grouped(w, at)
    assert found["to_centre"] > 0.9
    assert found["centres"] < -0.9
    assert len(groups(w[:8], KEY).green) == 2  # at least two


def test_cosines_of_groups_by_hand():
    w = torch.tensor([[1.0, 0, 0], [3.0, 4, 0], [0, 0, 2.0], [0, -1.0, 0]])
    at = resnet.Groups(torch.tensor([0, 1]), torch.tensor([2, 3]), 0)
    found = grouped(w, at)
    green = np.array([1.6, 0.8, 0]) / math.hypot(1.6, 0.8)
    red = np.array([0, -1, 1]) / math.sqrt(2)
    near = (green[0] + (0.6 * green[0] + 0.8 * green[1])) / 2
    assert found["green"] == pytest.approx(near)
    assert found["red"] == pytest.approx(math.sqrt(0.5))
    assert found["to_centre"] == pytest.approx((near + math.sqrt(0.5)) / 2)
    assert found["within"] == pytest.approx((0.6 + 0.0) / 2)
    assert found["centres"] == pytest.approx(float(green @ red))
    assert (found["members"], centre_of(torch.zeros(2, 3)).tolist()) == (2, [0.0, 0.0, 0.0])


def test_choosing_from_random_directions_raises_the_cosine_with_the_centre_but_within_less():
    """What the control at the start is for."""
    w = torch.randn(120, 400, generator=KEY.torch())
    found = grouped(w, groups(w, KEY))
    assert found["to_centre"] > 1 / math.sqrt(20) + 0.02
    assert 0 < found["within"] < 0.15


def test_cosines_of_table_7_by_hand():
    v = torch.tensor([[[2.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]], [[1.0, 1, 0], [1.0, 0, 0], [-1.0, 0, 0]]])
    found = resnet.table7(v).tolist()
    mean = math.sqrt(6)  # of (2, 1, 1)
    assert found[0] == pytest.approx([2 / mean, 1 / mean, 1 / mean, 0, 0, 0, 0.5, 0.25, 0.25])
    half, whole = math.sqrt(0.5), math.sqrt(2)
    assert found[1][:6] == pytest.approx([1, half, -half, half, -half, -1])  # the mean is that of the first
    assert found[1][6:] == pytest.approx([whole / (2 + whole), 1 / (2 + whole), 1 / (2 + whole)])


def test_mixed_triples_are_of_three_different_filters_one_from_each_trunk():
    early = torch.arange(3)[:, None, None] * 100.0 + torch.arange(5)[None, :, None].expand(3, 5, 2)
    found = mixed(early, KEY, draws=50)[:, :, 0]
    assert torch.equal(torch.div(found, 100, rounding_mode="floor"), torch.tensor([0.0, 1, 2]).expand(50, 3))
    rows = found % 100
    assert all(len(set(r)) == 3 for r in rows.tolist())
    assert len({tuple(r) for r in rows.tolist()}) > 20


# --- trials ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def smoke():
    trial = EXPERIMENT.trials(EXPERIMENT.presets["smoke"])[0]
    rows = EXPERIMENT.run_trial(dataclasses.replace(trial, seed=1007)).rows
    return {kind: Table.of(kind, [r for r in rows if type(r) is kind]) for kind in EXPERIMENT.rows}


def test_every_kind_of_row_is_there_of_both_kinds_of_labels(smoke):
    arms = {"true", "shuffled"}
    assert set(smoke[Trained].by("labels")) == arms
    assert set(smoke[Moved].by("labels", "stage")) == {(a, s) for a in arms for s in STAGES}
    looks = {("start", "there"), ("start", "at the end"), ("early", "there"), ("early", "at the end"), ("end", "there")}
    assert set(smoke[Grouped].by("labels", "stage", "snapshot", "chosen")) == {
        (a, s, *look) for a in arms for s in STAGES for look in looks
    }
    assert set(smoke[Early].by("labels", "filters")) == {(a, f) for a in arms for f in ("chosen", "all", "mixed")}
    assert {r.dimension for r in smoke[Early].rows} == {9 * 32}


def test_arms_of_a_seed_have_one_start(smoke):
    part = smoke[Grouped].where(snapshot="start", chosen="there")
    one, two = (part.where(labels=a).column("to_centre") for a in ("true", "shuffled"))
    assert (one == two).all()
    end = smoke[Grouped].where(snapshot="end", chosen="there", stage=4)
    assert end.where(labels="true").rows[0].green != end.where(labels="shuffled").rows[0].green


def test_shares_of_movement_are_of_the_two_norms(smoke):
    for r in smoke[Moved].rows:
        assert r.early_share == pytest.approx(r.early / (r.early + r.late))
        assert r.early > 0


def test_summaries_meet_the_reported_cells_at_the_paper_s_pair_and_size_alone(smoke):
    rows = [plain(r) for kind in smoke.values() for r in kind.rows]
    assert {r.verdict for r in filters.summarise(Rows(tuple(rows)))} == {"not reported"}
    theirs = tuple({**r, "pair": filters.REPORTED, "width": 128} for r in rows)
    met = [r for r in filters.summarise(Rows(theirs)) if r.reported is not None]
    assert len(met) == 1 + 12 + 6
    assert {r.entry for r in met} == {"emergence.figure20", "emergence.table7"}
    elsewhere = tuple({**r, "width": 128} for r in rows)
    assert {r.verdict for r in filters.summarise(Rows(elsewhere))} == {"not reported"}


def test_presets_have_the_settings_and_the_needs_that_they_say():
    paper = EXPERIMENT.presets["paper"]
    assert (paper.widths, paper.epochs, paper.early, paper.size, paper.device) == ((128, 256), 20, 3, 32, "cuda")
    needed = {n: {d for t in EXPERIMENT.trials(c) for d in EXPERIMENT.needs(t)} for n, c in EXPERIMENT.presets.items()}
    fashion = {"fashion-mnist"}
    assert needed == {"smoke": set(), "small": fashion, "cpu": fashion, "paper": {"cifar10"}}
    assert sum(EXPERIMENT.cost(t).seconds for t in EXPERIMENT.trials(EXPERIMENT.presets["cpu"])) < 2400


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"size": 15}, "size"),
        ({"size": -1}, "size"),
        ({"widths": (16,)}, "widths"),
        ({"widths": (32, 16)}, "widths"),
        ({"widths": (2, 16)}, "widths"),
        ({"n": 2001}, "n"),
        ({"tested": 0}, "tested"),
        ({"rate": 0.0}, "rate"),
        ({"momentum": 1.0}, "momentum"),
        ({"batch": 1}, "batch"),
        ({"batch": 2001}, "batch"),
        ({"batch": 2000}, "epochs"),
        ({"epochs": 3}, "epochs"),
        ({"early": 0}, "early"),
        ({"seeds": ()}, "seeds"),
        ({"device": "tpu"}, "device"),
    ],
)
def test_impossible_settings_are_refused_by_field_and_remedy(changed, field):
    with pytest.raises(SettingError, match=f"^{field} = "):
        Config(**changed)


@pytest.mark.parametrize("batch", [500, 150])
def test_a_batch_that_the_images_refuse_is_named(batch):
    """The digits 0 and 1 are 271: too few for one batch, or for thirty steps in four epochs."""
    trial = EXPERIMENT.trials(EXPERIMENT.presets["smoke"])[0]
    with pytest.raises(SettingError, match=f"^batch = {batch} "):
        EXPERIMENT.run_trial(dataclasses.replace(trial, n=1000, batch=batch))


# --- claims on planted rows ------------------------------------------------------------------------------------------

GIVEN = {
    "share": 0.6, "share_shuffled": 0.4, "near": 0.7, "near_start": 0.4, "near_shuffled": 0.5, "apart": -0.8,
    "apart_start": -0.3, "apart_shuffled": -0.4, "gain": 0.1, "fall": 0.1, "right": 90.0, "between": 0.7, "mixed": 0.05,
    "mean": 0.9, "mean_mixed": 0.6, "shuffled": 0.3,
}  # fmt: skip
"""What rows of five seeds say of both networks, in every stage; gain and fall: more of them in the larger network."""


def planted(widths=(16, 32), pair="Fashion-MNIST pullover/coat", **changed):
    """Tables of all kinds of rows."""
    g, rng = {**GIVEN, **changed}, KEY.numpy()
    rows = {kind: [] for kind in EXPERIMENT.rows}

    def noise():
        return 0.004 * float(rng.standard_normal())

    for width, labels, seed in ((w, a, s) for w in widths for a in ("true", "shuffled") for s in range(5)):
        true, larger = labels == "true", width == widths[-1]
        at = {"pair": pair, "width": width, "labels": labels, "seed": seed}
        rows[Trained].append(Trained(train_acc=99.0, test_acc=(g["right"] if true else 50.0) + 10 * noise(), **at))
        for stage in STAGES:
            share = (g["share"] if true else g["share_shuffled"]) + noise()
            rows[Moved].append(Moved(stage=stage, early=share, late=1 - share, early_share=share, **at))
            for snapshot in ("start", "early", "end"):
                for chosen in ("there", "at the end")[: 1 + (snapshot != "end")]:
                    arm = "_start" if snapshot != "end" else "" if true else "_shuffled"
                    near, apart = g[f"near{arm}"] + noise(), g[f"apart{arm}"] + noise()
                    within = 0.2 if arm else 0.3 + g["gain"] * larger + noise()
                    apart -= 0 if arm else g["fall"] * larger
                    where = {"stage": stage, "snapshot": snapshot, "chosen": chosen, "members": 5}
                    cosines = {"green": near, "red": near, "to_centre": near, "within": within, "centres": apart}
                    rows[Grouped].append(Grouped(**where, **cosines, **at))
        for which in ("chosen", "all", "mixed"):
            between, mean = (g["mixed"], g["mean_mixed"]) if which == "mixed" else (g["between"], g["mean"])
            if not true:
                between, mean = g["shuffled"], g["mean_mixed"]
            cosines = {c: (mean if c.endswith("vbar") else between) + noise() for c in COSINES}
            thirds = {f"norm_{i}": 1 / 3 for i in (1, 2, 3)}
            rows[Early].append(Early(filters=which, dimension=1152, **cosines, **thirds, **at))
    return {kind: Table.of(kind, found) for kind, found in rows.items()}


def tables_of(name, **changed):
    found = planted(**changed)
    return tuple(found[kind] for kind in BY_ID[name].reads)


def outcomes(name, tables):
    return {f.statement.name: f.outcome for f in verdict_of(BY_ID[name], Key("verify"), tables).findings}


@pytest.mark.parametrize("name", BY_ID)
def test_rows_that_agree_are_confirmed_and_told_apart_from_others(name):
    claim, tables = BY_ID[name], tables_of(name)
    verdict = verdict_of(claim, Key("verify"), tables)
    assert {f.outcome for f in verdict.findings} == {"confirmed"}
    assert (verdict.scope, verdict.covers) == ("premise unmet", False)  # other images confirm nothing
    assert blind(claim, Key("verify"), tables) == []
    assert apart(claim, Key("verify"), tables) == []


@pytest.mark.parametrize("name", BY_ID)
def test_images_and_sizes_of_the_paper_are_what_the_premises_ask_for(name):
    verdict = verdict_of(BY_ID[name], Key("verify"), tables_of(name, widths=(128, 256), pair=filters.REPORTED))
    assert (verdict.scope, verdict.covers) == ("premise not decidable", True)
    assert [p.met for p in verdict.premises] == [True, True, None]


@pytest.mark.parametrize(
    ("name", "changed", "against"),
    [
        ("early_movement", {"share": 0.4, "share_shuffled": 0.3}, {said.FIRST}),
        ("early_movement", {"share_shuffled": 0.6}, {said.LESS}),
        ("early_movement", {"right": 51.0}, {said.RIGHT}),
        ("filter_groups", {"near_start": 0.68}, {said.NEAR["start"]}),
        ("filter_groups", {"near_shuffled": 0.7}, {said.NEAR["shuffled"]}),
        ("filter_groups", {"apart_start": -0.85, "fall": 0.0}, {said.APART["start"]}),
        ("filter_groups", {"apart_shuffled": -0.8, "fall": 0.0}, {said.APART["shuffled"]}),
        ("filter_groups", {"right": 51.0}, {said.RIGHT}),
        ("larger_groups", {"gain": 0.0}, {said.TIGHTER}),
        ("larger_groups", {"gain": -0.1}, {said.TIGHTER}),
        ("larger_groups", {"fall": -0.1}, {said.FURTHER}),
        ("early_gradients", {"between": 0.35, "shuffled": 0.0}, {said.BETWEEN}),
        ("early_gradients", {"mean_mixed": 0.88, "shuffled": 0.0}, {said.TO_MEAN}),
        ("early_gradients", {"shuffled": 1.0 - 0.02, "mean_mixed": 0.79}, {said.NOT_SHUFFLED}),
    ],
)
def test_rows_that_disagree_are_contradicted_where_they_do(name, changed, against):
    found = outcomes(name, tables_of(name, **changed))
    assert {statement for statement, outcome in found.items() if outcome == "contradicted"} == against


def test_gradients_that_all_filters_share_are_no_direction_of_one():
    """Where different filters agree as well, nothing is confirmed of the chosen one."""
    found = outcomes("early_gradients", tables_of("early_gradients", mixed=0.6))
    assert found[said.BETWEEN] == "too weak to test"


def test_one_stage_that_goes_the_other_way_is_seen():
    tables = planted()
    rows = [
        dataclasses.replace(r, early_share=r.early_share - 0.38)
        if (r.stage, r.width, r.labels) == (3, 32, "true")
        else r
        for r in tables[Moved].rows
    ]
    found = outcomes("early_movement", (Table.of(Moved, rows), tables[Trained]))
    assert {n for n, o in found.items() if o == "contradicted"} == {said.FIRST, said.LESS}


def test_steps_in_random_directions_have_the_share_that_is_the_rival():
    """3 and 17 steps of one length in 20000 dimensions, where they are nearly orthogonal."""
    steps = torch.randn(20, 20_000, generator=KEY.torch())
    early, late = float(steps[:3].sum(0).norm()), float(steps[3:].sum(0).norm())
    assert early / (early + late) == pytest.approx(said.WALK, abs=0.01)


# --- the reported cosines --------------------------------------------------------------------------------------------


@pytest.fixture
def consistent():
    (claim,) = table7.CLAIMS
    return claim


def test_the_printed_cosines_agree_with_each_other(consistent):
    verdict = verdict_of(consistent, Key("verify"))
    assert verdict.as_expected, [(f.statement.name, f.outcome, f.why) for f in verdict.findings]
    assert not verdict.covers  # of numbers alone: nothing is said of filters
    assert blind(consistent, Key("verify")) == []
    assert apart(consistent, Key("verify")) == []


def test_vectors_have_cosines_that_are_consistent_and_give_their_lengths():
    for seed in range(5):
        v = torch.randn(1, 3, 6, generator=(KEY / seed).torch())
        row = resnet.table7(v)[0, :6].numpy()
        seen = table7.sees_consistent(np.stack([row, row]), KEY)
        assert seen[table7.INSIDE] == pytest.approx(np.ones(2), abs=1e-6)
        lengths = (v[0].norm(dim=1) / v[0].sum(0).norm()).tolist()
        assert seen[table7.LENGTHS][:3] == pytest.approx(lengths, abs=1e-5)


@pytest.mark.parametrize("column", range(6))
def test_a_cosine_that_is_a_hundredth_off_is_seen(consistent, column):
    wrong = table7.reported_cosines(KEY) + 0.01 * (np.arange(6) == column)
    says = dataclasses.replace(consistent, settings=wrong)
    found = {f.statement.name: f.outcome for f in verdict_of(says, Key("verify")).findings}
    assert found[table7.INSIDE] == "contradicted"


def test_rounding_is_what_half_a_digit_in_each_can_do():
    """The worst corner of the box of half a digit."""
    for row in table7.reported_cosines(KEY):
        corners = np.array(np.meshgrid(*[[-1, 1]] * 6)).reshape(6, -1).T * table7.HALF_DIGIT
        worst = max(abs(table7.bordered(row + c)[0] - table7.bordered(row)[0]) for c in corners)
        assert table7.rounding(row) == pytest.approx(worst, rel=0.02)


def test_the_loss_of_one_output_is_that_of_two_with_cross_entropy():
    """What the deviations say of the loss."""
    z = torch.randn(7, 2, generator=KEY.torch())
    y = torch.tensor([0, 1, 1, 0, 1, 0, 0])
    one = functional.softplus(-(1.0 - 2.0 * y) * (z[:, 0] - z[:, 1]))
    torch.testing.assert_close(one.mean(), functional.cross_entropy(z, y))
