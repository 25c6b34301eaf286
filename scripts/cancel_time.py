#!/usr/bin/env python3
"""Measure how long a run goes on after it is cancelled.

    cancel_time.py BUILD MODEL.gguf [--backend cpu] [--tokens 2048] [--times 20] [--threads N]

BUILD has lib/libquern.so.1. A prompt of so many tokens is begun, and cancelled from another thread at a random moment of the time that it takes;
the time from that call to the end of the answer is measured. The plugin ABI asks for 50 ms on CPUs (plugin-api/CONTRACT.md, C18): on an idle
machine. Prints the median, what 90 in 100 stay within, and the longest.
"""
import argparse
import os
import pathlib
import random
import statistics
import sys
import threading
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("model")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--threads", type=int, default=0)
    arguments = parser.parse_args()
    os.environ["QUERN_LIBRARY"] = str(arguments.build.resolve() / "lib/libquern.so.1")
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
    import quern

    rng, after, early = random.Random(1), [], 0
    with quern.Runtime(backend=arguments.backend, threads=arguments.threads) as runtime:
        with runtime.load(arguments.model, context=arguments.tokens + 64) as model, model.session() as session:
            prompt = [300 + rng.randrange(5000) for _ in range(arguments.tokens)]

            def answer():
                session.truncate(0)
                return session.generate(prompt, max_tokens=1, ignore_end=True)

            answer()
            began = time.monotonic()
            answer()
            whole = time.monotonic() - began
            while len(after) < arguments.times and early < 10 * arguments.times:
                asked = []
                timer = threading.Timer(whole * (0.05 + 0.85 * rng.random()), lambda: (asked.append(time.monotonic()), session.cancel()))
                timer.start()
                finish = answer().finish
                end = time.monotonic()
                timer.join()
                if finish == "cancelled":
                    after.append(end - asked[0])
                else:
                    early += 1
    if not after:
        print(f"cancel_time.py: no run of {whole:.3f} s was in flight when it was cancelled; more --tokens", file=sys.stderr)
        return 1
    after.sort()
    print(f"{pathlib.Path(arguments.model).name} on {arguments.backend}, a prompt of {arguments.tokens} tokens in {whole:.2f} s, {len(after)} times cancelled: it ends after "
          f"{statistics.median(after) * 1e3:.1f} ms, 90 in 100 within {after[len(after) * 9 // 10] * 1e3:.1f}, the longest {after[-1] * 1e3:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
