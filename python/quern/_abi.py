"""quern.h as ctypes: its structs, its functions, and what every call does with a status. A test compares the layouts with a C compiler's."""

from __future__ import annotations

import ctypes
import os
import pathlib
import threading
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_uint32,
                    c_uint64, c_void_p, sizeof)
from typing import Any, Callable, Optional, Type, TypeVar, Union, overload

from ._errors import Error as Error

LogCallback = CFUNCTYPE(None, c_void_p, c_uint32, c_char_p, c_char_p)
ProgressCallback = CFUNCTYPE(c_int, c_void_p, c_uint64, c_uint64)


class Sized(Structure):
    """A struct that begins with its size; the size is filled in."""

    def __init__(self, **members: Any) -> None:
        super().__init__(struct_size=sizeof(self), **members)


class RuntimeOptions(Sized):
    _fields_ = [("struct_size", c_uint64), ("backend", c_char_p), ("backend_disable", c_char_p), ("device", c_char_p),
                ("backend_path", c_char_p), ("backend_extra_path", c_char_p), ("memory", c_char_p), ("fallback", c_char_p),
                ("force_kernel", c_char_p), ("cache_dir", c_char_p), ("threads", c_uint32), ("deterministic", c_uint32),
                ("allow_dev_plugins", c_uint32), ("ignore_environment", c_uint32), ("log_level", c_uint32), ("reserved", c_uint32),
                ("log", LogCallback), ("log_user", c_void_p), ("weights_cache", c_char_p), ("weights_cache_limit", c_char_p),
                ("probe_in_process", c_uint32), ("reserved2", c_uint32)]


class ModelOptions(Sized):
    _fields_ = [("struct_size", c_uint64), ("context", c_uint64), ("sequences", c_uint32), ("activations", c_uint32), ("kv", c_uint32),
                ("reserved", c_uint32), ("progress", ProgressCallback), ("progress_user", c_void_p), ("embeddings", c_uint32),
                ("reserved2", c_uint32), ("tokenizer_pre", c_char_p), ("adapters", POINTER(c_char_p)),
                ("adapter_count", c_uint64)]


class VocabularyOptions(Sized):
    _fields_ = [("struct_size", c_uint64), ("tokenizer_pre", c_char_p)]


class ModelInfo(Sized):
    _fields_ = [("struct_size", c_uint64), ("path", c_char_p), ("architecture", c_char_p), ("name", c_char_p), ("weights", c_char_p),
                ("chat_template", c_char_p), ("parameters", c_uint64), ("file_bytes", c_uint64), ("context_length", c_uint64),
                ("context", c_uint64), ("vocabulary_size", c_uint32), ("hidden", c_uint32), ("layers", c_uint32), ("heads", c_uint32),
                ("kv_heads", c_uint32), ("head_size", c_uint32), ("feed_forward", c_uint32), ("kv", c_uint32), ("activations", c_uint32),
                ("devices", c_uint32), ("backend", c_char_p), ("device", c_char_p), ("device_description", c_char_p),
                ("kernels", c_char_p)]


class Message(Sized):
    _fields_ = [("struct_size", c_uint64), ("role", c_char_p), ("content", c_char_p), ("content_size", c_uint64)]


class SessionOptions(Sized):
    _fields_ = [("struct_size", c_uint64), ("context", c_uint64), ("sequences", c_uint32), ("reserved", c_uint32)]


class LogitBias(Structure):
    _fields_ = [("token", c_int32), ("bias", c_float)]


class SamplingOptions(Sized):
    _fields_ = [("struct_size", c_uint64), ("temperature", c_float), ("top_p", c_float), ("min_p", c_float), ("repeat_penalty", c_float),
                ("presence_penalty", c_float), ("frequency_penalty", c_float), ("penalty_window", c_uint32), ("top_k", c_uint32),
                ("seed", c_uint64), ("bias", POINTER(LogitBias)), ("bias_count", c_uint64)]


class TokenEvent(Structure):
    _fields_ = [("struct_size", c_uint64), ("request", c_uint32), ("token", c_int32), ("piece", c_void_p), ("piece_size", c_uint64),
                ("logprob", c_float), ("top_count", c_uint32), ("top", POINTER(c_int32)), ("top_logprobs", POINTER(c_float))]


