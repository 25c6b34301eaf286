"""Sessions: sequences of one model, and what is asked of them."""

from __future__ import annotations

import asyncio
import collections
import ctypes
import dataclasses
import json
import operator
import os
import threading
from typing import (TYPE_CHECKING, Any, AsyncIterator, Callable, Deque, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union, cast,
                    overload)

from . import _abi

if TYPE_CHECKING:
    from typing import Literal

    from .model import Adapter, Messages, Model

PathLike = Union[str, bytes, "os.PathLike[str]"]
Prompt = Union[str, bytes, Sequence[int], Sequence[Mapping[str, Any]], Mapping[str, Any]]
Stop = Union[str, bytes, Sequence[Union[str, bytes]]]
OnPiece = Callable[[bytes], bool]
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
    """`finish`: "end", "stop", "length", "context", "cancelled" or "loop". `top`: for each token the best ones as (id, logprob)."""

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
    """What the model said at each token read; nll of the last is NaN. `logits`: of the last token, where asked for: a list, or with
    numpy=True an array."""

    nll_sum: float
    argmax: List[int]
    margin: List[float]
    nll: List[float]
    logits: Any
    seconds: float


@dataclasses.dataclass
class Request:
    """One answer of Session.generate_many(). A prompt is a text, which is one message of a chat, messages, or ids. With `raw` a text goes to
    the model as it is, without its chat template."""

    prompt: Prompt
    raw: bool = False
    sequence: int = 0
    append: bool = False
    max_tokens: int = 0
    sampling: Optional[Sampling] = None
    stop: Stop = ()  # texts that end the answer; a str is one text
    logprobs: int = 0
    ignore_end: bool = False
    loop_guard: bool = False  # end an answer that goes in circles; its finish is "loop"
    special_in_messages: bool = False  # the text of a special token in a message becomes that token: it can forge turns
    on_piece: Optional[OnPiece] = None  # True: go on. Called while the answer is made, not on the thread that asked


