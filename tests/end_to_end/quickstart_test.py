"""The question of scripts/quickstart is one that the default settings answer rightly: 20 times of 20, each with a seed of its own."""

import re
import unittest

from harness import SOURCE, Case, main, real_model

RIGHT = {"What is the process called by which plants make food from sunlight?": "photosynthesis"}


class Quickstart(Case):
    def test_its_question_is_answered_rightly_in_every_run(self):
        script = (SOURCE / "scripts/quickstart").read_text()
        question = re.search(r"(?m)^prompt=\$\{2:-(.*)\}$", script)[1]
        self.assertIn(f"exec \"$build/bin/quern\" run \"$model\" \"$prompt\" --max-tokens 256\n", script)  # no other flag
        model = real_model()
        for run in range(20):
            result = self.quern("run", model, question, "--max-tokens", "256", "-q")
            self.assertEqual(result.code, 0, result.err)
            self.assertIn(RIGHT[question], result.out.decode("utf-8", "replace").lower(), f"run {run + 1}")


if __name__ == "__main__":
    main()