TokenCallback = CFUNCTYPE(c_int, c_void_p, POINTER(TokenEvent))


class Request(Sized):
    _fields_ = [("struct_size", c_uint64), ("prompt", POINTER(c_int32)), ("prompt_count", c_uint64), ("sequence", c_uint32),
                ("flags", c_uint32), ("sampling", POINTER(SamplingOptions)), ("max_tokens", c_uint64), ("stop", POINTER(c_char_p)),
                ("stop_count", c_uint64), ("logprobs", c_uint32), ("ignore_end", c_uint32), ("on_token", TokenCallback),
                ("user", c_void_p)]


class AnswerInfo(Sized):
    _fields_ = [("struct_size", c_uint64), ("ids", POINTER(c_int32)), ("id_count", c_uint64), ("text", c_void_p), ("text_size", c_uint64),
                ("finish", c_uint32), ("reserved", c_uint32), ("prompt_tokens", c_uint64), ("reused_tokens", c_uint64),
                ("prompt_seconds", c_double), ("decode_seconds", c_double), ("logprobs", POINTER(c_float))]


class EvaluationInfo(Sized):
    _fields_ = [("struct_size", c_uint64), ("count", c_uint64), ("nll_sum", c_double), ("argmax", POINTER(c_int32)),
                ("margin", POINTER(c_float)), ("nll", POINTER(c_float)), ("logits", POINTER(c_float)), ("logit_count", c_uint64),
                ("seconds", c_double)]


class TensorInfo(Sized):
    _fields_ = [("struct_size", c_uint64), ("device", c_char_p), ("dtype", c_uint32), ("dims", c_uint32), ("shape", POINTER(c_int64)),
                ("elements", c_uint64), ("bytes", c_uint64)]


class OpAttribute(Structure):
    _fields_ = [("name", c_char_p), ("value", c_double)]


class OpCall(Sized):
    _fields_ = [("struct_size", c_uint64), ("op", c_char_p), ("inputs", POINTER(c_void_p)), ("input_count", c_uint64),
                ("outputs", POINTER(c_void_p)), ("output_count", c_uint64), ("attributes", POINTER(OpAttribute)),
                ("attribute_count", c_uint64), ("fast", c_uint32), ("reserved", c_uint32)]


class EstimateOptions(Sized):
    _fields_ = [("struct_size", c_uint64), ("context", c_uint64), ("sequences", c_uint32), ("activations", c_uint32), ("kv", c_uint32),
                ("reserved", c_uint32), ("adapters", c_void_p), ("adapter_count", c_uint64)]


class EstimateInfo(Sized):
    _fields_ = [("struct_size", c_uint64), ("parameters", c_uint64), ("context", c_uint64), ("weights_bytes", c_uint64),
                ("kv_bytes", c_uint64), ("kv_bytes_f16", c_uint64), ("kv_bytes_f32", c_uint64), ("scratch_bytes", c_uint64),
                ("overhead_bytes", c_uint64), ("total_bytes", c_uint64), ("available_bytes", c_uint64), ("scratch_known", c_uint32),
                ("fits", c_uint32), ("dtypes", c_uint32), ("reserved", c_uint32), ("adapter_bytes", c_uint64)]


class PullEvent(Structure):
    _fields_ = [("struct_size", c_uint64), ("file", c_char_p), ("done_bytes", c_uint64), ("total_bytes", c_uint64),
                ("waiting", c_char_p)]


PullCallback = CFUNCTYPE(c_int, c_void_p, POINTER(PullEvent))


class HubOptions(Sized):
    _fields_ = [("struct_size", c_uint64), ("endpoint", c_char_p), ("hub_cache", c_char_p), ("cache_dir", c_char_p), ("token", c_char_p),
                ("sha256", c_char_p), ("offline", c_uint32), ("tries", c_uint32), ("timeout", c_uint32), ("ignore_environment", c_uint32),
                ("progress", PullCallback), ("progress_user", c_void_p), ("most_bytes", c_uint64), ("least_rate", c_uint64),
                ("memory_bytes", c_uint64)]


