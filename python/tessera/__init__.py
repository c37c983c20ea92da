"""Tessera from Python: einsum of NumPy arrays and of block-sparse tensors.

>>> import numpy as np, tessera as ts
>>> ts.einsum("ij,jk->ik", np.eye(2), np.ones((2, 2)))
array([[1., 1.],
       [1., 1.]])
"""

from ._contract import Plan, Report, Simulation, contract, plan, trace
from ._core import Trace
from ._core import version as __version__
from ._einsum import einsum, tensordot, transpose
from ._energy import energy
from ._core import MatrixReport
from ._errors import BackendUnavailable, BudgetError, Error, InternalError, MachineError, NotConverged, UserError
from ._matrix import exponential, inverse, purify, sign, sqrt_inverse
from ._tensor import Generated, Tensor, TileInfo, dot, generated, load, norm

__all__ = [
    "BackendUnavailable", "BudgetError", "Error", "Generated", "InternalError", "MachineError", "MatrixReport",
    "NotConverged", "Plan", "Report", "Simulation", "Tensor", "TileInfo", "Trace", "UserError", "__version__",
    "contract", "dot", "einsum", "energy", "exponential", "generated", "inverse", "load", "norm", "plan", "purify",
    "sign", "sqrt_inverse", "tensordot", "trace", "transpose",
]
