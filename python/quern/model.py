"""Models, and their vocabularies without weights."""

from __future__ import annotations

import ctypes
import json
import os
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Union, cast

from . import _abi
from .session import Session

if TYPE_CHECKING:
    from .runtime import Runtime

PathLike = Union[str, bytes, "os.PathLike[str]"]
Messages = Union[Sequence[Mapping[str, Any]], Mapping[str, Any]]
_KV = {None: 0, "f16": 1, "f32": 2}


def _ids(function: str, *arguments: Any, guess: int) -> List[int]:
    """A function of the (ids, capacity, count) kind."""
    count = ctypes.c_uint64()
    ids = (ctypes.c_int32 * guess)()
    status = getattr(_abi.lib, function)(*arguments, ids, guess, ctypes.byref(count))
    if status != 0 and count.value > guess:
        ids = (ctypes.c_int32 * count.value)()
        status = getattr(_abi.lib, function)(*arguments, ids, count.value, ctypes.byref(count))
    _abi.check(status)
    return list(ids[:count.value])


class Vocabulary(_abi.Handle):
    """A tokenizer and chat template. Vocabulary(path) reads a model file's; a model has its own. `tokenizer_pre`: a rule such as
    "qwen2" in place of the file's tokenizer.ggml.pre."""

    def __init__(self, path: PathLike, *, tokenizer_pre: Optional[str] = None) -> None:
        options = _abi.VocabularyOptions(tokenizer_pre=_abi.encoded(tokenizer_pre))
        super().__init__(_abi.create("quern_vocabulary_open_with", _abi.encoded(os.fspath(path)), ctypes.byref(options)),
                         _abi.lib.quern_vocabulary_release)

    def __len__(self) -> int:
        return int(_abi.lib.quern_vocabulary_size(self.handle))

    @property
    def bos(self) -> Optional[int]:
        token = _abi.lib.quern_vocabulary_bos(self.handle)
        return None if token < 0 else token

    @property
    def eos(self) -> Optional[int]:
        token = _abi.lib.quern_vocabulary_eos(self.handle)
        return None if token < 0 else token

    @property
    def warning(self) -> str:
        """What is doubtful about it, such as a file that names no tokenizer.ggml.pre; "" if nothing is."""
        return cast(bytes, _abi.lib.quern_vocabulary_warning(self.handle)).decode("utf-8", "replace")

    @property
    def chat_template(self) -> Optional[str]:
        source = _abi.lib.quern_vocabulary_chat_template(self.handle)
        return None if source is None else cast(bytes, source).decode("utf-8", "replace")

    def is_end(self, token: int) -> bool:
        """Whether the token ends an answer."""
        return bool(_abi.lib.quern_vocabulary_is_end(self.handle, token))

    def tokenize(self, text: Union[str, bytes], *, bos: bool = True, special: bool = True, eos: bool = True) -> List[int]:
        """`special`: the text of a special token becomes that token. `bos`, `eos`: where the file asks for them."""
        raw = text.encode() if isinstance(text, str) else text
        flags = (0 if bos else 1) | (0 if special else 2) | (0 if eos else 8)
        return _ids("quern_tokenize", self.handle, raw, len(raw), flags, guess=len(raw) + 8)

    def detokenize(self, ids: Sequence[int], *, special: bool = False) -> bytes:
        """Bytes, which may end inside a UTF-8 character."""
        needed = ctypes.c_uint64()
        given = _abi.array(ctypes.c_int32, ids)
        arguments = (self.handle, given, len(given), 1 if special else 0)
        _abi.call("quern_detokenize", *arguments, None, 0, ctypes.byref(needed))
        buffer = ctypes.create_string_buffer(needed.value or 1)
        _abi.call("quern_detokenize", *arguments, buffer, needed.value, ctypes.byref(needed))
        return buffer.raw[:needed.value]

    def render(self, messages: Messages, *, generation_prompt: bool = True) -> str:
        """The model's own template over [{"role": ..., "content": ...}, ...], or over {"messages": [...], "tools": [...]}. A content
        may be a list of {"type": "text", "text": ...}; every other key of a message is the template's to read."""
        with self._rendered(messages, generation_prompt) as rendered:
            return _abi.bytes_of(rendered.handle).decode("utf-8", "replace")

    def tokenize_chat(self, messages: Messages, *, special_in_messages: bool = False) -> List[int]:
        """Ids of the rendered chat. Only the template's own text becomes special tokens, so that no message can end its turn or begin
        another; `special_in_messages`: the text of the messages does too."""
        with self._rendered(messages, True) as rendered:
            size = _abi.lib.quern_text_size(rendered.handle)
            return _ids("quern_tokenize_rendered", self.handle, rendered.handle, 4 if special_in_messages else 0, guess=size + 8)

    def _rendered(self, messages: Messages, generation_prompt: bool) -> _abi.Handle:
        raw = json.dumps(dict(messages) if isinstance(messages, Mapping) else [dict(message) for message in messages]).encode()
        with _abi.Handle(_abi.create("quern_chat_from_json", raw, len(raw)), _abi.lib.quern_chat_release) as chat:
            made = _abi.create("quern_chat_render", self.handle, chat.handle, 0 if generation_prompt else 1)
        return _abi.Handle(made, _abi.lib.quern_text_release)

    def set_template_seconds(self, seconds: float) -> None:
        """How many seconds of CPU time the model's template may take from now on; 2 unless set."""
        _abi.call("quern_vocabulary_set_template_seconds", self.handle, seconds)


