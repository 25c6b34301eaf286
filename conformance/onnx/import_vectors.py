#!/usr/bin/env python3
"""Turns the node tests of the PyPI package onnx that our ops can express into the case file of the conformance suite.

    python3 -m venv /tmp/onnx && /tmp/onnx/bin/pip install onnx==1.23.2
    /tmp/onnx/bin/python conformance/onnx/import_vectors.py conformance/onnx

Writes vectors.txt and vectors.bin (their form: vector_file.py) and left_out.md. The suite reads them alone: no test needs the package.
A test with random data has a seed of its own in the package, so that the same version gives the same bytes.
"""
import collections
import pathlib
import sys
import warnings

import numpy as np

warnings.simplefilter("ignore")
import onnx  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402
from onnx.backend.test.case.node import collect_testcases  # noqa: E402

from node_mappings import MAPPINGS  # noqa: E402
from vector_file import Data, Graph, LeftOut  # noqa: E402

MOST_BYTES = 200_000  # of one test's arrays
# Tests that a mapping expresses and whose values our f64 reference does not reproduce within ONNX's tolerance, with the reason.
BF16_STEPS = "ONNX's bf16 steps in between leave its value one bf16 away from the exact one"
DISAGREE = {
    **{name: BF16_STEPS for name in ("attention_3d_causal_bf16", "attention_4d_attn_mask_causal_bf16", "attention_4d_causal_bf16",
                                     "attention_4d_causal_padded_kv_bf16", "attention_4d_padded_kv_bf16")},
    **{name: "seven dimensions; a tensor has six at most" for name in ("nllloss_NCd1d2d3d4d5_mean_weight", "sce_NCd1d2d3d4d5_mean_weight")},
}


class Test:
    """One node test: its attributes, inputs (None where absent) and outputs as arrays."""

    def __init__(self, case):
        node = case.model.graph.node[0]
        self.name = case.name.removeprefix("test_")
        self.rtol, self.atol = case.rtol, case.atol
        self.op_type = node.op_type
        self.attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        inputs, outputs = case.data_sets[0]
        given = iter(self.array(v) for v in inputs)
        self.inputs = [next(given) if name else None for name in node.input]
        while self.inputs and self.inputs[-1] is None:
            self.inputs.pop()
        self.outputs = [self.array(v) for v in outputs]
        self.output_names = [name for name in node.output if name]

    @staticmethod
    def array(value):
        if isinstance(value, onnx.TensorProto):
            return numpy_helper.to_array(value)
        if not isinstance(value, (np.ndarray, np.generic)):
            raise LeftOut("sequences, optionals and strings")
        return np.asarray(value)

    @property
    def x(self):
        return self.inputs[0]

    @property
    def y(self):
        return self.outputs[0]


def build(case):
    nodes = case.model.graph.node
    if "_expanded" in case.name:
        raise LeftOut("the same vectors as the test without _expanded")
    if len(nodes) != 1:
        raise LeftOut("a model of several ONNX nodes")
    if nodes[0].op_type not in MAPPINGS:
        raise LeftOut("no op of ours computes it: " + nodes[0].op_type)
    test, graph = Test(case), Graph()
    if sum(a.nbytes for a in test.inputs + test.outputs if a is not None) > MOST_BYTES:
        raise LeftOut("more than 200 kB of data, and smaller tests of the same kind are taken")
    if test.inputs and test.x is not None and test.x.dtype.kind in "iub":
        raise LeftOut("arithmetic and copies of integers and booleans")
    if test.name in DISAGREE:
        raise LeftOut(DISAGREE[test.name])
    MAPPINGS[test.op_type](test, graph)
    return test, graph


def left_out_text(reasons, taken, total):
    lines = ["# Node tests of ONNX that are not in vectors.txt", "",
             f"onnx {onnx.__version__} has {total} node tests; {taken} are taken. Written by import_vectors.py.", "",
             "| tests | why they are left out | which |", "|---|---|---|"]
    missing = collections.Counter()
    for reason, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
        if reason.startswith("no op of ours computes it: "):
            missing[reason.removeprefix("no op of ours computes it: ")] += len(names)
            continue
        shown = "each of them" if reason.startswith("the same vectors") else ", ".join(names)
        lines.append(f"| {len(names)} | {reason} | {shown} |")
    ops = ", ".join(f"{op} {n}" for op, n in sorted(missing.items()))
    lines.append(f"| {sum(missing.values())} | no op of ours computes it, or a view of ours does, which is no node | {ops} |")
    return "\n".join(lines) + "\n"


def main():
    folder = pathlib.Path(sys.argv[1])
    data, lines, reasons, taken = Data(), [f"onnx {onnx.__version__}"], collections.defaultdict(list), 0
    cases = collect_testcases(None)
    for case in sorted(cases, key=lambda c: c.name):
        try:
            test, graph = build(case)
        except LeftOut as reason:
            reasons[str(reason)].append(case.name.removeprefix("test_"))
            continue
        lines.append(f"case {test.name} {test.rtol:g} {test.atol:g}")
        lines += graph.lines(data)
        taken += 1
    (folder / "vectors.txt").write_text("\n".join(lines) + "\n")
    (folder / "vectors.bin").write_bytes(bytes(data.bytes))
    (folder / "left_out.md").write_text(left_out_text(reasons, taken, len(cases)))
    print(f"{taken} of {len(cases)} tests, {len(data.bytes)} bytes of data")


if __name__ == "__main__":
    main()
