"""Which rows train and which validate: every class on both sides, groups on one, a column as it says."""

import csv
import dataclasses

import pytest
import torch
from colours import made, pictures_in

from featlearn.apply.domains.splits import ORACLE, SECOND, TEST, Splitting, checked, divide, parted, shared
from featlearn.core import Key, SettingError
from featlearn.data.domains import DomainSet, PixelDomain, TensorDomain, table
from featlearn.data.pictures import Preprocessing
from featlearn.methods.domains import VALIDATION

KEY = Key("tests/domain_splits")


@dataclasses.dataclass(frozen=True)
class Rows:
    """A domain of classes alone."""

    name: str
    y: torch.Tensor
    twins: tuple[str, ...] = ()
    columns: dict = dataclasses.field(default_factory=dict)

    def inputs(self, rows, key):
        return torch.zeros(len(rows), 1)


UNEVEN = torch.tensor([0] * 195 + [1] * 5 + [2] * 2 + [3])


def test_every_class_trains_and_every_class_of_two_validates():
    """A class of 5 in 200 had no validation image in 91 of 300 seeds, one of 1 nothing to train on in 53."""
    domain = Rows("a", UNEVEN)
    for seed in range(100):
        inside, outside = parted(domain, KEY / seed, Splitting())
        assert sorted([*inside.rows.tolist(), *outside.rows.tolist()]) == list(range(203))
        assert torch.bincount(outside.domain.y[outside.rows], minlength=4).tolist() == [39, 1, 1, 0]
        assert torch.bincount(inside.domain.y[inside.rows], minlength=4).tolist() == [156, 4, 1, 1]
    first, again, other = (parted(domain, KEY / seed, Splitting())[1].rows for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_split_of_the_benchmark_is_that_of_the_library():
    from featlearn.methods.domains import split

    domain = Rows("a", UNEVEN)
    for one, other in zip(parted(domain, KEY, Splitting("random")), split(domain, KEY), strict=True):
        assert torch.equal(one.rows, other.rows)


def test_one_image_a_class_still_validates():
    inside, outside = parted(Rows("a", torch.arange(4)), KEY, Splitting())
    assert (len(inside.rows), len(outside.rows)) == (3, 1)


def test_images_of_the_same_bytes_stay_together():
    twins = tuple(f"{i // 3}" for i in range(60))
    domain = Rows("a", torch.tensor([0] * 30 + [1] * 30), twins)
    for seed in range(30):
        inside, outside = parted(domain, KEY / seed, Splitting())
        assert not {twins[i] for i in inside.rows.tolist()} & {twins[i] for i in outside.rows.tolist()}
        assert torch.bincount(domain.y[outside.rows]).tolist() == [6, 6]


def test_a_class_of_one_image_and_many_copies_of_another_trains():
    domain = Rows("a", torch.tensor([0] * 20 + [1] * 10), (*map(str, range(21)), *["copied"] * 9))
    for seed in range(20):
        inside, outside = parted(domain, KEY / seed, Splitting())
        assert set(domain.y[inside.rows].tolist()) == set(domain.y[outside.rows].tolist()) == {0, 1}


def test_groups_stay_together_and_classes_are_alike():
    subjects = tuple(f"s{i % 11}" for i in range(220))
    y = torch.tensor(
        [int(i % 11 >= 8) for i in range(220)]
    )  # three subjects have a disease, all of their images show it
    domain = Rows("a", y, columns={"subject": subjects})
    shares = []
    for seed in range(30):
        inside, outside = parted(domain, KEY / seed, Splitting(group="subject"))
        assert not {subjects[i] for i in inside.rows.tolist()} & {subjects[i] for i in outside.rows.tolist()}
        assert {0, 1} == set(y[inside.rows].tolist()) == set(y[outside.rows].tolist())
        shares.append(len(outside.rows))
    assert set(shares) <= {40, 60}  # two or three of eleven subjects


def test_two_groups_are_enough_and_one_is_refused():
    domain = Rows("a", torch.tensor([0, 0, 1, 1]), columns={"site": ("x", "x", "y", "y")})
    inside, outside = parted(domain, KEY, Splitting(group="site"))
    assert (len(inside.rows), len(outside.rows)) == (2, 2)


# --- tables --------------------------------------------------------------------------------------------------------


@pytest.fixture
def photographed(tmp_path):
    """A table of three domains with columns of cameras and of splits."""
    tree = pictures_in(tmp_path)
    path = tmp_path / "images.csv"
    with open(path, "w", newline="") as f:
        rows = csv.writer(f)
        rows.writerow(["path", "label", "domain", "camera", "part"])
        for i, file in enumerate(sorted(tree.rglob("*.png"))):
            where = file.relative_to(tmp_path)
            part = ["Train", "train", "val", "test", "training"][i % 5]
            rows.writerow([where, file.parent.name, file.parent.parent.name, f"c{i % 4}", part])
    return path


def rows_named(domain, rows, column):
    return [domain.columns[column][i] for i in rows.tolist()]


def test_columns_of_a_table_come_with_its_domains(photographed):
    found = table(photographed, Preprocessing(size=8))
    for domain in found.domains:
        order = sorted(range(20), key=lambda i: str(domain.paths[i]))
        assert len(set(domain.columns["camera"])) == 4
        parts = [domain.columns["part"][i] for i in order]
        assert parts == ["Train", "train", "val", "test", "training"] * 4


def test_a_column_says_what_trains(photographed):
    found = table(photographed, Preprocessing(size=8))
    splitting = checked(Splitting(column="part"), found)
    parts = divide(found, "dusk", 0, splitting)
    for part in parts.training:
        assert {v.casefold() for v in rows_named(part.domain, part.rows, "part")} == {"train", "training"}
        assert len(part.rows) == 12
    for name, value in ((VALIDATION, "val"), (TEST, "test"), (ORACLE, "val")):
        for part in parts.watch[name]:
            assert set(rows_named(part.domain, part.rows, "part")) == {value}
    assert [p.domain.name for p in parts.watch[TEST]] == ["dusk"]


def test_a_column_without_val_and_test(photographed):
    text = photographed.read_text().replace(",val", ",train").replace(",test", ",train")
    photographed.write_text(text)
    found = table(photographed, Preprocessing(size=8))
    parts = divide(found, "dusk", 0, Splitting(column="part"))
    assert [len(p.rows) for p in parts.training] == [16, 16]
    assert [len(p.rows) for p in parts.watch[VALIDATION]] == [4, 4]
    assert sum(len(p.rows) for p in parts.watch[TEST]) == 16


def test_a_second_domain_that_is_held_out(photographed):
    found = table(photographed, Preprocessing(size=8))
    parts = divide(found, "dusk", 0, second="day")
    assert [p.domain.name for p in parts.training] == ["night"]
    assert [p.domain.name for p in parts.watch[VALIDATION]] == ["night"]
    assert [p.domain.name for p in parts.watch[SECOND]] == ["day"]


@pytest.mark.parametrize(
    "splitting, said",
    [
        (Splitting(group="subject"), "group = subject is not allowed: a column of the data; it has camera, part"),
        (Splitting(column="camera"), "one has 'c0'"),
        (Splitting("random", group="camera"), "without split = random"),
        (Splitting(column="part", group="camera"), "without split_column"),
        (Splitting(group="same"), "two or more values in each domain"),
    ],
    ids=str,
)
def test_columns_that_are_no_splits_are_refused(photographed, splitting, said):
    found = table(photographed, Preprocessing(size=8))
    domains = tuple(dataclasses.replace(d, columns={**d.columns, "same": ("x",) * 20}) for d in found.domains)
    found = dataclasses.replace(found, domains=domains) if splitting.group == "same" else found
    with pytest.raises(SettingError) as e:
        checked(splitting, found)
    assert said in str(e.value)
    assert "\n" not in str(e.value)


def test_a_folder_has_no_columns(photographed):
    found, _ = made(photographed.parent / "colours")
    with pytest.raises(SettingError, match=r"only a \.csv file has columns"):
        checked(Splitting(group="camera"), found)
    digits = dataclasses.replace(found, domains=(TensorDomain("a", torch.zeros(2, 1, 1, 1), torch.tensor([0, 1])),))
    with pytest.raises(SettingError, match=r"only a \.csv file has columns"):
        checked(Splitting(group="camera"), digits)


def test_what_a_column_says_is_part_of_what_a_run_is(photographed):
    one = checked(Splitting(group="camera"), table(photographed, Preprocessing(size=8)))
    photographed.write_text(photographed.read_text().replace("c3", "c2"))
    other = checked(Splitting(group="camera"), table(photographed, Preprocessing(size=8)))
    assert one.digest != other.digest


def test_a_copy_of_an_image_does_not_validate_what_it_trained(tmp_path):
    tree = pictures_in(tmp_path)
    for file in sorted((tree / "day" / "red").glob("*.png")):
        (file.parent / f"copy of {file.name}").write_bytes(file.read_bytes())
    found, _ = made(tree)
    parts = divide(found, "night", 0)
    day = found.domain("day")
    seen = {day.twins[i] for i in parts.training[0].rows.tolist()}
    assert not seen & {day.twins[i] for i in parts.watch[VALIDATION][0].rows.tolist()}


# --- groups over domains ---------------------------------------------------------------------------------------------


def people(name, subjects, rows=3):
    """Rows of subjects, half of them of each class."""
    names = tuple(s for s in subjects for _ in range(2 * rows))
    y = torch.tensor([0, 1] * (rows * len(subjects)))
    values = torch.zeros(len(y), 3, 1, 1, dtype=torch.uint8)
    return PixelDomain(name, values, y, Preprocessing(size=8), columns={"subject": names})


def set_of(*domains):
    return DomainSet("people", domains, ("no", "yes"), (3, 1, 1))


def test_a_group_is_on_one_side_over_all_training_domains():
    """Of five subjects in three domains all five trained in one domain and validated in another."""
    subjects = [f"s{i}" for i in range(5)]
    found = set_of(*(people(name, subjects) for name in ("a", "b", "c")))
    for seed in range(20):
        parts = divide(found, "c", seed, Splitting(group="subject"))
        train = {s for p in parts.training for s in rows_named(p.domain, p.rows, "subject")}
        kept = {s for p in parts.watch[VALIDATION] for s in rows_named(p.domain, p.rows, "subject")}
        assert not train & kept
        assert train | kept == set(subjects)
        assert [p.domain.name for p in parts.training] == ["a", "b"]
        assert sum(len(p.rows) for p in (*parts.training, *parts.watch[VALIDATION])) == 60
    (told,) = shared(Splitting(group="subject"), found)
    assert told.startswith("5 of 5 groups of subject are in several domains: s0 (a, b, c), s1 (a, b, c)")
    apart = set_of(people("a", ["s0", "s1"]), people("b", ["t0", "t1"]))
    assert shared(Splitting(group="subject"), apart) == []
    parts = divide(apart, None, 0, Splitting(group="subject"))
    assert all(len(p.rows) for p in parts.training)  # a domain of two groups keeps one to train on


def test_rows_without_a_group_are_no_group():
    found = set_of(people("a", ["s0", "s1", ""]), people("b", ["s0", " "]))
    with pytest.raises(SettingError, match=r"12 of 30 rows have none \(a, b\): give each of them one"):
        checked(Splitting(group="subject"), found)


def test_groups_that_are_not_utf_8_are_groups():
    found = set_of(people("a", ["Ren\udce9", "Ren\udce8"]), people("b", ["x", "y"]))
    assert checked(Splitting(group="subject"), found).digest
