"""Means of what was measured on texts, with what is known to have mean 0 taken out, and their standard errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
TEXTS_EACH = 10  # texts a control variate must have, else it is left out


def mean_and_error(values: Values, weights: Values, controls: Values) -> tuple[float, float]:
    """Weighted mean over texts and its standard error, texts being the independent draws.

    values: (T,) a mean over weights[t] trees of each text; controls: (T, C) of mean 0 in expectation. The mean is where a weighted
    least-squares line through the controls crosses 0; the error is the sandwich estimate. Without controls, the plain
    mean.
    """
    texts = len(values)
    kept = min(controls.shape[1], max(texts // TEXTS_EACH - 1, 0))
    x = np.column_stack((np.ones(texts), controls[:, :kept]))
    inverse = np.linalg.inv(x.T @ (weights[:, None] * x))
    fitted = inverse @ x.T @ (weights * values)
    scores = x * (weights * (values - x @ fitted))[:, None]
    covariance = inverse @ (scores.T @ scores) @ inverse * texts / max(texts - x.shape[1], 1)
    return float(fitted[0]), float(np.sqrt(covariance[0, 0]))
