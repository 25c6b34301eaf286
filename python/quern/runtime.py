"""A runtime: the backends and devices that were found."""

from __future__ import annotations

import ctypes
import json
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union, cast

from . import _abi
from .model import Model
from .tensor import Tensor, dtype_id
from .training import Trainer

PathLike = Union[str, bytes, "os.PathLike[str]"]
_LEVELS = {"trace": 1, "debug": 2, "info": 3, "warn": 4, "error": 5, "off": 6}


def version() -> str:
    """Of the library, "0.2.0"."""
    return cast(bytes, _abi.lib.quern_version()).decode()


class Runtime(_abi.Handle):
    """Finds, proves and ranks backends. Settings that are None come from the QUERN_ variables and then from the defaults.

    `log` is called with (level, component, text), possibly from another thread. Functions may be called from any thread.
    """

    def __init__(self, *, backend: Optional[str] = None, backend_disable: Optional[str] = None, device: Optional[str] = None,
                 backend_path: Optional[str] = None, backend_extra_path: Optional[str] = None, memory: Optional[str] = None,
                 fallback: Optional[str] = None, force_kernel: Optional[str] = None, cache_dir: Optional[str] = None,
                 weights_cache: Optional[str] = None, weights_cache_limit: Optional[str] = None, threads: int = 0,
                 deterministic: Optional[bool] = None, allow_dev_plugins: bool = False, probe_in_process: bool = False,
                 ignore_environment: bool = False, log: Optional[Callable[[str, str, str], None]] = None,
                 log_level: Optional[str] = None) -> None:
        e = _abi.encoded
        names = {number: name for name, number in _LEVELS.items()}

        def on_log(_: Any, level: int, component: bytes, text: bytes) -> None:
            if log is not None:
                log(names.get(level, "info"), component.decode("utf-8", "replace"), text.decode("utf-8", "replace"))

        self._log = _abi.LogCallback(on_log) if log is not None else _abi.LogCallback(0)  # lives as long as the runtime
        options = _abi.RuntimeOptions(
            backend=e(backend), backend_disable=e(backend_disable), device=e(device), backend_path=e(backend_path),
            backend_extra_path=e(backend_extra_path), memory=e(memory), fallback=e(fallback), force_kernel=e(force_kernel),
            cache_dir=e(cache_dir), weights_cache=e(weights_cache), weights_cache_limit=e(weights_cache_limit), threads=threads,
            deterministic=0 if deterministic is None else 1 if deterministic else 2, allow_dev_plugins=allow_dev_plugins,
            probe_in_process=probe_in_process, ignore_environment=ignore_environment,
            log_level=0 if log_level is None else _LEVELS[log_level], log=self._log)
        super().__init__(_abi.create("quern_runtime_create", ctypes.byref(options)), _abi.lib.quern_runtime_release)

    def ready(self) -> None:
        """Raises Error (BACKEND_UNAVAILABLE) with reason and remedy where a demand cannot be met or nothing can compute."""
        _abi.call("quern_runtime_ready", self.handle)

    def devices(self) -> List[Dict[str, Any]]:
        """Best first; members as quern_device_entry."""
        with _abi.Handle(_abi.create("quern_runtime_devices", self.handle), _abi.lib.quern_device_list_release) as listed:
            return cast(List[Dict[str, Any]], json.loads(_abi.text("quern_device_list_json", listed.handle)))

    def report(self) -> Dict[str, Any]:
        """What became of each plugin, as quern_load_report_json."""
        with _abi.Handle(_abi.create("quern_runtime_load_report", self.handle), _abi.lib.quern_load_report_release) as report:
            return cast(Dict[str, Any], json.loads(_abi.text("quern_load_report_json", report.handle)))

    def load(self, path: PathLike, *, context: int = 0, sequences: int = 1, exact: bool = False, kv: Optional[str] = None,
             embeddings: bool = False, tokenizer_pre: Optional[str] = None, adapters: Sequence[PathLike] = (),
             progress: Optional[Callable[[int, int], bool]] = None) -> Model:
        """Loads a model file. `adapters`: files that sessions may use at a time, see Model.adapter(). `exact`: f32 activations. `kv`: "f16" or "f32". `tokenizer_pre`: as of Vocabulary. `progress(done_bytes, total_bytes)` returns True to
        go on; it cancels otherwise. Ctrl-C ends it."""
        return Model(self, os.fspath(path), context=context, sequences=sequences, exact=exact, kv=kv, embeddings=embeddings,
                     tokenizer_pre=tokenizer_pre, adapters=adapters, progress=progress)

    def trainer(self, settings: Union[str, Mapping[str, Any]], *, overrides: Sequence[str] = (), base: Optional[PathLike] = None,
                on_warning: Optional[Callable[[str], None]] = None) -> Trainer:
        """A fine-tuning run; see Trainer. Reads base and data, and loads the weights."""
        return Trainer(self, settings, overrides=overrides, base=base, on_warning=on_warning)

    def tensor(self, shape: Sequence[int], dtype: str = "f32", device: Optional[str] = None) -> Tensor:
        """A tensor of zeros on a device ("cpu:0"; None: the best one)."""
        handle = _abi.create("quern_tensor_create", self.handle, _abi.encoded(device), dtype_id(dtype),
                             _abi.array(ctypes.c_int64, shape), len(shape))
        return Tensor(handle)
