#!/usr/bin/env python3
"""kernels_compile_test.py sees what a hot kernel and the functions that it calls spill.

usage: spill_gate_test.py KERNELS_COMPILE_TEST COMPILER NVRTC
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

GATE, COMPILER, NVRTC = sys.argv[1:4]
# 64 values that all change in each round do not fit the 32 registers a thread of two blocks of 1,024.
SOURCE = """
__device__ __noinline__ float sum_of_many(const float* p, int n) {{
  float a[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) a[i] = p[i * 5];
  for (int j = 0; j < n; ++j) {{
#pragma unroll
    for (int i = 0; i < 64; ++i) a[i] = a[i] * a[(i + 1) % 64] + p[j];
  }}
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 64; ++i) sum += a[i] * p[i];
  return sum;
}}
extern "C" __global__ void __launch_bounds__(1024, 2) {kernel}(float* p, int n) {{ {body} }}
"""


class SpillGate(unittest.TestCase):
    def gate(self, **parts):
        with tempfile.TemporaryDirectory(prefix="quern-spills-") as folder:
            pathlib.Path(folder, "unit.cu").write_text(SOURCE.format(**parts), encoding="ascii")
            pathlib.Path(folder, "hot.cu").write_text('extern "C" __global__ void rings(float* p) { p[0] = 1; }', encoding="ascii")
            done = subprocess.run([sys.executable, GATE, COMPILER, NVRTC, folder, "sm_90a"], capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout

    def test_a_kernel_that_spills_is_a_fault(self):
        code, said = self.gate(kernel="quantise", body="p[threadIdx.x] = sum_of_many(p, n) + sum_of_many(p + 1, n);")  # keeps p, n and a sum
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"(?m)^quantise for sm_90a spills \d+ bytes$")

    def test_a_function_that_it_calls_is_one_too(self):
        code, said = self.gate(kernel="quantise", body="p[threadIdx.x] = sum_of_many(p, n);")
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"(?m)^quantise for sm_90a spills \d+ bytes in \w*sum_of_many\w*, which it calls$")

    def test_what_is_not_hot_may_spill(self):
        code, said = self.gate(kernel="seldom", body="p[threadIdx.x] = sum_of_many(p, n) + sum_of_many(p + 1, n);")
        self.assertEqual(code, 0, said)

    def test_a_hot_kernel_that_spills_nothing_is_none(self):
        code, said = self.gate(kernel="quantise", body="p[threadIdx.x] = n;")
        self.assertEqual(code, 0, said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
