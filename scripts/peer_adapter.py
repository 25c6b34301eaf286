"""llama.cpp for scripts/compare-adapter: runs in its environment, and answers and judges a text with an adapter and with merged models.

    peer_adapter.py REQUEST.json

The request has "prompts" and "text" (lists of token ids), "count" (tokens of an answer), "threads", and "runs": name -> {"model", "adapter"}. Prints one
JSON object: name -> {"answers": greedy ids of each prompt, "kl": mean KL in nats of the text's predictions from those of the first run}. The cache
of keys and values is f32; what llama.cpp rounds in its products is its own.
"""
import json
import sys

import llama_cpp as lib
import numpy


class Model:
    def __init__(self, path, adapter, length, threads):
        options = lib.llama_model_default_params()
        options.n_gpu_layers = 0
        self.model = lib.llama_model_load_from_file(path.encode(), options)
        if not self.model:
            sys.exit(f"llama.cpp cannot load {path}")
        self.vocabulary = lib.llama_model_get_vocab(self.model)
        options = lib.llama_context_default_params()
        options.n_ctx = options.n_batch = options.n_ubatch = length
        options.n_threads = options.n_threads_batch = threads
        options.flash_attn_type = 0
        options.type_k = options.type_v = lib.GGML_TYPE_F32
        self.context = lib.llama_init_from_model(self.model, options)
        if not self.context:
            sys.exit("llama.cpp cannot make a context")
        if adapter:
            loaded = lib.llama_adapter_lora_init(self.model, adapter.encode())
            if not loaded:
                sys.exit(f"llama.cpp cannot load {adapter}")
            adapters, scales = (lib.llama_adapter_lora_p_ctypes * 1)(loaded), (lib.ctypes.c_float * 1)(1.0)
            if lib.llama_set_adapters_lora(self.context, adapters, 1, scales) != 0:
                sys.exit(f"llama.cpp cannot use {adapter}")
        self.batch = lib.llama_batch_init(length, 0, 1)

    def logits(self, ids, first):
        """Of each of these ids, which lie behind `first` others in the cache."""
        self.batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            self.batch.token[i], self.batch.pos[i], self.batch.n_seq_id[i], self.batch.logits[i] = token, first + i, 1, 1
            self.batch.seq_id[i][0] = 0
        if lib.llama_decode(self.context, self.batch) != 0:
            sys.exit("llama_decode failed")
        size = lib.llama_vocab_n_tokens(self.vocabulary)
        return numpy.ctypeslib.as_array(lib.llama_get_logits(self.context), (len(ids), size)).astype(numpy.float64)

    def clear(self):
        lib.llama_memory_clear(lib.llama_get_memory(self.context), True)

    def answer(self, prompt, count):
        """With the token that ends it."""
        self.clear()
        ids, last, at = [], self.logits(prompt, 0)[-1], len(prompt)
        while len(ids) < count:
            ids.append(int(last.argmax()))
            if lib.llama_vocab_is_eog(self.vocabulary, ids[-1]):
                break
            last, at = self.logits(ids[-1:], at)[0], at + 1
        return ids

    def predictions(self, text):
        """Logarithms of the probabilities behind each token of a text."""
        self.clear()
        logits = self.logits(text, 0)
        logits -= logits.max(axis=1, keepdims=True)
        return logits - numpy.log(numpy.exp(logits).sum(axis=1, keepdims=True))

    def close(self):
        lib.llama_batch_free(self.batch)
        lib.llama_free(self.context)
        lib.llama_model_free(self.model)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        request = json.load(file)
    silent = lib.llama_log_callback(lambda _level, _text, _user: None)
    lib.llama_log_set(silent, None)
    lib.llama_backend_init()
    length = max(len(request["text"]), request["count"] + max(map(len, request["prompts"])))
    found, reference = {}, None
    for name, run in request["runs"].items():
        model = Model(run["model"], run["adapter"], length, request["threads"])
        answers, predicted = [model.answer(prompt, request["count"]) for prompt in request["prompts"]], model.predictions(request["text"])
        model.close()
        reference = predicted if reference is None else reference
        kl = (numpy.exp(reference) * (reference - predicted)).sum(axis=1).mean()
        found[name] = {"answers": answers, "kl": float(kl)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
