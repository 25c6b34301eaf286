"""The tier agreement: one file of settings on several backends in exact mode, compared step by step."""
import itertools
import shutil

from .small import TINY, apart, tiny, tiny_lora

STEPS = 200
# Each backend may be 2e-4 from PyTorch's f32 at its 60 steps (RealGoldens of tests/end_to_end/training_golden_test.py), so two may be 4e-4 apart;
# a quarter is added for the further steps. Rounding alone does not grow: two runs of PyTorch with other attention code stay at 2.3e-6.
BOUND = 5e-4


def settings():
    """By name: LoRA and all weights, over 200 steps, with the highest rates of the goldens."""
    changes = {"max_steps": STEPS, "lr_scheduler": "cosine", "warmup_steps": 10}
    return {"tiny-llama-lora": tiny_lora("llama", **changes), "tiny-qwen3-full": tiny("qwen3", **changes, learning_rate=TINY["qwen3"]["full"]["settings"]["lr"])}


def check_pair(report, name, one, other):
    """Losses lie within the bound at each step; what no device computes is equal."""
    (a, a_steps), (b, b_steps) = one, other
    steps = list(zip(a_steps, b_steps))
    report.equal(f"the list of steps of {name} with other tokens, labels or rates on {a} and {b}",
                 [x["step"] for x, y in steps if any(x[key] != y[key] for key in ("step", "tokens", "labels", "learning_rate"))], [])
    report.at_most(f"the largest relative distance of a loss of {name} on {a} and {b}", max(apart(x["loss"], y["loss"]) for x, y in steps), BOUND)


def agreement(program, report, _):
    for name, config in settings().items():
        curves = {}
        for one in (program, *program.others):
            run = one.train(f"agreement-{name}-{one.backend}", config)
            report.equal(f"the number of steps of {name} on {one.backend}", len(run.steps), STEPS)
            report.equal(f"the backend that computed {name} on {one.backend}", run.closing["device"].split(":")[0], one.backend)
            if program.curves:
                shutil.copyfile(run.folder / "loss.svg", program.curves / f"{name}-{one.backend}.svg")
            curves[one.backend] = run.steps
        for one, other in itertools.combinations(curves.items(), 2):
            check_pair(report, name, one, other)
