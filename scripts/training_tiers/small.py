"""The tiers quick, convergence and gradients: SmolLM2 and tiny models, by goldens and by what can be learnt by heart."""
import json
import math
import os
import pathlib

from .program import DATA, TRAINING, sha256

GOLDEN = json.loads((TRAINING / "lora.json").read_text())
TINY = json.loads((TRAINING / "tiny.json").read_text())
MIB = 1 << 20


def golden_data(name):
    return [{"path": str(TRAINING / name), "type": "chat_template"}]


class Smol:
    """SmolLM2-135M-Instruct in Q4_1 where its file is given, else its shape with random weights."""

    def __init__(self, program, file):
        self.real = file is not None
        self.path = pathlib.Path(file) if file else program.random_model("smollm2-135m-q4_1-tied", "smollm2-135m", "Q4_1", "--tied")
        self.vocabulary = 49152

    def config(self, **changes):
        """The golden run of tests/data/training/lora.json, with checkpointing."""
        config = {"base_model": str(self.path), "adapter": "qlora", "lora_r": 8, "lora_alpha": 16, "lora_target_linear": True,
                  "datasets": golden_data("train.jsonl"), "micro_batch_size": 4, "learning_rate": 1e-3, "lr_scheduler": "cosine", "warmup_steps": 6,
                  "weight_decay": 0.01, "max_grad_norm": 1.0, "float32": True, "seed": 42, "gradient_checkpointing": True, "logging_steps": 1}
        config.update(changes)
        return {key: value for key, value in config.items() if value is not None}


def tiny(model, **changes):
    """Settings of the goldens for a tiny model."""
    config = {"base_model": str(TRAINING / f"tiny-{model}.gguf"), "datasets": golden_data("train.jsonl"), "micro_batch_size": 4, "max_grad_norm": 1.0,
              "seed": 42, "float32": True, "logging_steps": 1, "weight_decay": 0.01}
    config.update(changes)
    return config


def tiny_lora(model, **changes):
    how = TINY[model]["lora"]["settings"]
    return tiny(model, **{"adapter": "lora", "lora_r": how["r"], "lora_alpha": how["alpha"], "learning_rate": how["lr"],
                          "lr_scheduler": how["schedule"], "warmup_steps": how["warmup"], "max_steps": how["steps"], **changes})


def apart(found, expected):
    return abs(found - expected) / max(1e-12, abs(expected))


def check_estimate(report, name, run):
    """The peak on the device is what `quern estimate --train` adds up, within 5 %."""
    needed = run.closing["estimate"]["devices_bytes"]
    report.at_least(f"the peak of {name} on the device, beside its estimate", run.closing["peak_bytes"] / needed, 0.95)
    report.at_most(f"the peak of {name} on the device, beside its estimate", run.closing["peak_bytes"] / needed, 1.05)


def check_device(report, name, run, backend):
    # QUERN_FALLBACK=strict refuses a node that this device does not compute.
    report.equal(f"the backend that computed {name}", run.closing["device"].split(":")[0], backend)


# ---- quick ---------------------------------------------------------------------------------------------------------


def tiny_curves(program, report):
    """The goldens of the tiny models are in f64. PyTorch's own f32 lies 1.5e-7 (losses) and 3e-7 (norms) from them. Other orders of sums get
    some six times that for a loss, which is a mean, and thirty times for a norm, whose gradients pass every layer."""
    for model in ("llama", "qwen3"):
        golden = TINY[model]["lora"]
        run = program.train(f"tiny-{model}", tiny_lora(model, test_datasets=golden_data("val.jsonl")))
        report.equal(f"the number of steps of tiny-{model}", len(run.steps), len(golden["steps"]))
        report.equal(f"the list of steps of tiny-{model} with other tokens or labels than PyTorch's",
                     [a["step"] for a, b in zip(run.steps, golden["steps"]) if (a["tokens"], a["labels"]) != (b["tokens"], b["labels"])], [])
        for key, bound in (("loss", 1e-6), ("grad_norm", 1e-5)):
            report.at_most(f"the largest relative distance of a {key} of tiny-{model} from PyTorch's in f64",
                           max(apart(a[key], b[key]) for a, b in zip(run.steps, golden["steps"])), bound)
        report.at_most(f"the relative distance of the validation loss of tiny-{model} from PyTorch's in f64",
                       apart(run.closing["validation_loss"], golden["val_loss_after"]), 1e-5)
        check_device(report, f"tiny-{model}", run, program.backend)


