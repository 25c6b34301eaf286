"""Which device a model runs on where the user named none: a discrete card that has one op does not come before the CPU, which has all."""

import os

from harness import DATA, MICRO, Case, main

PARTIAL = os.environ["QUERN_TEST_PARTIAL"]
SENTENCE = (DATA / "choice/passed_over.txt").read_text().strip()
RUN = ("run", MICRO, "x", "--raw", "--max-tokens", "2", "--temperature", "0")


class Choice(Case):
    def run_with(self, **more):
        result = self.quern(*RUN, env={"QUERN_BACKEND_EXTRA_PATH": PARTIAL, "QUERN_BACKEND_DISABLE": "cuda,vulkan", **more})
        self.assertEqual(result.code, 0, result.err)
        return result

    def test_a_card_with_one_op_is_first_in_rank_and_the_cpu_computes(self):
        env = {"QUERN_BACKEND_EXTRA_PATH": PARTIAL, "QUERN_BACKEND_DISABLE": "cuda,vulkan"}
        first = next(d["name"] for d in self.quern_json("doctor", env=env)["devices"] if d["rank"] == 0)
        self.assertEqual(first, "partial:0")
        result = self.run_with()
        last = result.err.splitlines()[-1]
        self.assertTrue(last.startswith("cpu on cpu:0 "), last)
        self.assertTrue(last.endswith("; " + SENTENCE), last)
        self.assertIn(f"warning: runtime: {MICRO}: {SENTENCE}", result.err)
        self.assertEqual(result.out, self.run_with(QUERN_BACKEND="cpu").out)

    def test_a_demand_is_not_overridden_and_the_line_counts_what_crosses(self):
        last = self.run_with(QUERN_BACKEND="partial,cpu").err.splitlines()[-1]
        crossings = SENTENCE.split(" nodes, and ")[1].split()[0]
        self.assertTrue(last.endswith(f"; {crossings} values cross between partial:0 and cpu:0 in each step"), last)
        self.assert_fails(4, "partial:0", *RUN, env={"QUERN_BACKEND_EXTRA_PATH": PARTIAL, "QUERN_DEVICE": "partial:0"})

    def test_doctor_tries_it_with_the_cpu_behind_it_and_counts_too(self):
        env = {"QUERN_BACKEND_EXTRA_PATH": PARTIAL, "QUERN_BACKEND_DISABLE": "cuda,vulkan"}
        tried = {one["device"]: one for one in self.quern_json("doctor", "--try", env=env)["tried"]}
        self.assertTrue(all(one["right"] for one in tried.values()), tried)
        self.assertRegex(tried["partial:0"]["shared"], "^[0-9]+ values cross between partial:0 and cpu:0 in each step$")
        self.assertIsNone(tried["cpu:0"]["shared"])

    def test_strict_means_the_device_that_has_all(self):
        self.assertTrue(self.run_with(QUERN_FALLBACK="strict").err.splitlines()[-1].startswith("cpu on cpu:0 "))

    def test_an_estimate_is_of_the_device_that_computes(self):
        def figures(**env):
            words = self.quern_json("estimate", MICRO, env={"QUERN_BACKEND_DISABLE": "cuda,vulkan", **env})
            return {k: v for k, v in words.items() if "available" not in k}
        self.assertEqual(figures(QUERN_BACKEND_EXTRA_PATH=PARTIAL), figures())


if __name__ == "__main__":
    main()
