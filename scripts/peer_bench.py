"""One timing of llama.cpp for scripts/compare-peer: runs in its environment, prints one JSON object.

    peer_bench.py MODEL PROMPT DECODE THREADS BATCH FLASH MICRO_BATCH REPACK RUNS

After one prefill that does not count, the best of RUNS of each phase.
"""
import ctypes
import json
import os
import sys
import time

import llama_cpp as lib


def decode(context, batch, tokens, positions, sequences):
    """One llama_decode of these tokens, with logits for the last of each sequence."""
    batch.n_tokens = len(tokens)
    for i, (token, position, sequence) in enumerate(zip(tokens, positions, sequences)):
        batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, position, 1
        batch.seq_id[i][0] = sequence
        batch.logits[i] = i + 1 == len(tokens) or sequences[i + 1] != sequence
    status = lib.llama_decode(context, batch)
    if status != 0:
        sys.exit(f"llama_decode failed with {status}")
    lib.llama_synchronize(context)


def main():
    path = sys.argv[1]
    prompt, count, threads, sequences, flash, micro, repack, runs = map(int, sys.argv[2:])
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)  # its log
    lib.llama_backend_init()
    model_options = lib.llama_model_default_params()
    model_options.n_gpu_layers = 0
    model_options.use_extra_bufts = bool(repack)
    model = lib.llama_model_load_from_file(path.encode(), model_options)
    if not model:
        sys.exit(f"llama.cpp cannot load {path}")
    options = lib.llama_context_default_params()
    options.n_ctx = (prompt + count + 64) * sequences
    options.n_ubatch = micro
    options.n_batch = max(prompt, micro)
    options.n_seq_max = sequences
    options.n_threads = options.n_threads_batch = threads
    options.flash_attn_type = 1 if flash else 0
    context = lib.llama_init_from_model(model, options)
    if not context:
        sys.exit("llama.cpp cannot make a context")
    vocabulary = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
    memory = lib.llama_get_memory(context)
    batch = lib.llama_batch_init(max(prompt, sequences, 1), 0, 1)
    tokens = [(7 * i + 11) % min(vocabulary, 30000) for i in range(prompt)]

    def prefill():
        lib.llama_memory_clear(memory, True)
        start = time.perf_counter()
        decode(context, batch, tokens, range(prompt), [0] * prompt)
        return prompt / (time.perf_counter() - start)

    def generate():
        lib.llama_memory_clear(memory, True)
        spent = 0.0
        for position in range(count + 1):
            ids = [(position * 31 + s * 7) % min(vocabulary, 30000) for s in range(sequences)]
            start = time.perf_counter()
            decode(context, batch, ids, [position] * sequences, range(sequences))
            if position > 0:  # the first makes buffers
                spent += time.perf_counter() - start
        return sequences * count / spent

    prefill()
    print(json.dumps({"prefill": max(prefill() for _ in range(runs)), "decode": max(generate() for _ in range(runs)),
                      "library": ctypes.string_at(lib.llama_print_system_info()).decode()}))


main()