def check_first_loss(report, smol, run, name):
    """Step 0 has untrained adapters, so its loss is the base's."""
    if smol.real:
        report.at_most(f"the relative distance of step 0 of {name} from PyTorch's {GOLDEN['steps'][0]['loss']:.6g}",
                       apart(run.losses[0], GOLDEN["steps"][0]["loss"]), 5e-5)
        return
    # Rows of the head are random with variance 1 / width, and the row that they meet is normed, so logits have variance 1 and the mean of
    # -log p is ln(vocabulary) + 1/2. A batch has some 10 labels that differ at least: four deviations of their mean are 4 / sqrt(10).
    report.at_most(f"the distance of step 0 of {name} from the loss of random weights, ln(vocabulary) + 1/2",
                   abs(run.losses[0] - math.log(smol.vocabulary) - 0.5), 4 / math.sqrt(10))


def quick(program, report, model):
    tiny_curves(program, report)
    smol = Smol(program, model)
    # A batch of 4 as four micro-batches: the same sums in another order, and less memory.
    run = program.train("smollm2", smol.config(max_steps=10, micro_batch_size=1, gradient_accumulation_steps=4))
    state = json.loads((run.folder / "checkpoint-10/trainer_state.json").read_text())
    report.equal("the number of logged steps of smollm2", len(run.steps), 10)
    report.equal("the number of updates and of micro-batches of smollm2", [state["updates"], state["micro_batches"]], [10, 40])
    report.equal("the number of skipped steps of smollm2", run.closing["skipped"], 0)
    report.equal("the number of finite losses of smollm2", sum(math.isfinite(loss) for loss in run.losses), 10)
    check_device(report, "smollm2", run, program.backend)
    check_first_loss(report, smol, run, "smollm2")
    if smol.real:
        # The rates of PyTorch's 60 steps and of these 10 are equal up to step 6, so losses are up to step 7. Twenty times what two of
        # PyTorch's runs differ by.
        report.at_most("the largest relative distance of steps 0 to 7 of smollm2 from PyTorch's",
                       max(apart(a, b["loss"]) for a, b in zip(run.losses[:8], GOLDEN["steps"])), 5e-5)
    if program.backend == "cpu":  # what else the machine does is in the time of day, and not in the time of its processors
        report.at_most("the processor time of smollm2 on each processor, in seconds,", run.processor_seconds / len(os.sched_getaffinity(0)), 60)
    else:
        report.at_most("the time of smollm2, in seconds,", run.seconds, 60)
    report.at_most("the peak of smollm2 on the device, in bytes,", run.closing["peak_bytes"], 256 * MIB)
    check_estimate(report, "smollm2", run)


# ---- convergence ---------------------------------------------------------------------------------------------------


def chats():
    """Prompt and answer of the goldens' chats of one turn."""
    lines = [json.loads(line)["messages"] for line in (TRAINING / "train.jsonl").read_text().splitlines()]
    return [(one[0]["content"], one[1]["content"]) for one in lines if [message["role"] for message in one] == ["user", "assistant"]]


def write_chats(program, pairs):
    return [{"path": str(program.write("chats.jsonl", "".join(
        json.dumps({"messages": [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]}) + "\n"
        for prompt, answer in pairs))), "type": "chat_template"}]


def mean(numbers):
    return sum(numbers) / len(numbers)


def check_fall(report, name, run, steps):
    report.equal(f"the number of steps of {name}", len(run.steps), steps)
    report.at_most(f"the mean of the last 10 losses of {name}, beside that of the first 10", mean(run.losses[-10:]) / mean(run.losses[:10]), 0.5)


def check_answers(program, report, name, base, pairs, begins, trained):
    """Answers of the base do not begin as the data's do, and those behind the training do. `trained` is what `quern run` is given."""
    for what, arguments, expected in (("before", (base,), 0), ("behind", trained, len(pairs))):
        found = [program.answer(arguments[0], prompt, *arguments[1:], tokens=96) for prompt, _ in pairs]
        report.equal(f"the number of answers {what} the training of {name} that begin as the data's do",
                     sum(one.startswith(begins(answer)) for one, (_, answer) in zip(found, pairs)), expected)


def tiny_by_heart(program, report):
    """All weights of a tiny model learn four chats by heart: answers are then the data's, to their end."""
    pairs = chats()[:4]
    data = write_chats(program, pairs)
    for model in ("llama", "qwen3"):
        name, config = f"tiny-{model}-by-heart", tiny(model, datasets=data, learning_rate=3e-3, lr_scheduler="cosine", warmup_steps=5, max_steps=100)
        run = program.train(name, config)
        check_fall(report, name, run, 100)
        check_answers(program, report, name, config["base_model"], pairs, lambda answer: answer, (run.folder / "model.gguf",))


def as_f16(program, smol):
    """The base in f16, by merging an adapter that changes nothing: B is 0 before the first update, whose rate is 0."""
    run = program.train("untrained", smol.config(max_steps=1, warmup_steps=1))
    path = program.folder / "smollm2-f16.gguf"
    program.do("merge", smol.path, run.folder, "-o", path, "--type", "f16")
    return path


