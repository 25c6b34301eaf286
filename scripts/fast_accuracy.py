"""How far fast numerics and llama.cpp move the predictions of a model: KL divergence from Quern's exact mode.

    fast_accuracy.py MODEL.gguf IDS.json [--peer]

IDS.json is a list of {"name", "ids"}, or the golden file of tests/data/smollm2, whose three texts are read. For every position of
every text: the divergence sum p log(p / q) of the next token's distribution, p in exact mode (--activations f32 --kv f32). Needs
numpy; --peer needs the environment that scripts/compare-peer makes: run it with that environment's Python.
"""
import argparse
import ctypes
import json
import os
import pathlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent


class ModelOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint64), ("context", ctypes.c_uint64), ("sequences", ctypes.c_uint32),
                ("activations", ctypes.c_uint32), ("kv", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
                ("progress", ctypes.c_void_p), ("progress_user", ctypes.c_void_p)]


class EvaluationInfo(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint64), ("count", ctypes.c_uint64), ("nll_sum", ctypes.c_double),
                ("argmax", ctypes.c_void_p), ("margin", ctypes.c_void_p), ("nll", ctypes.c_void_p),
                ("logits", ctypes.POINTER(ctypes.c_float)), ("logit_count", ctypes.c_uint64), ("seconds", ctypes.c_double)]


class Quern:
    """One session; logits(ids) of every position."""

    def __init__(self, model, exact):
        self.library = ctypes.CDLL(str(ROOT / "build/release/lib/libquern.so.1"))
        self.library.quern_last_error.restype = ctypes.c_char_p
        self.runtime, self.model, self.session = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("quern_runtime_create", None, ctypes.byref(self.runtime))
        options = ModelOptions(struct_size=ctypes.sizeof(ModelOptions), context=1024, sequences=1, activations=exact, kv=2 if exact else 1)
        self.call("quern_model_load", self.runtime, os.fsencode(model), ctypes.byref(options), ctypes.byref(self.model))
        self.call("quern_session_create", self.model, None, ctypes.byref(self.session))

    def call(self, name, *arguments):
        if getattr(self.library, name)(*arguments) != 0:
            raise SystemExit(f"{name}: {self.library.quern_last_error().decode()}")

    def logits(self, ids):
        evaluation = ctypes.c_void_p()
        array = (ctypes.c_int32 * len(ids))(*ids)
        self.call("quern_evaluate", self.session, ctypes.c_uint32(0), array, ctypes.c_uint64(len(ids)), ctypes.c_uint32(2),
                  ctypes.byref(evaluation))
        info = EvaluationInfo(struct_size=ctypes.sizeof(EvaluationInfo))
        self.call("quern_evaluation_get_info", evaluation, ctypes.byref(info))
        result = np.ctypeslib.as_array(info.logits, (len(ids), info.logit_count // len(ids))).astype(np.float64)
        self.library.quern_evaluation_release(evaluation)
        return result


class Peer:
    def __init__(self, model):
        import llama_cpp
        self.llama = llama_cpp.Llama(model_path=str(model), n_ctx=1024, n_batch=512, logits_all=True, verbose=False)

    def all_logits(self, ids):
        self.llama.reset()
        self.llama.eval(ids)
        return np.array(self.llama.scores[:len(ids)], dtype=np.float64)


def log_softmax(x):
    x = x - x.max()
    return x - np.log(np.exp(x).sum())


def divergence(p_logits, q_logits):
    p, q = log_softmax(p_logits), log_softmax(q_logits)
    return float((np.exp(p) * (p - q)).sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("ids", type=pathlib.Path)
    parser.add_argument("--peer", action="store_true")
    arguments = parser.parse_args()
    content = json.loads(arguments.ids.read_text())
    texts = content["texts"] if isinstance(content, dict) else content
    exact, fast = Quern(arguments.model, 1), Quern(arguments.model, 0)
    peer = Peer(arguments.model) if arguments.peer else None
    all_fast, all_peer = [], []
    for text in texts:
        ids = text["ids"]
        oracle = exact.logits(ids)
        ours_kl = [divergence(p, q) for p, q in zip(oracle, fast.logits(ids))]
        peer_kl = [divergence(p, q) for p, q in zip(oracle, peer.all_logits(ids))] if peer else []
        all_fast += ours_kl
        all_peer += peer_kl
        print(f"{text['name']}: {len(ids)} positions, KL fast {np.mean(ours_kl):.6f}" + (f", llama.cpp {np.mean(peer_kl):.6f}" if peer else ""),
              flush=True)
    print(f"all: KL fast {np.mean(all_fast):.6f}" + (f", llama.cpp {np.mean(all_peer):.6f}, ratio {np.mean(all_fast) / np.mean(all_peer):.3f}" if peer else ""))


main()
