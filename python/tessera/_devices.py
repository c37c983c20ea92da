"""Arrays in the memory of devices: those of CuPy, PyTorch and others, by DLPack."""

from __future__ import annotations

import sys
from typing import Any, Sequence

import numpy as np

from . import _core
from ._errors import UserError

_HOST = (1, 3)  # DLPack's numbers: the host; pinned memory of the host
_GPU = 2


class DeviceArray:
    """A block in the memory of a device, for whoever takes arrays by DLPack: ``cupy.from_dlpack(x)``,
    ``torch.from_dlpack(x)``. Nothing is copied; the array keeps the tensor. It must not be written to."""

    __slots__ = ("_core", "_slot", "shape", "dtype", "device")

    def __init__(self, core: Any, slot: int, shape: tuple[int, ...], device: int) -> None:
        self._core, self._slot = core, slot
        self.shape, self.dtype, self.device = shape, np.dtype(core.dtype), device

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None) -> Any:
        if copy:
            raise BufferError("a block of a tensor is handed over as it is")
        return _core.to_capsule(self._core, self._slot)  # what was begun on it is over then

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_GPU, self.device) if self.device >= 0 else (_HOST[0], 0)

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype}, shape {self.shape}, on device {self.device})"


def is_there(x: Any) -> bool:
    """Whether it is an array in the memory of a device."""
    return hasattr(x, "__dlpack_device__") and not isinstance(x, np.ndarray) and int(x.__dlpack_device__()[0]) not in _HOST


def tensor_there(x: Any, name: str, tilings: list[list[int]] | None = None) -> Any:
    """The array as a tensor of one tile where it lies, or a copy in tiles."""
    kind, device = (int(n) for n in x.__dlpack_device__())
    shown = f"{name} is a {type(x).__module__}.{type(x).__name__} on a device"
    if kind != _GPU:
        raise UserError(f"{shown} that is no NVIDIA GPU; copy it to the host")
    stream = _core.device_stream(device)  # a BackendUnavailable where this build, or this machine, has no devices
    try:
        capsule = x.__dlpack__(stream=stream or 1)
        _core.synchronize(device)  # what makes the array is over
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        raise UserError(f"{shown}, and it does not hand itself over: {error}") from None
    try:
        return _core.from_capsule(capsule, tilings)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None


def array_like(x: Any, result: Any) -> Any:
    """The only block of a tensor as an array of the library of ``x``; a DeviceArray where that takes none."""
    if result.tile_count != 1:
        raise UserError("the result has no elements: arrays on devices need some")
    slot = 0
    shape = tuple(sum(sizes) for sizes in result.tilings)
    array = DeviceArray(result, slot, shape, _core.device_of(result, slot))
    take = getattr(sys.modules.get(type(x).__module__.split(".")[0]), "from_dlpack", None)
    return array if take is None else take(array)


def tensors_there(operands: Sequence[Any], out: Any) -> list[Any]:
    """Operands of a contraction on a device, which all must be there."""
    from ._tensor import Tensor

    if out is not None:
        raise UserError("out is for arrays of the host; of arrays on a device the result is a new one there")
    for i, x in enumerate(operands):
        if not is_there(x):
            raise UserError(f"operand {i} is a {_core.described(x)} on the host, others are on a device: bring it there")
    return [Tensor(tensor_there(x, f"operand {i}")) for i, x in enumerate(operands)]


def einsum_there(inputs: Sequence[str], output: str, tensors: Sequence[Any], like: Any) -> Any:
    """The result as an array of the library of ``like``."""
    from ._contract import contract

    return array_like(like, contract(f"{','.join(inputs)}->{output}", *tensors)[0]._core)
