"""What scripts/quickstart asks is answered rightly: 20 times of 20, each with a seed of its own."""

import re

from harness import SOURCE, Case, main, real_model

RIGHT = {"Name the four seasons of the year.": ("spring", "summer", "autumn|fall", "winter")}


class Quickstart(Case):
    def test_every_answer_is_right(self):
        script = (SOURCE / "scripts/quickstart").read_text()
        question = re.search(r"(?m)^prompt=\$\{2:-(.*)\}$", script)[1]
        self.assertIn("exec \"$build/bin/quern\" run \"$model\" \"$prompt\" --max-tokens 256\n", script)  # no other flag
        model = real_model()
        for seed in range(20):
            result = self.quern("run", model, question, "--max-tokens", "256", "--seed", str(seed), "-q")
            self.assertEqual(result.code, 0, result.err)
            for season in RIGHT[question]:
                self.assertRegex(result.out.decode("utf-8", "replace").lower(), rf"\b({season})\b", f"seed {seed}")


if __name__ == "__main__":
    main()
