"""Models by name, in the cache that the hub's other clients share."""

from __future__ import annotations

import ctypes
import json
from typing import Any, Callable, Dict, List, Optional, cast

from . import _abi


def _options(*, endpoint: Optional[str] = None, hub_cache: Optional[str] = None, cache_dir: Optional[str] = None,
             token: Optional[str] = None, sha256: Optional[str] = None, offline: Optional[bool] = None, tries: int = 0,
             timeout: int = 0, most_bytes: int = 0, least_rate: int = 0, memory_bytes: int = 0) -> _abi.HubOptions:
    e = _abi.encoded
    return _abi.HubOptions(endpoint=e(endpoint), hub_cache=e(hub_cache), cache_dir=e(cache_dir), token=e(token), sha256=e(sha256),
                           offline=0 if offline is None else 1 if offline else 2, tries=tries, timeout=timeout,
                           most_bytes=most_bytes, least_rate=least_rate, memory_bytes=memory_bytes)


def pull(name: str, *, progress: Optional[Callable[[str, int, int, str], bool]] = None, endpoint: Optional[str] = None, hub_cache: Optional[str] = None,
         cache_dir: Optional[str] = None, token: Optional[str] = None, sha256: Optional[str] = None, offline: Optional[bool] = None,
         tries: int = 0, timeout: int = 0, most_bytes: int = 0, least_rate: int = 0, memory_bytes: int = 0) -> str:
    """Downloads "owner/name[:QUANT]" or a URL, unless it is in the cache; gives the path of the file to load.

    `progress(file, done_bytes, total_bytes, waiting)` returns True to go on. Options that are not given come from the environment. Ctrl-C
    ends it; the next pull goes on where this one was."""
    trouble: List[BaseException] = []

    def on_event(_: Any, event: Any) -> int:
        try:
            e = event.contents
            return 0 if progress is None or progress(e.file.decode(), e.done_bytes, e.total_bytes, e.waiting.decode()) else 1
        except BaseException as error:  # it may not cross the library; raised below
            trouble.append(error)
            return 1

    made = _options(endpoint=endpoint, hub_cache=hub_cache, cache_dir=cache_dir, token=token, sha256=sha256, offline=offline, tries=tries,
                    timeout=timeout, most_bytes=most_bytes, least_rate=least_rate, memory_bytes=memory_bytes)
    made.progress = _abi.PullCallback(on_event)  # always: Python sees Ctrl-C when it runs
    try:
        return _abi.text("quern_pull", name.encode(), ctypes.byref(made)).decode("utf-8", "surrogateescape")
    except _abi.Error:
        if trouble:
            raise trouble[0] from None
        raise


def find_model(name: str, *, endpoint: Optional[str] = None, hub_cache: Optional[str] = None,
               cache_dir: Optional[str] = None) -> str:
    """The path of a model in the cache; never asks the network."""
    return _abi.text("quern_find_model", name.encode(), ctypes.byref(_options(endpoint=endpoint, hub_cache=hub_cache, cache_dir=cache_dir))).decode("utf-8", "surrogateescape")


def cached_models(*, endpoint: Optional[str] = None, hub_cache: Optional[str] = None,
                  cache_dir: Optional[str] = None) -> List[Dict[str, Any]]:
    """The models in the caches: name, path, bytes, files, repository, revision, quantisation, source, modified."""
    listed = json.loads(_abi.text("quern_cached_models_json", ctypes.byref(_options(endpoint=endpoint, hub_cache=hub_cache, cache_dir=cache_dir))))
    return cast(List[Dict[str, Any]], listed["models"])


def remove_model(name: str, *, endpoint: Optional[str] = None, hub_cache: Optional[str] = None,
                 cache_dir: Optional[str] = None) -> int:
    """Removes a model from the cache; gives the bytes that became free."""
    freed = ctypes.c_uint64()
    _abi.call("quern_remove_model", name.encode(), ctypes.byref(_options(endpoint=endpoint, hub_cache=hub_cache, cache_dir=cache_dir)), ctypes.byref(freed))
    return freed.value
