#!/usr/bin/env python3
"""Time training steps of PyTorch with transformers and peft, in the shapes of scripts/make_gguf.py, beside `quern train`.

    peer_train.py PRESET [--rows 8] [--tokens 2048] [--rank 16 | --full] [--layers N] [--steps 8] [--compile] [--cpu THREADS]

Weights are random, bf16 under LoRA (adapters f32, as peft makes them) and f32 under autocast in full; AdamW, labels on every row, scaled-dot-product
attention. Prints one line: the median of the steps behind the first two, in tokens/s, and the peak of the card's memory. Needs a CUDA device,
torch, transformers and, for LoRA, peft. --cpu computes in f32 on the processor, clips gradients as `quern train` does, and prints one JSON object:
{"tokens_per_second", "tokens_per_processor_second"}.
"""
import argparse
import contextlib
import json
import statistics
import time

import torch
import transformers

import make_gguf


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("preset")
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--cpu", type=int, metavar="THREADS")
    args = parser.parse_args()
    device, exact = ("cpu", True) if args.cpu else ("cuda", args.full)
    if args.cpu:
        torch.set_num_threads(args.cpu)
    shape = make_gguf.PRESETS[args.preset]
    config = transformers.LlamaConfig(
        hidden_size=shape.dim, intermediate_size=shape.ffn, num_hidden_layers=args.layers or shape.layers, num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads, vocab_size=shape.vocab, max_position_embeddings=max(args.tokens, 2048),
        tie_word_embeddings=shape.tied or args.preset == "smollm2-135m")
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(config).to(device, torch.float32 if exact else torch.bfloat16)
    if not args.full:
        import peft
        model = peft.get_peft_model(model, peft.LoraConfig(r=args.rank, lora_alpha=args.rank, target_modules="all-linear", task_type="CAUSAL_LM"))
    step_of = torch.compile(model) if args.compile else model
    trained = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=1e-4, fused=True)
    # On the processor the ids of peer_train_llama.py: work there does not depend on them, but norms and the loss stay what text has.
    ids = torch.tensor([[(7 * i * i + 3 * i) % 40000 + 3 for i in range(args.tokens)]] * args.rows, device=device) if args.cpu else \
        torch.randint(0, shape.vocab, (args.rows, args.tokens), device=device)
    wait, precision = (contextlib.nullcontext, contextlib.nullcontext) if args.cpu else (torch.cuda.synchronize, lambda: torch.autocast("cuda", torch.bfloat16))
    times, processor = [], []
    for _ in range(args.steps):
        wait()
        began, before = time.perf_counter(), time.process_time()
        with precision():
            loss = step_of(input_ids=ids, labels=ids).loss
        loss.backward()
        if args.cpu:
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        optimiser.zero_grad()
        wait()
        times.append(time.perf_counter() - began)
        processor.append(time.process_time() - before)
    if args.cpu:
        tokens = args.rows * args.tokens
        print(json.dumps({"tokens_per_second": tokens / statistics.median(times[1:]), "tokens_per_processor_second": tokens / statistics.median(processor[1:])}))
        return
    rate = args.rows * args.tokens / statistics.median(times[2:])
    how = "full" if args.full else f"LoRA r {args.rank}"
    print(f"{args.preset} {how} {args.rows} x {args.tokens}{' compiled' if args.compile else ''}: {rate:.0f} tokens/s, "
          f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB, torch {torch.__version__}", flush=True)


main()
