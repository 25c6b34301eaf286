"""llama.cpp for scripts/compare-peer: runs in its environment with one model loaded, and times what is asked.

    peer_bench.py MODEL PROMPT DECODE THREADS BATCH REPACK

Prints one JSON object once the model is loaded: {"version", "library"}. Then reads lines "prefill FLASH MICRO_BATCH RUNS" and
"decode FLASH MICRO_BATCH RUNS" (FLASH 0 or 1) and answers each with the best tokens/s of RUNS, as a JSON number. The first step of
each decode does not count: it makes buffers. Between requests the process sleeps.
"""
import ctypes
import json
import os
import sys
import time

import llama_cpp as lib


class Timer:
    def __init__(self, path, prompt, count, threads, sequences, repack):
        self.prompt, self.count, self.threads, self.sequences = prompt, count, threads, sequences
        lib.llama_backend_init()
        options = lib.llama_model_default_params()
        options.n_gpu_layers = 0
        options.use_extra_bufts = bool(repack)
        self.model = lib.llama_model_load_from_file(path.encode(), options)
        if not self.model:
            sys.exit(f"llama.cpp cannot load {path}")
        self.vocabulary = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self.model))
        self.batch = lib.llama_batch_init(max(prompt, sequences), 0, 1)
        self.contexts = {}

    def use(self, flash, micro):
        """Makes the context of these settings the current one."""
        if (flash, micro) not in self.contexts:
            options = lib.llama_context_default_params()
            options.n_ctx = (self.prompt + self.count + 64) * self.sequences
            options.n_ubatch = micro
            options.n_batch = max(self.prompt, micro)
            options.n_seq_max = self.sequences
            options.n_threads = options.n_threads_batch = self.threads
            options.flash_attn_type = flash
            self.contexts[flash, micro] = lib.llama_init_from_model(self.model, options)
        self.context = self.contexts[flash, micro]
        if not self.context:
            sys.exit("llama.cpp cannot make a context")

    def decode_batch(self, tokens, positions, sequences):
        """One llama_decode of these tokens, with logits for the last of each sequence."""
        batch = self.batch
        batch.n_tokens = len(tokens)
        for i, (token, position, sequence) in enumerate(zip(tokens, positions, sequences)):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, position, 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = i + 1 == len(tokens) or sequences[i + 1] != sequence
        status = lib.llama_decode(self.context, batch)
        if status != 0:
            sys.exit(f"llama_decode failed with {status}")
        lib.llama_synchronize(self.context)

    def clear(self):
        lib.llama_memory_clear(lib.llama_get_memory(self.context), True)

    def prefill(self):
        self.clear()
        tokens = [(7 * i + 11) % min(self.vocabulary, 30000) for i in range(self.prompt)]
        start = time.perf_counter()
        self.decode_batch(tokens, range(self.prompt), [0] * self.prompt)
        return self.prompt / (time.perf_counter() - start)

    def decode(self):
        self.clear()
        spent = 0.0
        for position in range(self.count + 1):
            ids = [(position * 31 + s * 7) % min(self.vocabulary, 30000) for s in range(self.sequences)]
            start = time.perf_counter()
            self.decode_batch(ids, [position] * self.sequences, range(self.sequences))
            if position > 0:
                spent += time.perf_counter() - start
        return self.sequences * self.count / spent


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)  # its log
    timer = Timer(sys.argv[1], *map(int, sys.argv[2:]))
    print(json.dumps({"version": lib.__version__, "library": ctypes.string_at(lib.llama_print_system_info()).decode()}), file=answers, flush=True)
    for line in sys.stdin:
        phase, flash, micro, runs = line.split()
        timer.use(int(flash), int(micro))
        print(json.dumps(max(getattr(timer, phase)() for _ in range(int(runs)))), file=answers, flush=True)


main()