class TrainingOptions(Sized):
    _fields_ = [("struct_size", c_uint64), ("overrides", c_void_p), ("override_count", c_uint64), ("places", c_char_p)]


class TrainingStep(Sized):
    _fields_ = [("struct_size", c_uint64), ("step", c_uint64), ("steps", c_uint64), ("epoch", c_double), ("loss", c_double),
                ("gradient_norm", c_double), ("rate", c_double), ("tokens", c_uint64), ("labels", c_uint64), ("skipped", c_uint64),
                ("seconds", c_double), ("memory_bytes", c_uint64)]


class TrainingEvaluation(Sized):
    _fields_ = [("struct_size", c_uint64), ("step", c_uint64), ("loss", c_double), ("labels", c_uint64), ("best", c_uint32),
                ("reserved", c_uint32), ("seconds", c_double)]


StepCallback = CFUNCTYPE(c_int, c_void_p, POINTER(TrainingStep))
EvaluationCallback = CFUNCTYPE(c_int, c_void_p, POINTER(TrainingEvaluation))
SavedCallback = CFUNCTYPE(None, c_void_p, c_uint64, c_char_p)
WarningCallback = CFUNCTYPE(None, c_void_p, c_char_p)


class TrainingCallbacks(Sized):
    _fields_ = [("struct_size", c_uint64), ("user", c_void_p), ("step", StepCallback), ("evaluation", EvaluationCallback),
                ("saved", SavedCallback), ("warning", WarningCallback), ("progress", ProgressCallback)]


class MergeAdapter(Sized):
    _fields_ = [("struct_size", c_uint64), ("path", c_char_p), ("scale", c_double)]


class MergeOptions(Sized):
    _fields_ = [("struct_size", c_uint64), ("type", c_uint32), ("keep", c_uint32)]


class ConvertOptions(Sized):
    _fields_ = [("struct_size", c_uint64), ("type", c_uint32), ("vocabulary_only", c_uint32), ("shard_bytes", c_uint64)]


class QuantizeOptions(Sized):
    _fields_ = [("struct_size", c_uint64), ("type", c_char_p), ("imatrix", c_char_p), ("tensor_types", c_void_p), ("tensor_type_count", c_uint64),
                ("output_type", c_char_p), ("embedding_type", c_char_p), ("pure", c_uint32), ("allow_requantize", c_uint32),
                ("dry_run", c_uint32), ("reserved", c_uint32), ("progress", ProgressCallback), ("progress_user", c_void_p), ("to", c_char_p),
                ("target_bits", c_double)]


class ImatrixOptions(Sized):
    _fields_ = [("struct_size", c_uint64), ("dataset", c_char_p), ("inputs", c_void_p), ("input_count", c_uint64), ("most_chunks", c_uint64),
                ("progress", ProgressCallback), ("progress_user", c_void_p)]


class AdapterInfo(Sized):
    _fields_ = [("struct_size", c_uint64), ("path", c_char_p), ("base_model", c_char_p), ("parameters", c_uint64), ("rank", c_uint64),
                ("matrices", c_uint64), ("alpha", c_double), ("rslora", c_uint32), ("reserved", c_uint32)]


# Structs by their names in quern.h, for the test of their layouts.
STRUCTS = {"quern_runtime_options": RuntimeOptions, "quern_model_options": ModelOptions,
           "quern_vocabulary_options": VocabularyOptions, "quern_model_info": ModelInfo,
           "quern_message": Message, "quern_session_options": SessionOptions, "quern_logit_bias": LogitBias,
           "quern_sampling": SamplingOptions, "quern_token_event": TokenEvent, "quern_request": Request,
           "quern_answer_info": AnswerInfo, "quern_evaluation_info": EvaluationInfo, "quern_tensor_info": TensorInfo,
           "quern_op_attribute": OpAttribute, "quern_op_call": OpCall, "quern_estimate_options": EstimateOptions,
           "quern_estimate_info": EstimateInfo, "quern_pull_event": PullEvent, "quern_hub_options": HubOptions,
           "quern_training_options": TrainingOptions, "quern_training_step": TrainingStep,
           "quern_training_evaluation": TrainingEvaluation, "quern_training_callbacks": TrainingCallbacks,
           "quern_merge_adapter": MergeAdapter, "quern_merge_options": MergeOptions, "quern_convert_options": ConvertOptions,
           "quern_quantize_options": QuantizeOptions, "quern_imatrix_options": ImatrixOptions, "quern_adapter_info": AdapterInfo}

