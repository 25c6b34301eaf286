#!/usr/bin/env python3
"""Time training steps of PyTorch with transformers and peft, in the shapes of scripts/make_gguf.py, beside `quern train`.

    peer_train.py PRESET [--rows 8] [--tokens 2048] [--rank 16 | --full] [--layers N] [--steps 8] [--compile]

Weights are random, bf16 under LoRA (adapters f32, as peft makes them) and f32 under autocast in full; AdamW, labels on every row, scaled-dot-product
attention. Prints one line: the median of the steps behind the first two, in tokens/s, and the peak of the card's memory. Needs a CUDA device,
torch, transformers and, for LoRA, peft.
"""
import argparse
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
    args = parser.parse_args()
    shape = make_gguf.PRESETS[args.preset]
    config = transformers.LlamaConfig(
        hidden_size=shape.dim, intermediate_size=shape.ffn, num_hidden_layers=args.layers or shape.layers, num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads, vocab_size=shape.vocab, max_position_embeddings=max(args.tokens, 2048),
        tie_word_embeddings=shape.tied or args.preset == "smollm2-135m")
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(config).to("cuda", torch.float32 if args.full else torch.bfloat16)
    if not args.full:
        import peft
        model = peft.get_peft_model(model, peft.LoraConfig(r=args.rank, lora_alpha=args.rank, target_modules="all-linear", task_type="CAUSAL_LM"))
    step_of = torch.compile(model) if args.compile else model
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, fused=True)
    ids = torch.randint(0, shape.vocab, (args.rows, args.tokens), device="cuda")
    times = []
    for _ in range(args.steps):
        torch.cuda.synchronize()
        began = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            loss = step_of(input_ids=ids, labels=ids).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    rate = args.rows * args.tokens / statistics.median(times[2:])
    how = "full" if args.full else f"LoRA r {args.rank}"
    print(f"{args.preset} {how} {args.rows} x {args.tokens}{' compiled' if args.compile else ''}: {rate:.0f} tokens/s, "
          f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB, torch {torch.__version__}", flush=True)


main()
