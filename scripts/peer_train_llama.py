"""llama.cpp for scripts/compare-training: runs in its environment, and times its training of all weights on the processor.

    peer_train_llama.py MODEL.gguf TOKENS STEPS THREADS

MODEL has f32 weights, the only ones that llama.cpp trains. Each step is one row of so many tokens with a label on each, by AdamW with llama.cpp's default
settings; context, batch and micro-batch are the row, and the cache is f32, as its example programs ask. The first step does not count. Prints one JSON
object: {"tokens_per_second", "tokens_per_processor_second"}.
"""
import ctypes
import json
import pathlib
import sys
import time

import llama_cpp as lib

I32 = lib.GGML_TYPE_I32


class Options(ctypes.Structure):
    """llama_opt_params of llama.h; the package's own lacks the kind of the optimiser."""
    _fields_ = [("context", ctypes.c_uint32), ("filter", ctypes.c_void_p), ("filter_data", ctypes.c_void_p), ("rates", ctypes.c_void_p),
                ("rates_data", ctypes.c_void_p), ("optimiser", ctypes.c_int)]


def functions():
    """ggml's and llama's functions of training, with what they take and give."""
    folder = pathlib.Path(lib.__file__).parent / "lib"
    base, llama = ctypes.CDLL(str(folder / "libggml-base.so")), ctypes.CDLL(str(folder / "libllama.so"))
    pointer, count = ctypes.c_void_p, ctypes.c_int64
    base.ggml_opt_dataset_init.argtypes = [ctypes.c_int, ctypes.c_int, count, count, count, count]
    base.ggml_opt_dataset_data.argtypes = base.ggml_opt_dataset_labels.argtypes = base.ggml_get_data.argtypes = [pointer]
    for function in (base.ggml_opt_dataset_init, base.ggml_opt_dataset_data, base.ggml_opt_dataset_labels, base.ggml_get_data, base.ggml_opt_result_init):
        function.restype = pointer
    base.ggml_opt_dataset_free.argtypes = base.ggml_opt_result_free.argtypes = [pointer]
    llama.llama_opt_init.argtypes = [pointer, pointer, Options]
    llama.llama_opt_init.restype = None
    llama.llama_opt_epoch.argtypes = [pointer, pointer, pointer, pointer, count, pointer, pointer]
    llama.llama_opt_epoch.restype = None
    return base, llama


def context_of(path, tokens, threads):
    options = lib.llama_model_default_params()
    options.n_gpu_layers, options.load_mode = 0, lib.LLAMA_LOAD_MODE_NONE  # read, since mapped weights cannot change
    model = lib.llama_model_load_from_file(path.encode(), options)
    if not model:
        sys.exit(f"llama.cpp cannot load {path}")
    options = lib.llama_context_default_params()
    options.n_ctx = options.n_batch = options.n_ubatch = tokens
    options.n_threads = options.n_threads_batch = threads
    options.flash_attn_type = 0
    options.type_k = options.type_v = lib.GGML_TYPE_F32
    context = lib.llama_init_from_model(model, options)
    if not context:
        sys.exit("llama.cpp cannot make a context")
    return model, context


def epoch(base, llama, context, tokens, rows):
    """Trains on so many rows; the ids are those of peer_train.py."""
    data = base.ggml_opt_dataset_init(I32, I32, tokens, tokens, rows, 1)
    for tensor, first in ((base.ggml_opt_dataset_data(data), 0), (base.ggml_opt_dataset_labels(data), 1)):
        numbers = (ctypes.c_int32 * (tokens * rows)).from_address(base.ggml_get_data(tensor))
        for i in range(tokens * rows):
            place = i % tokens + first
            numbers[i] = (7 * place * place + 3 * place) % 40000 + 3
    result = base.ggml_opt_result_init()
    wall, processor = time.perf_counter(), time.process_time()
    llama.llama_opt_epoch(context, data, result, None, rows, None, None)
    taken = time.perf_counter() - wall, time.process_time() - processor
    base.ggml_opt_result_free(result)
    base.ggml_opt_dataset_free(data)
    return taken


def main():
    path, tokens, steps, threads = sys.argv[1], *map(int, sys.argv[2:5])
    lib.llama_backend_init()
    silent = lib.llama_log_callback(lambda _level, _text, _user: None)
    lib.llama_log_set(silent, None)
    base, llama = functions()
    model, context = context_of(path, tokens, threads)
    address = lambda function: ctypes.cast(function, ctypes.c_void_p)
    llama.llama_opt_init(context, model, Options(0, address(llama.llama_opt_param_filter_all), None, address(base.ggml_opt_get_default_optimizer_params), None, 0))
    epoch(base, llama, context, tokens, 1)
    wall, processor = epoch(base, llama, context, tokens, steps)
    print(json.dumps({"tokens_per_second": tokens * steps / wall, "tokens_per_processor_second": tokens * steps / processor}))


if __name__ == "__main__":
    main()
