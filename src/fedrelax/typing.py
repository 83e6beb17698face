"""Names for the types that every layer uses."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd
    from scipy import sparse

    DataFrame = pd.DataFrame
    Index = pd.Index
    Series = pd.Series
    SparseMatrix = sparse.csr_array
else:  # neither is loaded just to name a type
    DataFrame = Index = Series = SparseMatrix = object

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
AnyArray = npt.NDArray[Any]
Label = Hashable
"""A node's name: anything hashable."""
Model = Any
"""A model as users give and get it, fitted or not: an object of any framework."""
