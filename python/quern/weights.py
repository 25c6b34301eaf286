"""Types of weights, and importance matrices."""

from __future__ import annotations

import ctypes
import json
import os
import threading
from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence, Union, cast

from . import _abi

if TYPE_CHECKING:
    from .runtime import Runtime

PathLike = Union[str, bytes, "os.PathLike[str]"]


def _path(path: Optional[PathLike]) -> Optional[bytes]:
    return None if path is None else _abi.encoded(os.fspath(path))


def quantize(runtime: "Runtime", model: PathLike, out: Optional[PathLike], type: Optional[str] = None, *, to: Optional[str] = None,
             target_bits: float = 0, imatrix: Optional[PathLike] = None, tensor_types: Sequence[str] = (), output_type: Optional[str] = None,
             embedding_type: Optional[str] = None, pure: bool = False, allow_requantize: bool = False,
             dry_run: bool = False) -> Dict[str, Any]:
    """Writes a model as a GGUF file with its weights in other types: "Q4_K_M", "Q8_0", "F16" ... `tensor_types` are "REGEX=TYPE". Instead of a
    type, `to` says the form of a directory: "awq", "compressed-tensors", "fp8" or "fp8-channel". Or `target_bits` says how many bits a weight may
    have, and types are those of least error. Gives what quern_quantize reports. With `dry_run` nothing is written. Ctrl-C ends it."""
    stop = threading.Event()
    rules = _abi.array(ctypes.c_char_p, [_abi.encoded(rule) for rule in tensor_types])
    options = _abi.QuantizeOptions(type=_abi.encoded(type), to=_abi.encoded(to), target_bits=target_bits, imatrix=_path(imatrix),
                                   tensor_types=ctypes.cast(rules, ctypes.c_void_p), tensor_type_count=len(rules), output_type=_abi.encoded(output_type),
                                   embedding_type=_abi.encoded(embedding_type), pure=int(pure), allow_requantize=int(allow_requantize),
                                   dry_run=int(dry_run), progress=_abi.ProgressCallback(lambda _user, _done, _total: int(stop.is_set())))
    arguments = (runtime.handle, _path(model), _path(out), ctypes.byref(options))
    return cast(Dict[str, Any], json.loads(_abi.interruptible(lambda: _abi.text("quern_quantize", *arguments), stop.set)))


def imatrix(runtime: "Runtime", model: PathLike, text: Union[str, bytes], out: PathLike, *, dataset: str = "", inputs: Sequence[PathLike] = (),
            chunks: int = 0) -> Dict[str, Any]:
    """Writes how large the inputs of a model's weights are over a text. `inputs` are matrices to which it is added; `chunks` of 512 tokens
    are read at most (0: all). Gives what quern_imatrix reports. Ctrl-C ends it."""
    stop = threading.Event()
    given = _abi.array(ctypes.c_char_p, [_path(path) for path in inputs])
    options = _abi.ImatrixOptions(dataset=_abi.encoded(dataset), inputs=ctypes.cast(given, ctypes.c_void_p), input_count=len(given),
                                  most_chunks=chunks, progress=_abi.ProgressCallback(lambda _user, _done, _total: int(stop.is_set())))
    read = _abi.encoded(text)
    arguments = (runtime.handle, _path(model), read, len(read), ctypes.byref(options), _path(out))
    return cast(Dict[str, Any], json.loads(_abi.interruptible(lambda: _abi.text("quern_imatrix", *arguments), stop.set)))
