"""Tensors on a device, and single ops on them."""

from __future__ import annotations

import array
import ctypes
from typing import Any, List, Mapping, Optional, Sequence, Tuple, Union

from . import _abi

_CODES = {"f32": "f", "i32": "i", "i64": "q", "u32": "I", "u8": "B"}


def dtype_id(name: str) -> int:
    dtype = int(_abi.lib.quern_dtype_from_name(name.encode()))
    if dtype == 0:
        raise ValueError(f"'{name}' is not a dtype of this library")
    return dtype


class Tensor(_abi.Handle):
    """Made by Runtime.tensor() and run_op(). One call at a time."""

    def __init__(self, handle: ctypes.c_void_p) -> None:
        super().__init__(handle, _abi.lib.quern_tensor_release)
        info = self._info()
        self.device: str = info.device.decode()
        self.dtype: str = _abi.lib.quern_dtype_name(info.dtype).decode()
        self.shape: Tuple[int, ...] = tuple(info.shape[:info.dims])
        self.nbytes: int = info.bytes

    def _info(self) -> _abi.TensorInfo:
        return _abi.fill(_abi.TensorInfo, "quern_tensor_get_info", self.handle)

    def write(self, data: Union[bytes, bytearray, memoryview, Sequence[float]], offset: int = 0) -> "Tensor":
        """Bytes in the tensor's own dtype from byte `offset`, or numbers for f32, i32, i64, u32 and u8. Returns the tensor."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            if self.dtype not in _CODES:
                raise TypeError(f"numbers cannot be written to a {self.dtype} tensor; write bytes, or copy from an f32 tensor")
            data = array.array(_CODES[self.dtype], data).tobytes()
        raw = bytes(data)
        _abi.call("quern_tensor_write", self.handle, offset, raw, len(raw))
        return self

    def read(self) -> bytes:
        """All of its bytes."""
        buffer = ctypes.create_string_buffer(self.nbytes or 1)
        _abi.call("quern_tensor_read", self.handle, 0, buffer, self.nbytes)
        return buffer.raw[:self.nbytes]

    def tolist(self) -> List[Any]:
        """Its numbers, flat, in row-major order: of an f32, i32, i64, u32 or u8 tensor."""
        if self.dtype not in _CODES:
            raise TypeError(f"a {self.dtype} tensor has no Python numbers; copy it to an f32 tensor")
        return array.array(_CODES[self.dtype], self.read()).tolist()

    def numpy(self) -> Any:
        """A numpy array of its numbers, in its shape: of an f32, i32, i64, u32 or u8 tensor. write() takes such an array's tobytes()."""
        if self.dtype not in _CODES:
            raise TypeError(f"a {self.dtype} tensor has no numpy dtype; copy it to an f32 tensor")
        try:
            import numpy
        except ImportError:
            raise ImportError("numpy() needs the package numpy: pip install numpy") from None
        return numpy.frombuffer(bytearray(self.read()), dtype=_CODES[self.dtype] if self.dtype != "i64" else "i8").reshape(self.shape)

    def copy_to(self, target: "Tensor") -> "Tensor":
        """To another tensor of that shape, on any device and in any dtype. Returns the target."""
        _abi.call("quern_tensor_copy", self.handle, target.handle)
        return target


def run_op(op: str, inputs: Sequence[Optional[Tensor]], attributes: Optional[Mapping[str, float]] = None,
           outputs: Sequence[Optional[Tensor]] = (None,), *, fast: bool = False) -> List[Tensor]:
    """Runs one op of the op set on the device of its tensors. Outputs that are None are made. Returns all outputs."""
    given = _abi.array(ctypes.c_void_p, [None if one is None else one.handle.value for one in inputs])
    results = _abi.array(ctypes.c_void_p, [None if one is None else one.handle.value for one in outputs])
    listed = _abi.array(_abi.OpAttribute, [_abi.OpAttribute(name.encode(), value) for name, value in (attributes or {}).items()])
    call = _abi.OpCall(op=op.encode(), inputs=given, input_count=len(given), outputs=results, output_count=len(results),
                       attributes=listed, attribute_count=len(listed), fast=1 if fast else 0)
    _abi.call("quern_run_op", ctypes.byref(call), None)
    return [Tensor(ctypes.c_void_p(results[at])) if one is None else one for at, one in enumerate(outputs)]