class _ModelVocabulary(Vocabulary):
    """Belongs to its model, which it keeps open."""

    def __init__(self, model: "Model") -> None:
        self._model = model
        _abi.Handle.__init__(self, ctypes.c_void_p(_abi.lib.quern_model_vocabulary(model.handle)), lambda handle: None)

    @property
    def handle(self) -> ctypes.c_void_p:
        self._model.handle  # a closed model has no vocabulary
        return super().handle


def _members(info: _abi.Sized) -> Dict[str, Any]:
    """Of a struct that the library filled, by name."""
    made: Dict[str, Any] = {}
    for name, *_ in info._fields_:
        value = getattr(info, name)
        made[name] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    del made["struct_size"]
    return made


class Adapter(_abi.Handle):
    """A LoRA adapter for one model. Made by Model.adapter()."""

    def __init__(self, model: "Model", path: Union[str, bytes]) -> None:
        super().__init__(_abi.create("quern_adapter_load", model.handle, _abi.encoded(path)), _abi.lib.quern_adapter_release)

    @property
    def info(self) -> Dict[str, Any]:
        """Members as quern_adapter_info."""
        return _members(_abi.fill(_abi.AdapterInfo, "quern_adapter_get_info", self.handle))


class Model(_abi.Handle):
    """A loaded model; immutable, for any thread. Made by Runtime.load()."""

    def __init__(self, runtime: "Runtime", path: Union[str, bytes], *, context: int, sequences: int, exact: bool, kv: Optional[str], embeddings: bool,
                 tokenizer_pre: Optional[str], adapters: Sequence[PathLike], progress: Optional[Callable[[int, int], bool]]) -> None:
        trouble: List[BaseException] = []

        def on_progress(_: Any, done: int, total: int) -> int:
            try:
                return 0 if progress is None or progress(done, total) else 1
            except BaseException as error:  # it may not cross the library; raised below
                trouble.append(error)
                return 1

        files = [_abi.encoded(os.fspath(adapter)) for adapter in adapters]
        options = _abi.ModelOptions(context=context, sequences=sequences, activations=1 if exact else 0, kv=_KV[kv],
                                    embeddings=1 if embeddings else 0, tokenizer_pre=_abi.encoded(tokenizer_pre),
                                    adapters=_abi.array(ctypes.c_char_p, files), adapter_count=len(files),
                                    progress=_abi.ProgressCallback(on_progress))  # always: Python sees Ctrl-C when it runs
        try:
            handle = _abi.create("quern_model_load", runtime.handle, _abi.encoded(path), ctypes.byref(options))
        except _abi.Error:
            if trouble:
                raise trouble[0] from None
            raise
        super().__init__(handle, _abi.lib.quern_model_release)

    @property
    def info(self) -> Dict[str, Any]:
        """Members as quern_model_info."""
        info = _abi.fill(_abi.ModelInfo, "quern_model_get_info", self.handle)
        return _members(info)

    @property
    def vocabulary(self) -> Vocabulary:
        return _ModelVocabulary(self)

    def placement(self) -> Dict[str, Any]:
        """Where the layers lie and why."""
        return cast(Dict[str, Any], json.loads(_abi.text("quern_model_placement_json", self.handle)))

    def plan(self) -> Dict[str, Any]:
        """What a step does: schedules with their rows, kernels a layer, and what stands alone and why. It is compiled anew."""
        return cast(Dict[str, Any], json.loads(_abi.text("quern_model_plan_json", self.handle)))

    def adapter(self, path: PathLike) -> Adapter:
        """A LoRA adapter for sequences of this model (Session.use_adapter): a PEFT folder or a GGUF adapter. The model was loaded for it."""
        return Adapter(self, os.fspath(path))

    def session(self, *, context: int = 0, sequences: int = 1) -> Session:
        """Sequences with a key/value cache of their own."""
        return Session(self, context=context, sequences=sequences)