class Session(_abi.Handle):
    """One call at a time; a second one at the same time raises Error (BUSY). Made by Model.session()."""

    def __init__(self, model: "Model", *, context: int, sequences: int) -> None:
        self._model = model
        options = _abi.SessionOptions(context=context, sequences=sequences)
        self._streams: List["_Pieces"] = []  # whose threads may still run, the oldest first
        super().__init__(_abi.create("quern_session_create", model.handle, ctypes.byref(options)), _abi.lib.quern_session_release)

    @property
    def handle(self) -> Any:
        """The session's handle, once no stream that was left uses it any more."""
        for pieces in list(self._streams):
            if pieces.is_this_thread():
                break  # streams wait for older ones alone, so that no two wait for each other
            if pieces.ended:
                pieces.close()
        return super().handle

    def ids_of(self, prompt: Prompt, *, raw: bool = False, special_in_messages: bool = False) -> List[int]:
        """Ids of a prompt: of a text as one message of a chat, or with `raw` as it is; of messages as Vocabulary.tokenize_chat() makes them;
        ids as they are."""
        words = self._model.vocabulary
        if isinstance(prompt, (str, bytes)):
            if raw:
                return words.tokenize(prompt)
            if words.chat_template is None:
                raise ValueError("the model has no chat template, so that a text cannot be a message; raw=True gives it the text as it is")
            said = prompt if isinstance(prompt, str) else prompt.decode("utf-8")
            return words.tokenize_chat([{"role": "user", "content": said}], special_in_messages=special_in_messages)
        if isinstance(prompt, Mapping) or (len(prompt) > 0 and isinstance(prompt[0], Mapping)):
            if raw:
                raise ValueError("raw=True takes a text or ids; messages need the chat template")
            return words.tokenize_chat(cast("Messages", prompt), special_in_messages=special_in_messages)
        strange = next((type(token).__name__ for token in prompt if not hasattr(token, "__index__")), None)
        if strange is not None:
            raise TypeError(f"a prompt is a text, messages or ids; this one is a list with a {strange} in it")
        return [operator.index(token) for token in cast(Sequence[int], prompt)]

    def use_adapter(self, adapter: Optional["Adapter"], *, sequence: int = 0, scale: float = 1.0) -> None:
        """Computes a sequence with an adapter (None: without one) from here on, at `scale` times its own scale. The sequence forgets what it
        holds where that changes it."""
        _abi.call("quern_session_use_adapter", self.handle, sequence, None if adapter is None else adapter.handle, scale)

    def generate(self, prompt: Prompt, *, raw: bool = False, sequence: int = 0, append: bool = False, max_tokens: int = 0,
                 sampling: Optional[Sampling] = None, stop: Stop = (), logprobs: int = 0, ignore_end: bool = False, loop_guard: bool = False,
                 special_in_messages: bool = False,
                 on_piece: Optional[OnPiece] = None) -> Answer:
        """One answer; the keywords are described at Request. Ctrl-C ends it."""
        return self.generate_many([Request(prompt, raw=raw, sequence=sequence, append=append, max_tokens=max_tokens, sampling=sampling, stop=stop,
                                           logprobs=logprobs, ignore_end=ignore_end, loop_guard=loop_guard,
                                           special_in_messages=special_in_messages, on_piece=on_piece)])[0]

    def generate_many(self, requests: Sequence[Request]) -> List[Answer]:
        """Answers all requests together, each on a sequence of its own. Ctrl-C ends them."""
        trouble: List[BaseException] = []
        kept: List[Any] = []  # what the structs point to
        listed = _abi.array(_abi.Request, [self._request(request, kept, trouble) for request in requests])
        handle = _abi.interruptible(lambda: _abi.create("quern_generate", self.handle, listed, len(listed)), self.cancel)
        with _abi.Handle(handle, _abi.lib.quern_generation_release) as generation:
            if trouble:
                raise trouble[0]
            return [_answer(generation.handle, index, requests[index].logprobs) for index in range(len(listed))]

    def stream(self, prompt: Prompt, *, raw: bool = False, sequence: int = 0, append: bool = False, max_tokens: int = 0,
               sampling: Optional[Sampling] = None, stop: Stop = (), logprobs: int = 0, ignore_end: bool = False, loop_guard: bool = False,
               special_in_messages: bool = False) -> Iterator[str]:
        """The text of one answer, piece by piece, as it is made; the keywords are described at Request. Leaving the loop early ends the answer.

        The answer is at most 64 pieces ahead of the reader: it then waits, and the session with it."""
        pieces = _Pieces(self, Request(prompt, raw=raw, sequence=sequence, append=append, max_tokens=max_tokens, sampling=sampling, stop=stop,
                                           logprobs=logprobs, ignore_end=ignore_end, loop_guard=loop_guard,
                                           special_in_messages=special_in_messages))
        try:
            while (piece := pieces.get()) is not None:
                yield piece
        finally:
            pieces.close()

    def astream(self, prompt: Prompt, *, raw: bool = False, sequence: int = 0, append: bool = False, max_tokens: int = 0,
               sampling: Optional[Sampling] = None, stop: Stop = (), logprobs: int = 0, ignore_end: bool = False, loop_guard: bool = False,
               special_in_messages: bool = False) -> AsyncIterator[str]:
        """As stream(), for `async for`. Leaving the loop and cancelling the task end the answer."""
        return _Stream(self, Request(prompt, raw=raw, sequence=sequence, append=append, max_tokens=max_tokens, sampling=sampling, stop=stop,
                                     logprobs=logprobs, ignore_end=ignore_end, loop_guard=loop_guard,
                                     special_in_messages=special_in_messages))

    async def agenerate(self, prompt: Prompt, *, raw: bool = False, sequence: int = 0, append: bool = False, max_tokens: int = 0,
                 sampling: Optional[Sampling] = None, stop: Stop = (), logprobs: int = 0, ignore_end: bool = False, loop_guard: bool = False,
                 special_in_messages: bool = False,
                        on_piece: Optional[OnPiece] = None) -> Answer:
        """As generate(), for `await`. A task that is cancelled ends the answer."""
        ended = threading.Event()

        def go_on(piece: bytes) -> bool:
            return not ended.is_set() and (on_piece is None or on_piece(piece))

        request = Request(prompt, raw=raw, sequence=sequence, append=append, max_tokens=max_tokens, sampling=sampling, stop=stop,
                                           logprobs=logprobs, ignore_end=ignore_end, loop_guard=loop_guard,
                                           special_in_messages=special_in_messages, on_piece=go_on)
        work = asyncio.ensure_future(asyncio.to_thread(self.generate_many, [request]))
        try:
            return (await asyncio.shield(work))[0]
        except asyncio.CancelledError:
            ended.set()
            self.cancel()
            await asyncio.wait([work])
            raise

    def cancel(self) -> None:
        """Ends the call that runs, if any. From any thread."""
        _abi.lib.quern_cancel(super().handle)

    def evaluate(self, ids: Sequence[int], *, sequence: int = 0, logits: bool = False, numpy: bool = False) -> Evaluation:
        """Reads the ids and compares each prediction with the next one. `numpy`: the logits are an array. Ctrl-C ends it."""
        given = _abi.array(ctypes.c_int32, ids)
        if numpy:
            _numpy()
        handle = _abi.interruptible(
            lambda: _abi.create("quern_evaluate", self.handle, sequence, given, len(given), 1 if logits or numpy else 0), self.cancel)
        with _abi.Handle(handle, _abi.lib.quern_evaluation_release) as evaluation:
            info = _abi.fill(_abi.EvaluationInfo, "quern_evaluation_get_info", evaluation.handle)
            count = info.count
            last: Any = None
            if numpy:
                last = _numpy().array(ctypes.cast(info.logits, ctypes.POINTER(ctypes.c_float * info.logit_count)).contents, dtype="f4")
            elif logits:
                last = info.logits[:info.logit_count]
            return Evaluation(info.nll_sum, info.argmax[:count], info.margin[:count], info.nll[:count], last, info.seconds)

    @overload
    def embed(self, prompt: Prompt, *, sequence: int = ..., pooling: str = ..., normalise: bool = ...,
              numpy: "Literal[False]" = ...) -> List[List[float]]: ...
    @overload
    def embed(self, prompt: Prompt, *, sequence: int = ..., pooling: str = ..., normalise: bool = ..., numpy: "Literal[True]") -> Any: ...
    def embed(self, prompt: Prompt, *, sequence: int = 0, pooling: str = "last", normalise: bool = False, numpy: bool = False) -> Any:
        """The last hidden state: one vector ("last", "mean") or one a token ("none"), as lists, or with `numpy` as one array of f32 with a row
        for each. A text is read as it is, and not as a chat. The model needs embeddings=True. Ctrl-C ends it."""
        if pooling not in _POOLING:
            raise ValueError(f"pooling is {pooling!r}; it takes 'last', 'mean' or 'none'")
        if numpy:
            _numpy()
        given = _abi.array(ctypes.c_int32, self.ids_of(prompt, raw=isinstance(prompt, (str, bytes))))
        needed = ctypes.c_uint64()
        arguments = (self.handle, sequence, given, len(given), _POOLING[pooling], 1 if normalise else 0)
        _abi.call("quern_embed", *arguments, None, 0, ctypes.byref(needed))
        buffer = (ctypes.c_float * needed.value)()
        _abi.interruptible(lambda: _abi.call("quern_embed", *arguments, buffer, needed.value, None), self.cancel)
        size = needed.value // (len(given) if pooling == "none" else 1)
        if numpy:
            return _numpy().frombuffer(buffer, dtype="f4").reshape(-1, size)
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
            return cast(Dict[str, Any], json.loads(_abi.text("quern_statistics_json", made.handle)))

    def start_trace(self) -> None:
        """Records every step from here on."""
        _abi.check(_abi.lib.quern_session_trace_start(self.handle))

    def take_trace(self) -> Dict[str, Any]:
        """Ends the recording: an object in the Chrome trace event format, with the "nodes" and "kernels" of a decode step beside it."""
        return cast(Dict[str, Any], json.loads(_abi.text("quern_session_trace_json", self.handle)))

    def _request(self, request: Request, kept: List[Any], trouble: List[BaseException]) -> _abi.Request:
        def on_token(_: Any, event: Any) -> int:
            try:
                piece = ctypes.string_at(event.contents.piece, event.contents.piece_size) if event.contents.piece_size else b""
                assert request.on_piece is not None
                return 0 if request.on_piece(piece) else 1
            except BaseException as error:  # it may not cross the library; raised when the call is over
                trouble.append(error)
                return 1

        ids = _abi.array(ctypes.c_int32, self.ids_of(request.prompt, raw=request.raw, special_in_messages=request.special_in_messages))
        stops = [request.stop] if isinstance(request.stop, (str, bytes)) else list(request.stop)
        stop = _abi.array(ctypes.c_char_p, [_stop_text(text) for text in stops])
        callback = _abi.TokenCallback(0) if request.on_piece is None else _abi.TokenCallback(on_token)
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
        return _abi.Request(prompt=ids, prompt_count=len(ids), sequence=request.sequence, flags=(1 if request.append else 0) | (2 if request.loop_guard else 0),
                            sampling=sampling, max_tokens=request.max_tokens, stop=stop, stop_count=len(stop),
                            logprobs=request.logprobs, ignore_end=1 if request.ignore_end else 0, on_token=callback)


