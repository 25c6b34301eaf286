"""Fine-tuning: a run made of settings, and adapters as files."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union, cast

from . import _abi

if TYPE_CHECKING:
    from .runtime import Runtime

PathLike = Union[str, bytes, "os.PathLike[str]"]
_ENDS = {1: "done", 2: "stopped", 3: "early_stopping", 4: "watchdog"}


@dataclasses.dataclass(frozen=True)
class TrainingStep:
    """Behind a step of the optimiser; members as quern_training_step."""

    step: int
    steps: int
    epoch: float
    loss: float
    gradient_norm: float
    rate: float
    tokens: int
    labels: int
    skipped: int
    seconds: float
    memory_bytes: int


@dataclasses.dataclass(frozen=True)
class TrainingEvaluation:
    """A look at the validation set; `loss` is the mean over all its labels."""

    step: int
    loss: float
    labels: int
    best: bool
    seconds: float


def _evaluation(found: Any) -> TrainingEvaluation:
    return TrainingEvaluation(found.step, found.loss, found.labels, bool(found.best), found.seconds)


def _path(path: Optional[PathLike]) -> Optional[bytes]:
    return None if path is None else _abi.encoded(os.fspath(path))


def _opened(settings: Union[str, Mapping[str, Any]], overrides: Sequence[str]) -> _abi.Handle:
    text = settings if isinstance(settings, str) else json.dumps(settings)
    words = [_abi.encoded(word) for word in overrides]
    given = _abi.array(ctypes.c_char_p, words)
    options = _abi.TrainingOptions(overrides=ctypes.cast(given, ctypes.c_void_p), override_count=len(words))
    return _abi.Handle(_abi.create("quern_training_open", text.encode("utf-8"), ctypes.byref(options)), _abi.lib.quern_training_release)


class Trainer(_abi.Handle):
    """A fine-tuning run: the base's weights, what is trained, and the examples. One call at a time.

    `settings` is a mapping with the names of docs/guides/fine-tuning.md, or JSON text. `overrides` are "key=value". `base` is the path of the
    base model; without it base_model of the settings. `on_warning(sentence)` hears of examples that were left out.
    """

    def __init__(self, runtime: "Runtime", settings: Union[str, Mapping[str, Any]], *, overrides: Sequence[str] = (),
                 base: Optional[PathLike] = None, on_warning: Optional[Callable[[str], None]] = None) -> None:
        with _opened(settings, overrides) as training:
            callbacks, _kept = _callbacks(None, None, None, on_warning, [])
            handle = _abi.create("quern_trainer_create", runtime.handle, training.handle, _path(base), ctypes.byref(callbacks))
        super().__init__(handle, _abi.lib.quern_trainer_release)

    def run(self, steps: int = 0, *, on_step: Optional[Callable[[TrainingStep], Optional[bool]]] = None,
            on_evaluation: Optional[Callable[[TrainingEvaluation], Optional[bool]]] = None,
            on_save: Optional[Callable[[int, str], None]] = None, on_warning: Optional[Callable[[str], None]] = None) -> str:
        """Trains `steps` steps, or all that are left. Returns "done", "stopped", "early_stopping" or "watchdog". A callback that returns False
        ends the run behind its step, with a checkpoint; so does Ctrl-C. What a callback raises is raised here."""
        failed: List[BaseException] = []
        callbacks, _kept = _callbacks(on_step, on_evaluation, on_save, on_warning, failed)
        end = ctypes.c_uint32()
        handle = self.handle

        def work() -> None:
            _abi.call("quern_trainer_run", handle, steps, ctypes.byref(callbacks), ctypes.byref(end))

        _abi.interruptible(work, self.cancel)
        if failed:
            raise failed[0]
        return _ENDS.get(end.value, "stopped")

    def cancel(self) -> None:
        """From any thread: run() ends behind the step in flight, with a checkpoint."""
        _abi.lib.quern_trainer_cancel(self.handle)

    def evaluate(self) -> TrainingEvaluation:
        """The loss of the validation set now."""
        return _evaluation(_abi.fill(_abi.TrainingEvaluation, "quern_trainer_evaluate", self.handle))

    def save(self) -> str:
        """Writes a checkpoint into output_dir and returns its folder."""
        return os.fsdecode(_abi.text("quern_trainer_save", self.handle))

    def write_result(self) -> None:
        """Writes the adapter, or the model, into output_dir."""
        _abi.call("quern_trainer_write_result", self.handle)

    def info(self) -> Dict[str, Any]:
        """What the run has before it and behind it, as quern_trainer_json."""
        return cast(Dict[str, Any], json.loads(_abi.text("quern_trainer_json", self.handle)))

    def start_trace(self) -> None:
        """Records every micro-batch, update and evaluation from here on."""
        _abi.call("quern_trainer_trace_start", self.handle)

    def take_trace(self) -> Dict[str, Any]:
        """Ends the recording: an object in the Chrome trace event format, with the "nodes" and "kernels" of all graphs beside it."""
        return cast(Dict[str, Any], json.loads(_abi.text("quern_trainer_trace_json", self.handle)))

    def example(self, index: int) -> Dict[str, Any]:
        """An example's source, ids, weights, and its text in pieces that count or do not."""
        return cast(Dict[str, Any], json.loads(_abi.text("quern_trainer_example_json", self.handle, index)))


