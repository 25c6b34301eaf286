"""The tiers memory, extended and full: true shapes of 1.1B and 7B parameters with random weights, on text that is learnt by heart."""
import json
import math
import pathlib
import statistics
import time

from .program import sha256, tensors
from .report import Wrong
from .small import check_device, check_estimate, mean

GB = 10 ** 9
SHAPES = {"tinyllama": ("tinyllama-1.1b", "Q4_K_M"), "tinyllama-f16": ("tinyllama-1.1b", "F16"), "7b": ("llama-7b", "Q4_K_M")}
# Words of the random models' vocabulary, each one token; 16 of them in one order, over and over.
WORDS = "to in an at he it or so we me do go no up us if".split()
TEXT = " ".join(WORDS)


def text_data(program, rows):
    """Examples of one text, each cut at so many tokens."""
    return [{"path": str(program.write(f"text-{rows}.jsonl", 16 * (json.dumps({"text": " ".join([TEXT] * (rows // 16 + 1))}) + "\n"))),
             "type": "completion"}]


def config_of(program, shape, rows, steps, **changes):
    return {"base_model": str(program.random_model(shape, *SHAPES[shape])), "adapter": "qlora", "lora_r": 8, "lora_alpha": 16,
            "datasets": text_data(program, rows), "sequence_len": rows, "excess_length_strategy": "truncate", "micro_batch_size": 1,
            "learning_rate": 1e-3, "lr_scheduler": "cosine", "warmup_steps": max(1, steps // 20), "max_steps": steps, "bf16": True, "seed": 42,
            "gradient_checkpointing": True, "logging_steps": 10, **changes}


def check_rows(report, name, run, rows):
    report.equal(f"the list of row counts of steps of {name}", sorted({step["tokens"] for step in run.steps}), [rows])


def check_flat(report, name, run, first=20):
    """Behind step 20 nothing grows: what Quern has on the device, and the anonymous memory of the process. A save takes host memory for its time,
    which the estimate counts. So two halves of the steps are compared by their medians, and the peak is compared with the estimate. The allocator may
    keep some of what a save took: 0.2 and 1.7 MB were seen behind second saves, of 57 MB. A twentieth is 2.8 MB. A copy of an adapter that stays
    behind each save is 25 MB."""
    device = [step["memory_bytes"] for step in run.steps[first:]]
    report.at_most(f"the growth of {name} on the device behind step {first}", max(device) / device[0] - 1, 0.01)
    seen = [(step, taken) for step, taken in run.anonymous if step > first]
    middle = (first + len(run.steps)) / 2
    halves = [[taken for step, taken in seen if (step > middle) == later] for later in (False, True)]
    if not all(halves):
        raise Wrong(f"the memory of {name} was seen {len(halves[0])} and {len(halves[1])} times in the halves behind step {first}, and once in each is needed.")
    before, behind = map(statistics.median, halves)
    host = run.closing["estimate"]["host_bytes"]
    report.at_most(f"the growth of the process of {name} behind step {first}, in bytes,", behind - before, before / 100 + host / 20)
    report.at_most(f"what the process of {name} took for a time behind step {first}, in bytes,", max(taken for _, taken in seen) - before, host)


def check_allocations(program, report, name, config, run):
    """A run of two steps allocates as often on the device as a long one, so no later step allocates."""
    short = program.train(f"{name}-2-steps", {**config, "max_steps": 2, "warmup_steps": 0})
    report.equal(f"the number of allocations of {name} on the device behind its second step", run.closing["allocations"] - short.closing["allocations"], 0)


def memory(program, report, _, steps=50):
    config = config_of(program, "tinyllama", 256, steps)
    needed = program.estimate("tinyllama", config)
    run = program.train("tinyllama", config)
    report.equal("the number of steps of tinyllama", len(run.steps), steps)
    report.equal("the number of finite losses of tinyllama", sum(map(math.isfinite, run.losses)), steps)
    check_rows(report, "tinyllama", run, 256)
    check_device(report, "tinyllama", run, program.backend)
    report.at_most("the peak of tinyllama on the device, in bytes,", run.closing["peak_bytes"], 2 * GB)
    report.equal("the estimate of tinyllama by quern estimate --train, beside the run's own", needed, run.closing["estimate"])
    check_estimate(report, "tinyllama", run)
    check_flat(report, "tinyllama", run)
    check_allocations(program, report, "tinyllama", config, run)


def check_speed_of_blocks(program, report, steps=12):
    """What it costs to decode quantised weights: tokens/s beside those of the same shape in f16, on 2,048 rows at a time."""
    rates = []
    for shape, adapter in (("tinyllama-f16", "lora"), ("tinyllama", "qlora")):
        run = program.train(f"{shape}-rate", config_of(program, shape, 512, steps, adapter=adapter, micro_batch_size=4, gradient_checkpointing=False))
        rates.append(statistics.median(step["tokens_per_second"] for step in run.steps[4:]))  # the first steps choose kernels
    report.at_least("the tokens/s of tinyllama by QLoRA, beside those of LoRA in f16", rates[1] / rates[0], 0.8)


def extended(program, report, _, steps=500):
    config = config_of(program, "tinyllama", 512, steps, gradient_accumulation_steps=4)
    run = program.train("tinyllama-long", config)
    report.equal("the number of steps of tinyllama-long", len(run.steps), steps)
    check_rows(report, "tinyllama-long", run, 4 * 512)
    check_device(report, "tinyllama-long", run, program.backend)
    report.at_most("the mean of the last 10 losses of tinyllama-long, beside the first loss", mean(run.losses[-10:]) / run.losses[0], 0.6)
    check_flat(report, "tinyllama-long", run)
    check_allocations(program, report, "tinyllama-long", config, run)
    # The first steps of a process choose kernels; the rate of a step is asked for behind them, as memory is.
    seconds = sorted(step["seconds"] for step in run.steps[20:])
    report.at_most("the slowest step but 1 % of tinyllama-long, beside the median",
                   seconds[math.ceil(0.99 * len(seconds)) - 1] / statistics.median(seconds), 1.2)
    check_speed_of_blocks(program, report)


def check_resumed(report, killed, resumed, at, save):
    """The steps that both made have the same bits, since the resumed run began at the checkpoint before the kill."""
    begin = at // save * save
    again = {step[0]: step for step in resumed.curve}
    both = [step for step in killed.curve if step[0] > begin]
    report.at_least(f"the number of steps of 7b behind {begin} that the killed run made", len(both), at - begin)
    report.equal("the list of steps of 7b that differ in bits from the killed run's", [step[0] for step in both if again.get(step[0]) != step], [])


def check_merged(program, report, base, adapter, merged):
    """A merged weight is rounded to f16, by 2^-12 / sqrt(3) of itself in the mean. Each of 4 x 32 matrices adds an error of that size, of its
    own, to a stream of rows that it is a part of: sqrt(128) * 2^-12 / sqrt(3) = 1.6e-3 of the logits. Three times that are allowed."""
    text = f"{TEXT} {TEXT} to in"
    with_adapter, of_merged = program.logits(base, text, "--adapter", adapter), program.logits(merged, text)
    size = math.sqrt(sum(x * x for x in with_adapter))
    report.at_most("the distance of the merged 7b's logits from those of base and adapter, beside their size",
                   math.sqrt(sum((a - b) ** 2 for a, b in zip(with_adapter, of_merged, strict=True))) / size, 5e-3)
    plain = program.logits(base, text)
    report.at_least("the distance of the base's logits from those of base and adapter, beside their size",
                    math.sqrt(sum((a - b) ** 2 for a, b in zip(with_adapter, plain, strict=True))) / size, 5e-2)


def check_exported(program, report, base, adapter):
    """To a GGUF adapter and back: the same numbers."""
    gguf, back = program.folder / "adapter.gguf", program.folder / "adapter-back"
    program.do("export", base, adapter, "-o", gguf, "--format", "gguf")
    program.do("export", base, gguf, "-o", back, "--format", "peft")
    before, behind = (tensors(folder / "adapter_model.safetensors") for folder in (adapter, back))
    report.equal("the list of tensors of the adapter that an export to GGUF and back changes", sorted(name for name in before.keys() | behind.keys()
                                                                                        if before.get(name) != behind.get(name)), [])


def full(program, report, _, steps=1000, kill=600, save=250):
    config = config_of(program, "7b", 512, steps, lora_target_modules=["q_proj", "k_proj", "v_proj", "o_proj"], save_steps=save)
    base = pathlib.Path(config["base_model"])
    before, began = sha256(base), time.monotonic()
    killed = program.train("7b", config, kill_at=kill)
    resumed = program.train("7b", config, "--resume", fresh=False)
    report.equal("the number of steps of 7b", len(resumed.steps), steps)
    check_rows(report, "7b", resumed, 512)
    check_device(report, "7b", resumed, program.backend)
    check_resumed(report, killed, resumed, kill, save)
    report.at_most("the peak of 7b on the device, in bytes,", resumed.closing["peak_bytes"], 12 * GB)
    check_estimate(report, "7b", resumed)
    merged = program.folder / "7b-merged.gguf"
    program.do("merge", base, resumed.folder, "-o", merged)
    check_merged(program, report, base, resumed.folder, merged)
    # Greedy text goes on as the text that was learnt: 12 of its words behind its first 20.
    begun, wanted = f"{TEXT} {' '.join(WORDS[:4])}", " ".join(WORDS[4:])
    for name, model, expected in (("before training", base, False), ("of the merged model", merged, True)):
        text = program.answer(model, begun, "--raw").strip()
        report.equal(f"whether the answer {name} begins as the text goes on", text.startswith(wanted), expected)
    # The killed run, its second part, the merge and the answers.
    report.at_most("the time of 7b, in seconds,", time.monotonic() - began, 15 * 60)
    check_exported(program, report, base, resumed.folder)
    report.holds("the file of 7b behind it all", "unchanged" if sha256(base) == before else "changed", "unchanged", sha256(base) == before)