# What the functions that return a status take. A handle or an out parameter is a pointer.
_STATUS: "dict[str, list[Any]]" = {
    "quern_runtime_create": [c_void_p, c_void_p], "quern_runtime_ready": [c_void_p], "quern_runtime_devices": [c_void_p, c_void_p],
    "quern_runtime_load_report": [c_void_p, c_void_p], "quern_load_report_json": [c_void_p, c_void_p],
    "quern_load_report_words": [c_void_p, c_void_p], "quern_device_list_json": [c_void_p, c_void_p],
    "quern_vocabulary_open_with": [c_char_p, c_void_p, c_void_p], "quern_show_json": [c_char_p, c_void_p],
    "quern_tokenize": [c_void_p, c_char_p, c_uint64, c_uint32, c_void_p, c_uint64, c_void_p],
    "quern_detokenize": [c_void_p, c_void_p, c_uint64, c_uint32, c_void_p, c_uint64, c_void_p],
    "quern_vocabulary_set_template_seconds": [c_void_p, c_double],
    "quern_chat_from_json": [c_char_p, c_uint64, c_void_p], "quern_chat_render": [c_void_p, c_void_p, c_uint32, c_void_p],
    "quern_tokenize_chat": [c_void_p, c_char_p, c_uint64, c_uint32, c_void_p, c_uint64, c_void_p],
    "quern_tokenize_rendered": [c_void_p, c_void_p, c_uint32, c_void_p, c_uint64, c_void_p],
    "quern_model_load": [c_void_p, c_char_p, c_void_p, c_void_p], "quern_model_get_info": [c_void_p, c_void_p],
    "quern_model_placement_json": [c_void_p, c_void_p], "quern_model_plan_json": [c_void_p, c_void_p],
    "quern_session_create": [c_void_p, c_void_p, c_void_p],
    "quern_sequence_length": [c_void_p, c_uint32, c_void_p], "quern_sequence_truncate": [c_void_p, c_uint32, c_uint64],
    "quern_sequence_copy": [c_void_p, c_uint32, c_uint32], "quern_generate": [c_void_p, c_void_p, c_uint64, c_void_p],
    "quern_generation_answer": [c_void_p, c_uint64, c_void_p],
    "quern_generation_top": [c_void_p, c_uint64, c_uint64, c_void_p, c_void_p, c_void_p],
    "quern_evaluate": [c_void_p, c_uint32, c_void_p, c_uint64, c_uint32, c_void_p],
    "quern_evaluate_with": [c_void_p, c_uint32, c_void_p, c_uint64, c_void_p, c_void_p], "quern_usable_processors": [c_void_p], "quern_evaluation_get_info": [c_void_p, c_void_p],
    "quern_embed": [c_void_p, c_uint32, c_void_p, c_uint64, c_uint32, c_uint32, c_void_p, c_uint64, c_void_p],
    "quern_session_save": [c_void_p, c_void_p, c_uint64, c_void_p], "quern_session_save_file": [c_void_p, c_char_p],
    "quern_session_restore": [c_void_p, c_void_p, c_uint64], "quern_session_restore_file": [c_void_p, c_char_p],
    "quern_session_trace_start": [c_void_p], "quern_session_trace_json": [c_void_p, c_void_p],
    "quern_session_statistics": [c_void_p, c_void_p], "quern_statistics_json": [c_void_p, c_void_p],
    "quern_tensor_create": [c_void_p, c_char_p, c_uint32, c_void_p, c_uint32, c_void_p], "quern_tensor_get_info": [c_void_p, c_void_p],
    "quern_tensor_write": [c_void_p, c_uint64, c_void_p, c_uint64], "quern_tensor_read": [c_void_p, c_uint64, c_void_p, c_uint64],
    "quern_tensor_copy": [c_void_p, c_void_p], "quern_run_op": [c_void_p, c_void_p],
    "quern_estimate_file": [c_void_p, c_char_p, c_void_p, c_void_p], "quern_estimate_get_info": [c_void_p, c_void_p],
    "quern_pull": [c_char_p, c_void_p, c_void_p], "quern_find_model": [c_char_p, c_void_p, c_void_p],
    "quern_cached_models_json": [c_void_p, c_void_p], "quern_remove_model": [c_char_p, c_void_p, c_void_p],
    "quern_training_open": [c_char_p, c_void_p, c_void_p], "quern_training_estimate_json": [c_void_p, c_void_p, c_char_p, c_void_p, c_void_p],
    "quern_training_evaluate_json": [c_void_p, c_void_p, c_char_p, c_void_p, c_void_p, c_void_p],
    "quern_trainer_create": [c_void_p, c_void_p, c_char_p, c_void_p, c_void_p],
    "quern_trainer_run": [c_void_p, c_uint64, c_void_p, c_void_p], "quern_trainer_evaluate": [c_void_p, c_void_p],
    "quern_trainer_save": [c_void_p, c_void_p], "quern_trainer_write_result": [c_void_p], "quern_trainer_json": [c_void_p, c_void_p],
    "quern_trainer_trace_start": [c_void_p], "quern_trainer_trace_json": [c_void_p, c_void_p],
    "quern_trainer_check_gradients_json": [c_void_p, c_void_p], "quern_trainer_example_json": [c_void_p, c_uint64, c_void_p],
    "quern_merge": [c_void_p, c_char_p, c_void_p, c_uint64, c_void_p, c_char_p],
    "quern_quantize": [c_void_p, c_char_p, c_char_p, c_void_p, c_void_p],
    "quern_imatrix": [c_void_p, c_char_p, c_char_p, c_uint64, c_void_p, c_char_p, c_void_p],
    "quern_adapter_load": [c_void_p, c_char_p, c_void_p], "quern_adapter_get_info": [c_void_p, c_void_p],
    "quern_session_use_adapter": [c_void_p, c_uint32, c_void_p, c_double],
    "quern_export_adapter": [c_char_p, c_char_p, c_uint32, c_uint32, c_char_p],
    "quern_convert": [c_void_p, c_char_p, c_char_p, c_void_p],
}
# Functions that do not return a status: what they return, and what they take.
_OTHER: "dict[str, tuple[Any, list[Any]]]" = {
    "quern_version": (c_char_p, []), "quern_last_error": (c_char_p, []), "quern_status_name": (c_char_p, [c_int]),
    "quern_text_data": (c_void_p, [c_void_p]), "quern_text_size": (c_uint64, [c_void_p]), "quern_finish_name": (c_char_p, [c_uint32]),
    "quern_model_vocabulary": (c_void_p, [c_void_p]), "quern_vocabulary_size": (c_uint32, [c_void_p]),
    "quern_vocabulary_bos": (c_int32, [c_void_p]), "quern_vocabulary_eos": (c_int32, [c_void_p]),
    "quern_vocabulary_is_end": (c_int, [c_void_p, c_int32]), "quern_vocabulary_chat_template": (c_char_p, [c_void_p]),
    "quern_vocabulary_warning": (c_char_p, [c_void_p]),
    "quern_dtype_name": (c_char_p, [c_uint32]), "quern_dtype_from_name": (c_uint32, [c_char_p]), "quern_cancel": (None, [c_void_p]),
    "quern_trainer_cancel": (None, [c_void_p]),
}
_RELEASED = ("text", "runtime", "load_report", "device_list", "vocabulary", "chat", "model", "session", "generation", "evaluation", "statistics",
             "tensor", "estimate", "training", "trainer", "adapter")


