"""SmolLM2-135M-Instruct on the first Vulkan device, in exact numerics: the greedy text that PyTorch gave (tests/data/smollm2).

Eight tokens of one chat: a software device takes seconds for each. Exits with 77 where there is no Vulkan device or no model file; with
CI=true a missing device is a failure.
"""

import json
import os
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).parents[2] / "end_to_end")]
from harness import DATA, Case, main, real_model

GOLDEN = json.loads((DATA / "smollm2/golden.json").read_text())
TOKENS = 8


class Golden(Case):
    def test_greedy_answer_is_equal(self):
        model = real_model()
        if self.quern("devices", "--device", "vulkan:0").code == 3 and os.environ.get("CI") != "true":
            self.skipTest("no Vulkan device")
        chat = min((chat for chat in GOLDEN["chats"] if len(chat["greedy_ids"]) >= TOKENS and min(chat["margins"][:TOKENS]) >= 0.01),
                   key=lambda chat: len(chat["prompt_ids"]))
        answer = self.quern_json("run", model, "--messages", self.write("messages.json", json.dumps(chat["messages"])), "--temperature", "0",
                                 "--max-tokens", TOKENS, "--context", "512", "--activations", "f32", "--kv", "f32", "--device", "vulkan:0",
                                 timeout=2900)
        self.assertEqual(answer["prompt_ids"], chat["prompt_ids"])
        self.assertEqual(answer["ids"], chat["greedy_ids"][:TOKENS])
        self.assertEqual(answer["statistics"]["cuts"], [])


if __name__ == "__main__":
    main()
