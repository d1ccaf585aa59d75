"""What is known of data sets without having them, against what their authors published."""

import pytest

from featlearn.data.catalogue import registry
from featlearn.data.folder_sets import folder_sets
from featlearn.data.labelled import _OF_FILES
from featlearn.data.pickles import KINDS

# classes, training images and all images: Krizhevsky 2009; Cohen et al. 2017, Table II
PUBLISHED = {
    "cifar10": (10, 50000, 60000),
    "cifar100": (100, 50000, 60000),
    "cifar100-coarse": (20, 50000, 60000),
    "emnist-balanced": (47, 112800, 131600),
    "emnist-byclass": (62, 697932, 814255),
    "emnist-bymerge": (47, 697932, 814255),
    "emnist-letters": (26, 124800, 145600),
    "emnist-digits": (10, 240000, 280000),
    "emnist-mnist": (10, 60000, 70000),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_classes_and_images_are_as_many_as_were_published(name):
    found = folder_sets()[name]
    classes, train, images = PUBLISHED[name]
    assert f" {classes} " in f" {found.about} "
    assert (found.counts["train"], found.counts["train"] + found.counts["test"]) == (train, images)


def test_edges_at_which_files_of_images_are_read():
    assert {name: edge for name, (edge, _) in _OF_FILES.items()} == {"cinic10": 32, "tiny-imagenet": 64, "gtsrb": 32}


def test_parts_of_a_model_are_those_of_its_packages():
    [source] = registry()["gemma3-270m"].sources
    parts = [
        (package.split("part")[1][0], member[-2:])
        for package, member in zip(source.packages, source.members, strict=True)
    ]
    assert parts == [("1", "00"), ("2", "01"), ("3", "02"), ("4", "03")]
    folders = [member.split("/")[0] for member in source.members]
    assert folders == [package.split("==")[0].replace("-", "_") for package in source.packages]


def test_room_that_a_set_takes():
    assert {name: round(registry()[name].size_mib, 1) for name in ("mnist", "reviews", "gemma3-270m")} == {
        "mnist": 52.4,
        "reviews": 2.6,
        "gemma3-270m": 241.4,
    }


def test_numbers_that_arrays_of_others_may_hold():
    assert sorted(KINDS) == ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
