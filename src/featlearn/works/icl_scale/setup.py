"""Instances that claims on in-context regression share: covariances, prompts and task weights, in float64."""

import numpy as np

Array = np.ndarray
