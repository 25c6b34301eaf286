"""llama.cpp for scripts/compare-quantize: runs in its environment, and writes one file as llama-quantize does.

    peer_quantize.py IN OUT TYPE THREADS [IMATRIX]

Prints one JSON object: {"seconds", "processor_seconds"} of the call. The matrix is read by llama.cpp's own package for GGUF files.
"""
import ctypes
import json
import resource
import sys
import time

import llama_cpp as lib
import numpy


def matrix_of(path):
    """The mean square of each column, as llama-quantize computes it; an array of entries that one without a name ends."""
    import gguf
    tensors = {tensor.name: tensor.data.astype(numpy.float32) for tensor in gguf.GGUFReader(path).tensors}
    means = {}
    for name, sums in tensors.items():
        if name.endswith(".in_sum2"):
            weight = name.removesuffix(".in_sum2")
            counts = tensors[f"{weight}.counts"].reshape(-1, 1)
            means[weight] = numpy.ascontiguousarray(sums.reshape(len(counts), -1) / counts)
    entries = (lib.llama_model_imatrix_data * (len(means) + 1))()
    for entry, (name, values) in zip(entries, means.items()):
        entry.name = name.encode()
        entry.data = values.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        entry.size = values.size
    return entries, means


def main():
    source, out, kind, threads, *matrix = sys.argv[1:]
    options = lib.llama_model_quantize_default_params()
    options.ftype = getattr(lib, f"LLAMA_FTYPE_MOSTLY_{kind}")
    options.nthread = int(threads)
    if matrix:
        entries, _values = matrix_of(matrix[0])
        options.imatrix = entries
    silent = lib.llama_log_callback(lambda _level, _text, _user: None)
    lib.llama_log_set(silent, None)
    lib.llama_backend_init()
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    status = lib.llama_model_quantize(source.encode(), out.encode(), ctypes.byref(options))
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    if status != 0:
        sys.exit(f"llama_model_quantize failed with {status}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"seconds": seconds, "processor_seconds": used}))


if __name__ == "__main__":
    main()
