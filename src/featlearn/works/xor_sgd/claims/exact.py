"""Names of `works.xor_sgd.setup` for claims that are not yet in the new form."""

from featlearn.works.xor_sgd.setup import (
    ROOT2,
    TAU1,
    TAU2,
    Array,
    Net,
    centres,
    clean,
    clean_push,
    cube,
    first_order,
    gradients,
    heavy_net,
    labels,
    random_net,
    slope,
    true_gradients,
)

__all__ = [
    "ROOT2",
    "TAU1",
    "TAU2",
    "Array",
    "Net",
    "centres",
    "clean",
    "clean_push",
    "cube",
    "first_order",
    "gradients",
    "heavy_net",
    "labels",
    "random_net",
    "slope",
    "true_gradients",
]