def convert(runtime: "Runtime", source: PathLike, out: PathLike, *, type: Optional[str] = None, vocabulary_only: bool = False,
            shard_bytes: int = 0) -> None:
    """Writes a GGUF file where `out` ends with ".gguf", else a Hugging Face directory. `type` of the matrices: "f32", "f16" or "bf16"; without it
    they keep theirs, and block formats become bf16 in a directory."""
    dtype = 0 if type is None else int(_abi.lib.quern_dtype_from_name(type.encode()))
    if type is not None and dtype == 0:
        raise ValueError(f"'{type}' is no format of weights")
    options = _abi.ConvertOptions(type=dtype, vocabulary_only=int(vocabulary_only), shard_bytes=shard_bytes)
    _abi.call("quern_convert", runtime.handle, _abi.encoded(os.fspath(source)), _abi.encoded(os.fspath(out)), ctypes.byref(options))


def show(path: PathLike) -> Dict[str, Any]:
    """What the file of a model or of an adapter has."""
    return cast(Dict[str, Any], json.loads(_abi.text("quern_show_json", _abi.encoded(os.fspath(path)))))


def estimate(path: PathLike, runtime: Optional["Runtime"] = None, *, context: int = 0, sequences: int = 1, exact: bool = False,
             kv: Optional[str] = None, adapters: Sequence[PathLike] = ()) -> Dict[str, int]:
    """The memory that a model file needs, without loading it; members as quern_estimate_info. Adapters need a runtime."""
    paths = [_abi.encoded(os.fspath(adapter)) for adapter in adapters]
    given = _abi.array(ctypes.c_char_p, paths)
    options = _abi.EstimateOptions(context=context, sequences=sequences, activations=1 if exact else 0, kv=_KV[kv],
                                   adapters=ctypes.cast(given, ctypes.c_void_p), adapter_count=len(paths))
    handle = _abi.create("quern_estimate_file", None if runtime is None else runtime.handle, _abi.encoded(os.fspath(path)),
                         ctypes.byref(options))
    with _abi.Handle(handle, _abi.lib.quern_estimate_release) as made:
        info = _abi.fill(_abi.EstimateInfo, "quern_estimate_get_info", made.handle)
    return {name: getattr(info, name) for name, *_ in info._fields_ if name not in ("struct_size", "reserved")}