def convergence(program, report, model):
    tiny_by_heart(program, report)
    smol = Smol(program, model)
    if smol.real:
        data = {"test_datasets": golden_data("val.jsonl"), "eval_steps": 50}
        pairs, begin = [(one["messages"][0]["content"], "Short answer:") for one in GOLDEN["answers"]], lambda answer: answer
    else:  # random weights cannot generalise, so they learn four chats by heart
        pairs, begin = chats()[:4], lambda answer: answer[:len("Short answer:")]
        data = {"datasets": write_chats(program, pairs)}
    f16 = as_f16(program, smol)
    for name, config, base in (("smollm2-qlora", smol.config(max_steps=100, **data), smol.path),
                               ("smollm2-f16-lora", smol.config(max_steps=100, base_model=str(f16), adapter="lora", float32=None, bf16=True, **data), f16)):
        run = program.train(name, config)
        check_fall(report, name, run, 100)
        check_device(report, name, run, program.backend)
        if smol.real:
            report.at_most(f"the validation loss of {name}", run.closing["validation_loss"], 1.3)
        check_answers(program, report, name, base, pairs, begin, (base, "--adapter", run.folder))


# ---- gradients -----------------------------------------------------------------------------------------------------


def check_gradients(program, report, name, config):
    """Central differences of the loss in 20 directions within 1 %, by f32. Each trained tensor is reached: A of an adapter has no gradient
    while B is 0, everything else has one, and behind an update A has one too."""
    base = pathlib.Path(config["base_model"])
    before = sha256(base)
    found = program.json("train", program.config(name, {**config, "max_steps": 3}), "--check-gradients", "--quiet", codes=(0, 70))
    slopes = found["directions"]
    report.equal(f"the number of directions of {name}", len(slopes), 20)
    report.at_most(f"the largest relative distance of a slope of {name} from differences of the loss",
                   max((apart(one["difference"], one["slope"]) for one in slopes), default=math.inf), 0.01)
    adapters = sum(tensor["name"].endswith(".lora_a") for tensor in found["tensors"])
    wrong = [tensor["name"] for tensor in found["tensors"]
             if not (isinstance(tensor["norm"], float) and math.isfinite(tensor["norm"]) and tensor["norm"] > 0
                     and (tensor["first_norm"] == 0) == tensor["name"].endswith(".lora_a"))]
    report.equal(f"the list of tensors of {name} whose gradient is not finite, or 0 where it must not be,", wrong, [])
    report.holds(f"the memory of the weights of {name} behind the check", "unchanged" if found["weights_unchanged"] else "changed", "unchanged",
                 found["weights_unchanged"])
    report.holds(f"the file of {name} behind the check", "unchanged" if sha256(base) == before else "changed", "unchanged", sha256(base) == before)
    report.equal(f"the backend that computed {name}", found["device"].split(":")[0], program.backend)
    report.holds(f"what quern found of {name}", "right" if found["passed"] else "wrong", "right", found["passed"])
    report.run(run=name, base=base.name, adapter=config.get("adapter", "all weights"), rank=config.get("lora_r"), tensors=len(found["tensors"]),
               weights_sha256=found["weights_sha256"])
    return adapters


def gradients(program, report, model):
    ids = [{"path": str(program.write("ids.jsonl", "".join(json.dumps({"input_ids": [(7 * i + 3 * j) % 40 + 3 for j in range(12)]}) + "\n"
                                                           for i in range(8)))), "type": "tokenized"}]
    adapter = {"adapter": "lora", "lora_r": 4, "lora_alpha": 8}
    for name in ("micro-llama-f32", "micro-llama-q4_0", "micro-llama-q8_0", "micro-qwen2-f16", "micro-qwen3-q8_0"):
        for kind, changes in (("lora", adapter), ("full", {})):
            check_gradients(program, report, f"{name}-{kind}", {"base_model": str(DATA / f"gguf/{name}.gguf"), "datasets": ids, "micro_batch_size": 2,
                                                                "learning_rate": 0.01, "float32": True, **changes})
    for name in ("llama", "qwen3"):
        for kind, changes in (("lora", {}), ("rslora", {"peft_use_rslora": True}), ("dropout", {"lora_dropout": 0.1}),
                              ("q_v", {"lora_target_modules": ["q_proj", "v_proj"]}), ("checkpointed", {"gradient_checkpointing": True})):
            check_gradients(program, report, f"tiny-{name}-{kind}", tiny_lora(name, micro_batch_size=1, **changes))
        check_gradients(program, report, f"tiny-{name}-full", tiny(name, micro_batch_size=1, learning_rate=1e-3))
    smol = Smol(program, model)
    adapters = check_gradients(program, report, "smollm2", smol.config(micro_batch_size=1))
    # Seven matrices in each of 30 layers: gradients passed both norms of each layer and the last one, 61.
    report.equal("the number of adapters of smollm2", adapters, 7 * 30)