def _library_name() -> str:
    """QUERN_LIBRARY, or the library that a platform wheel has, or the system's."""
    own = pathlib.Path(__file__).with_name("_native") / "lib" / "libquern.so.1"
    return os.environ.get("QUERN_LIBRARY") or (str(own) if own.exists() else "libquern.so.1")


def _load() -> ctypes.CDLL:
    name = _library_name()
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise ImportError(f"{name} cannot be loaded: {error}; install libquern1, or name the file in QUERN_LIBRARY") from None
    for function, (result, arguments) in _OTHER.items():
        getattr(library, function).restype = result
        getattr(library, function).argtypes = arguments
    for function, arguments in _STATUS.items():
        getattr(library, function).restype = c_int
        getattr(library, function).argtypes = arguments
    for noun in _RELEASED:
        getattr(library, f"quern_{noun}_release").restype = None
        getattr(library, f"quern_{noun}_release").argtypes = [c_void_p]
    return library


lib = _load()


def check(status: int) -> None:
    """Raises Error where a call did not succeed."""
    if status != 0:
        name = lib.quern_status_name(status).decode()
        raise Error(name[len("QUERN_"):] if name.startswith("QUERN_") else name, lib.quern_last_error().decode("utf-8", "replace"))


def call(function: str, *arguments: Any) -> None:
    check(getattr(lib, function)(*arguments))


