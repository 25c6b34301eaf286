"""What scripts/quickstart asks is answered with the right word: 20 times of 20, each with a seed of its own.

The word alone is looked for. What a model of 135M parameters writes around it may be wrong.
"""

import re
import unittest

from harness import SOURCE, Case, main, real_model

RIGHT = {"What is the process called by which plants make food from sunlight?": "photosynthesis"}


class Quickstart(Case):
    def test_the_right_word_is_in_every_answer(self):
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