def _callbacks(on_step: Optional[Callable[[TrainingStep], Optional[bool]]], on_evaluation: Optional[Callable[[TrainingEvaluation], Optional[bool]]],
               on_save: Optional[Callable[[int, str], None]], on_warning: Optional[Callable[[str], None]],
               failed: List[BaseException]) -> Tuple[Any, List[Any]]:
    """The C struct, and what has to live as long. An exception is kept in `failed`, and of a step or an evaluation ends the run."""

    def guarded(function: Callable[[], Any]) -> int:
        try:
            return 1 if function() is False else 0
        except BaseException as error:  # raised by run()
            failed.append(error)
            return 1

    def step(_: Any, found: Any) -> int:
        if on_step is None:
            return 0
        told, members = on_step, found.contents
        made = TrainingStep(*(getattr(members, field.name) for field in dataclasses.fields(TrainingStep)))
        return guarded(lambda: told(made))

    def evaluation(_: Any, found: Any) -> int:
        if on_evaluation is None:
            return 0
        told, made = on_evaluation, _evaluation(found.contents)
        return guarded(lambda: told(made))

    def saved(_: Any, number: int, folder: bytes) -> None:
        if on_save is not None:
            told = on_save
            guarded(lambda: told(number, os.fsdecode(folder)))

    def warning(_: Any, sentence: bytes) -> None:
        if on_warning is not None:
            told = on_warning
            guarded(lambda: told(sentence.decode("utf-8", "replace")))

    kept = [_abi.StepCallback(step), _abi.EvaluationCallback(evaluation), _abi.SavedCallback(saved), _abi.WarningCallback(warning)]
    return _abi.TrainingCallbacks(step=kept[0], evaluation=kept[1], saved=kept[2], warning=kept[3]), kept


def _merge_adapter(adapter: Union[PathLike, Tuple[PathLike, float]]) -> _abi.MergeAdapter:
    path, scale = adapter if isinstance(adapter, tuple) else (adapter, 1.0)
    return _abi.MergeAdapter(path=_path(path), scale=scale)


def evaluate_data(runtime: "Runtime", settings: Union[str, Mapping[str, Any]], *, overrides: Sequence[str] = (), base: Optional[PathLike] = None,
                  adapter: Union[None, PathLike, Tuple[PathLike, float]] = None,
                  on_warning: Optional[Callable[[str], None]] = None) -> Dict[str, Any]:
    """The loss of a data set over its tokens that count, as quern_training_evaluate_json: test_datasets or val_set_size of the settings, without
    them datasets. `adapter` is a path, or (path, scale); without it the base alone computes. Ctrl-C ends it."""
    failed: List[BaseException] = []
    callbacks, _kept = _callbacks(None, None, None, on_warning, failed)
    stop = threading.Event()
    callbacks.progress = _abi.ProgressCallback(lambda _user, _done, _total: int(stop.is_set()))
    given = None if adapter is None else ctypes.byref(_merge_adapter(adapter))
    with _opened(settings, overrides) as training:
        arguments = (runtime.handle, training.handle, _path(base), given, ctypes.byref(callbacks))
        found = _abi.interruptible(lambda: _abi.text("quern_training_evaluate_json", *arguments), stop.set)
    if failed:
        raise failed[0]
    return cast(Dict[str, Any], json.loads(found))


def merge(runtime: "Runtime", base: PathLike, adapters: Sequence[Union[PathLike, Tuple[PathLike, float]]], out: PathLike, *,
          type: Optional[str] = None) -> None:
    """Writes the base with adapters added to its weights, as a GGUF file. An adapter is a path, or (path, scale). `type`: "keep", "f32", "f16",
    "bf16" or a block format; without it adapted matrices become f16."""
    given = [_merge_adapter(adapter) for adapter in adapters]
    dtype = 0
    if type is not None and type != "keep":
        dtype = int(_abi.lib.quern_dtype_from_name(type.encode()))
        if dtype == 0:
            raise ValueError(f"'{type}' is no format of weights")
    options = _abi.MergeOptions(type=dtype, keep=1 if type == "keep" else 0)
    _abi.call("quern_merge", runtime.handle, _abi.encoded(os.fspath(base)), _abi.array(_abi.MergeAdapter, given), len(given),
              ctypes.byref(options), _abi.encoded(os.fspath(out)))


def export_adapter(adapter: PathLike, base: PathLike, out: PathLike, *, format: str = "peft", type: str = "f32") -> None:
    """Writes an adapter as a PEFT folder ("peft") or as llama.cpp's GGUF adapter ("gguf"); numbers are f32, f16 or bf16."""
    formats = {"peft": 0, "gguf": 1}
    if format not in formats:
        raise ValueError(f"'{format}' is no kind of adapter: peft or gguf")
    dtype = int(_abi.lib.quern_dtype_from_name(type.encode()))
    _abi.call("quern_export_adapter", _abi.encoded(os.fspath(adapter)), _abi.encoded(os.fspath(base)), formats[format], dtype,
              _abi.encoded(os.fspath(out)))