def create(function: str, *arguments: Any) -> c_void_p:
    """Calls function(arguments..., &handle) and gives the handle."""
    handle = c_void_p()
    call(function, *arguments, byref(handle))
    return handle


S = TypeVar("S", bound=Sized)


def fill(kind: Type[S], function: str, *arguments: Any) -> S:
    """Calls function(arguments..., &struct) and gives the struct."""
    made = kind()
    call(function, *arguments, byref(made))
    return made


T = TypeVar("T")


def interruptible(work: Callable[[], T], cancel: Callable[[], None]) -> T:
    """work(), which Ctrl-C ends: Python looks at signals on the main thread only, and not inside the library. So another thread works while
    this one waits. After KeyboardInterrupt the work is cancelled, and over before the exception leaves. On other threads simply work()."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    made: "list[T]" = []
    failed: "list[BaseException]" = []
    done = threading.Event()

    def run() -> None:
        try:
            made.append(work())
        except BaseException as error:  # raised by the thread that waits
            failed.append(error)
        finally:
            done.set()

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    try:
        done.wait()
    except BaseException:
        while not done.is_set():
            try:
                cancel()  # again and again: one that comes before the call begins is forgotten
                done.wait(0.05)
            except KeyboardInterrupt:
                pass  # pressed again; it is ending already
        worker.join()
        raise
    worker.join()
    if failed:
        raise failed[0]
    return made[0]


def bytes_of(handle: c_void_p) -> bytes:
    """The bytes of a quern_text."""
    return ctypes.string_at(lib.quern_text_data(handle), lib.quern_text_size(handle))


def text(function: str, *arguments: Any) -> bytes:
    """Calls function(arguments..., &text), and gives its bytes."""
    handle = create(function, *arguments)
    try:
        return bytes_of(handle)
    finally:
        lib.quern_text_release(handle)


@overload
def encoded(value: None) -> None: ...
@overload
def encoded(value: Union[str, bytes]) -> bytes: ...
def encoded(value: Union[str, bytes, None]) -> Optional[bytes]:
    """The bytes of a text or path. A path may hold bytes that are no UTF-8, as os.fsdecode gives them."""
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def array(kind: Any, values: Any) -> Any:
    values = list(values)
    return (kind * len(values))(*values)


class Handle:
    """Owns one handle of the library. Closed by close(), by leaving a `with` block, or when it is collected."""

    def __init__(self, handle: c_void_p, release: Callable[[c_void_p], None]) -> None:
        self._handle: Optional[c_void_p] = handle
        self._release = release

    @property
    def handle(self) -> c_void_p:
        if self._handle is None:
            raise ValueError(f"this {type(self).__name__} is closed")
        return self._handle

    def close(self) -> None:
        """Gives the handle back. Whatever was made from it stays usable."""
        handle, self._handle = getattr(self, "_handle", None), None
        if handle is not None:
            self._release(handle)

    def __enter__(self: "H") -> "H":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


H = TypeVar("H", bound=Handle)
