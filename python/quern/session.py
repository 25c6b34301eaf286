"""Sessions: sequences of one model, and what is asked of them."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import queue
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from . import _abi

if TYPE_CHECKING:
    from .model import Model

PathLike = Union[str, bytes, "os.PathLike[str]"]
Prompt = Union[str, bytes, Sequence[int], Sequence[Mapping[str, str]]]
WINDOW_ALL = 0xFFFFFFFF
_POOLING = {"last": 0, "mean": 1, "none": 2}


@dataclasses.dataclass
class Sampling:
    """How a token is chosen, in this order: penalties, logit bias, top_k, top_p, min_p, temperature, draw. The default is greedy."""

    temperature: float = 0
    top_p: float = 0
    min_p: float = 0
    top_k: int = 0
    repeat_penalty: float = 0
    presence_penalty: float = 0
    frequency_penalty: float = 0
    penalty_window: int = 0  # 0: 64; WINDOW_ALL: all
    seed: int = 0
    bias: Mapping[int, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Answer:
    """`finish`: "end", "stop", "length", "context" or "cancelled". `top`: for each token the best ones as (id, logprob)."""

    text: str
    ids: List[int]
    finish: str
    prompt_tokens: int
    reused_tokens: int
    prompt_seconds: float
    decode_seconds: float
    logprobs: Optional[List[float]]
    top: Optional[List[List[Tuple[int, float]]]]


@dataclasses.dataclass
class Evaluation:
    """What the model said at each token read; nll of the last is NaN. `logits`: of the last token, where asked for."""

    nll_sum: float
    argmax: List[int]
    margin: List[float]
    nll: List[float]
    logits: Optional[List[float]]
    seconds: float


@dataclasses.dataclass
class Request:
    """One answer of Session.generate_many(). A prompt is text as it is, ids, or messages for the chat template."""

    prompt: Prompt
    sequence: int = 0
    append: bool = False
    max_tokens: int = 0
    sampling: Optional[Sampling] = None
    stop: Union[str, Sequence[str]] = ()  # texts that end the answer; a str is one text
    logprobs: int = 0
    ignore_end: bool = False
    special_in_messages: bool = False  # the text of a special token in a message becomes that token: it can forge turns
    on_piece: Optional[Callable[[bytes], bool]] = None  # True: go on


class Session(_abi.Handle):
    """One call at a time; a second one at the same time raises Error (BUSY). Made by Model.session()."""

    def __init__(self, model: "Model", *, context: int, sequences: int) -> None:
        self._model = model
        options = _abi.SessionOptions(context=context, sequences=sequences)
        super().__init__(_abi.create("quern_session_create", model.handle, ctypes.byref(options)), _abi.lib.quern_session_release)

    def ids_of(self, prompt: Prompt, *, special_in_messages: bool = False) -> List[int]:
        """Ids of a prompt: text as it is, ids, or messages for the chat template, as Vocabulary.tokenize_chat() makes them."""
        if isinstance(prompt, (str, bytes)):
            return self._model.vocabulary.tokenize(prompt)
        if isinstance(prompt, Mapping):
            return self._model.vocabulary.tokenize_chat(prompt)
        listed = list(prompt)
        if listed and isinstance(listed[0], Mapping):
            return self._model.vocabulary.tokenize_chat(listed, special_in_messages=special_in_messages)  # type: ignore[arg-type]
        return listed  # type: ignore[return-value]

    def generate(self, prompt: Prompt, **how: Any) -> Answer:
        """One answer. Keywords: those of Request."""
        return self.generate_many([Request(prompt, **how)])[0]

    def generate_many(self, requests: Sequence[Request]) -> List[Answer]:
        """Answers all requests together, each on a sequence of its own."""
        trouble: List[BaseException] = []
        kept: List[Any] = []  # what the structs point to
        listed = _abi.array(_abi.Request, [self._request(request, kept, trouble) for request in requests])
        handle = _abi.create("quern_generate", self.handle, listed, len(listed))
        with _abi.Handle(handle, _abi.lib.quern_generation_release) as generation:
            if trouble:
                raise trouble[0]
            return [_answer(generation.handle, index, requests[index].logprobs) for index in range(len(listed))]

    def stream(self, prompt: Prompt, **how: Any) -> Iterator[str]:
        """The text of one answer, piece by piece, as it is made. Keywords: those of Request. Leaving the loop early ends the answer.

        The answer is at most 64 pieces ahead of the reader: it then waits, and the session with it."""
        pieces: "queue.Queue[Optional[bytes]]" = queue.Queue(maxsize=64)
        ended = threading.Event()
        failed: List[BaseException] = []

        def on_piece(piece: Optional[bytes]) -> bool:
            while not ended.is_set():
                try:
                    pieces.put(piece, timeout=0.05)
                    return True
                except queue.Full:
                    pass
            return False

        request = Request(prompt, **{**how, "on_piece": on_piece})

        def work() -> None:
            try:
                self.generate_many([request])
            except BaseException as error:  # raised where the pieces are read
                failed.append(error)
            finally:
                on_piece(None)

        worker = threading.Thread(target=work, daemon=True)
        worker.start()
        try:
            while (piece := pieces.get()) is not None:
                if piece:
                    yield piece.decode("utf-8", "replace")
            if failed:
                raise failed[0]
        finally:
            ended.set()
            worker.join()

    def cancel(self) -> None:
        """Ends the call that runs, if any. From any thread."""
        _abi.lib.quern_cancel(self.handle)

    def evaluate(self, ids: Sequence[int], *, sequence: int = 0, logits: bool = False) -> Evaluation:
        """Reads the ids and compares each prediction with the next one."""
        given = _abi.array(ctypes.c_int32, ids)
        handle = _abi.create("quern_evaluate", self.handle, sequence, given, len(given), 1 if logits else 0)
        with _abi.Handle(handle, _abi.lib.quern_evaluation_release) as evaluation:
            info = _abi.fill(_abi.EvaluationInfo, "quern_evaluation_get_info", evaluation.handle)
            count = info.count
            return Evaluation(info.nll_sum, info.argmax[:count], info.margin[:count], info.nll[:count],
                              info.logits[:info.logit_count] if logits else None, info.seconds)

    def embed(self, prompt: Prompt, *, sequence: int = 0, pooling: str = "last", normalise: bool = False) -> List[List[float]]:
        """The last hidden state: one vector ("last", "mean") or one a token ("none"). The model needs embeddings=True."""
        given = _abi.array(ctypes.c_int32, self.ids_of(prompt))
        needed = ctypes.c_uint64()
        arguments = (self.handle, sequence, given, len(given), _POOLING[pooling], 1 if normalise else 0)
        _abi.call("quern_embed", *arguments, None, 0, ctypes.byref(needed))
        buffer = (ctypes.c_float * needed.value)()
        _abi.call("quern_embed", *arguments, buffer, needed.value, None)
        size = needed.value // (len(given) if pooling == "none" else 1)
        return [buffer[at:at + size] for at in range(0, needed.value, size)]

    def length(self, sequence: int = 0) -> int:
        """How many tokens a sequence holds."""
        length = ctypes.c_uint64()
        _abi.call("quern_sequence_length", self.handle, sequence, ctypes.byref(length))
        return length.value

    def truncate(self, length: int = 0, sequence: int = 0) -> None:
        """Forgets everything at or after position `length`."""
        _abi.call("quern_sequence_truncate", self.handle, sequence, length)

    def copy(self, source: int, target: int) -> None:
        """Makes sequence `target` hold what `source` holds; from there on neither sees what the other does."""
        _abi.call("quern_sequence_copy", self.handle, source, target)

    def save(self) -> bytes:
        """All sequences, for a session of the same model file and cache dtype. Nothing of forgotten tokens is in it."""
        needed = ctypes.c_uint64()
        _abi.call("quern_session_save", self.handle, None, 0, ctypes.byref(needed))
        buffer = ctypes.create_string_buffer(needed.value)
        _abi.call("quern_session_save", self.handle, buffer, needed.value, ctypes.byref(needed))
        return buffer.raw

    def restore(self, state: bytes) -> None:
        """Replaces all sequences; after an Error the session is as it was, or empty where the device failed."""
        _abi.call("quern_session_restore", self.handle, state, len(state))

    def save_file(self, path: PathLike) -> None:
        _abi.call("quern_session_save_file", self.handle, _abi.encoded(os.fspath(path)))

    def restore_file(self, path: PathLike) -> None:
        _abi.call("quern_session_restore_file", self.handle, _abi.encoded(os.fspath(path)))

    def statistics(self) -> Dict[str, Any]:
        """What ran where, counted from execution."""
        with _abi.Handle(_abi.create("quern_session_statistics", self.handle), _abi.lib.quern_statistics_release) as made:
            return json.loads(_abi.text("quern_statistics_json", made.handle))

    def start_trace(self) -> None:
        """Records every step from here on."""
        _abi.check(_abi.lib.quern_session_trace_start(self.handle))

    def take_trace(self) -> Dict[str, Any]:
        """Ends the recording: an object in the Chrome trace event format, with the "nodes" and "kernels" of a decode step beside it."""
        return json.loads(_abi.text("quern_session_trace_json", self.handle))

    def _request(self, request: Request, kept: List[Any], trouble: List[BaseException]) -> _abi.Request:
        def on_token(_: Any, event: Any) -> int:
            try:
                piece = ctypes.string_at(event.contents.piece, event.contents.piece_size) if event.contents.piece_size else b""
                assert request.on_piece is not None
                return 0 if request.on_piece(piece) else 1
            except BaseException as error:  # it may not cross the library; raised when the call is over
                trouble.append(error)
                return 1

        ids = _abi.array(ctypes.c_int32, self.ids_of(request.prompt, special_in_messages=request.special_in_messages))
        stops = [request.stop] if isinstance(request.stop, (str, bytes)) else list(request.stop)
        stop = _abi.array(ctypes.c_char_p, [_stop_text(text) for text in stops])
        callback = _abi.TokenCallback() if request.on_piece is None else _abi.TokenCallback(on_token)
        sampling = None
        if request.sampling is not None:
            s = request.sampling
            bias = _abi.array(_abi.LogitBias, [_abi.LogitBias(token, value) for token, value in s.bias.items()])
            sampling = ctypes.pointer(_abi.SamplingOptions(
                temperature=s.temperature, top_p=s.top_p, min_p=s.min_p, repeat_penalty=s.repeat_penalty,
                presence_penalty=s.presence_penalty, frequency_penalty=s.frequency_penalty, penalty_window=s.penalty_window,
                top_k=s.top_k, seed=s.seed, bias=bias, bias_count=len(bias)))
            kept.append(bias)
        kept += [ids, stop, callback, sampling]
        return _abi.Request(prompt=ids, prompt_count=len(ids), sequence=request.sequence, flags=1 if request.append else 0,
                            sampling=sampling, max_tokens=request.max_tokens, stop=stop, stop_count=len(stop),
                            logprobs=request.logprobs, ignore_end=1 if request.ignore_end else 0, on_token=callback)


def _stop_text(text: Union[str, bytes]) -> bytes:
    if not isinstance(text, (str, bytes)):
        raise TypeError(f"stop: a text is a str or bytes, and this one is a {type(text).__name__}")
    raw = _abi.encoded(text)
    if b"\0" in raw:
        raise ValueError("stop: a text cannot hold a NUL character")
    return raw


def _answer(generation: ctypes.c_void_p, index: int, logprobs: int) -> Answer:
    info = _abi.fill(_abi.AnswerInfo, "quern_generation_answer", generation, index)
    ids = info.ids[:info.id_count] if info.id_count else []
    return Answer(text=ctypes.string_at(info.text, info.text_size).decode("utf-8", "replace"), ids=ids,
                  finish=_abi.lib.quern_finish_name(info.finish).decode(), prompt_tokens=info.prompt_tokens,
                  reused_tokens=info.reused_tokens, prompt_seconds=info.prompt_seconds, decode_seconds=info.decode_seconds,
                  logprobs=info.logprobs[:len(ids)] if logprobs else None,
                  top=[_top(generation, index, at) for at in range(len(ids))] if logprobs else None)


def _top(generation: ctypes.c_void_p, index: int, token: int) -> List[Tuple[int, float]]:
    ids, logprobs = ctypes.POINTER(ctypes.c_int32)(), ctypes.POINTER(ctypes.c_float)()
    count = ctypes.c_uint64()
    _abi.call("quern_generation_top", generation, index, token, ctypes.byref(ids), ctypes.byref(logprobs), ctypes.byref(count))
    return list(zip(ids[:count.value], logprobs[:count.value]))