class _Pieces:
    """The pieces of an answer that another thread makes, at most 64 ahead of the reader."""

    def __init__(self, session: Session, request: Request) -> None:
        self._session = session
        self._waiting: Deque[bytes] = collections.deque()
        self._changed = threading.Condition()
        self.ended = False  # by the reader
        self._done = False  # by the answer
        self._failed: Optional[BaseException] = None
        self._worker = threading.Thread(target=self._work, args=(dataclasses.replace(request, on_piece=self._put),), daemon=True)
        session._streams.append(self)
        self._worker.start()

    def is_this_thread(self) -> bool:
        """Whether this thread makes the answer."""
        return self._worker is threading.current_thread()

    def _put(self, piece: bytes) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self.ended or len(self._waiting) < 64)
            if piece:
                self._waiting.append(piece)
            self._changed.notify_all()
            return not self.ended

    def _work(self, request: Request) -> None:
        try:
            self._session.generate_many([request])
        except BaseException as error:  # raised where the pieces are read
            self._failed = error
        finally:
            with self._changed:
                self._done = True
                self._changed.notify_all()
            self._session._streams.remove(self)

    def get(self) -> Optional[str]:
        """The next piece; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self.ended or self._done or bool(self._waiting))
            if self._waiting and not self.ended:
                piece = self._waiting.popleft()
                self._changed.notify_all()
                return piece.decode("utf-8", "replace")
            if self._failed is not None and not self.ended:
                raise self._failed
            return None

    def end(self) -> None:
        """The reader wants no more."""
        with self._changed:
            self.ended = True
            self._changed.notify_all()

    def close(self) -> None:
        """As end(), and returns when the session is free. A prompt that is still being read is left at once."""
        self.end()
        while self._worker.is_alive():
            self._session.cancel()  # of an idle session nothing
            self._worker.join(0.05)


class _Stream(AsyncIterator[str]):
    """Pieces for `async for`. Unlike an async generator it ends the answer the moment that the loop is left."""

    def __init__(self, session: Session, request: Request) -> None:
        self._session = session
        self._request = request
        self._pieces: Optional[_Pieces] = None  # once the first is asked for
        self._closed = False

    async def __anext__(self) -> str:
        if self._closed:
            raise StopAsyncIteration
        if self._pieces is None:
            self._pieces = _Pieces(self._session, self._request)
        try:
            piece = await asyncio.to_thread(self._pieces.get)
        except BaseException:
            await self.aclose()
            raise
        if piece is None:
            await self.aclose()
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """Ends the answer, and returns when the session is free."""
        self._closed = True
        if self._pieces is not None:
            self._pieces.end()
            await asyncio.shield(asyncio.to_thread(self._pieces.close))

    def __del__(self) -> None:
        if self._pieces is not None:
            self._pieces.end()


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        raise ImportError("numpy=True needs the package numpy: pip install numpy") from None
    return numpy


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
