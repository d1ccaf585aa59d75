"""Real data: fetched, verified and loaded."""

from featlearn.data.catalogue import Dataset as Dataset
from featlearn.data.catalogue import registry as registry
from featlearn.data.download import cache_root as cache_root
from featlearn.data.download import fetch as fetch
from featlearn.data.download import find as find
from featlearn.data.folder_sets import FolderSet as FolderSet
from featlearn.data.folder_sets import folder_sets as folder_sets
from featlearn.data.images import Images as Images
from featlearn.data.images import digits as digits
from featlearn.data.images import fashion_mnist as fashion_mnist
from featlearn.data.images import mnist as mnist
from featlearn.data.images import read_idx as read_idx
from featlearn.data.labelled import LabelledImages as LabelledImages
from featlearn.data.labelled import labelled_images as labelled_images
from featlearn.errors import DataError as DataError

__all__ = [
    "DataError",
    "Dataset",
    "FolderSet",
    "Images",
    "LabelledImages",
    "cache_root",
    "digits",
    "fashion_mnist",
    "fetch",
    "find",
    "folder_sets",
    "labelled_images",
    "mnist",
    "read_idx",
    "registry",
]
