#!/usr/bin/env python3
"""Measure sessions that answer at the same time on one device, and how long one goes on after it is cancelled meanwhile.

    session_speed.py BUILD MODEL.gguf [--backend cuda] [--sessions 2] [--tokens 512] [--times 5]

BUILD has lib/libquern.so.1. Each session has a thread, and decodes so many tokens alone at batch 1. The first line has the tokens/s of one session,
and the sum of those of all sessions that began together: medians of so many rounds. The second line has the time from a cancel of
one session, at a random moment, to the end of its answer, while the others go on; and the time of a step beside it.
"""
import argparse
import os
import pathlib
import random
import statistics
import sys
import threading
import time


class Round:
    """All sessions answer the same prompt at once."""

    def __init__(self, sessions, tokens):
        self.starts = threading.Barrier(len(sessions))
        self.answers = [None] * len(sessions)
        self.ends = [0.0] * len(sessions)
        self.tokens = tokens
        self.threads = [threading.Thread(target=self.answer, args=(i, session)) for i, session in enumerate(sessions)]

    def answer(self, index, session):
        session.truncate(0)
        self.starts.wait()
        self.answers[index] = session.generate([1, 5, 6, 7], max_tokens=self.tokens, ignore_end=True)
        self.ends[index] = time.monotonic()

    def run(self, meanwhile=lambda: None):
        for thread in self.threads:
            thread.start()
        meanwhile()
        for thread in self.threads:
            thread.join()
        return self

    def speed(self):
        """Tokens/s of all."""
        return sum((len(answer.ids) - 1) / answer.decode_seconds for answer in self.answers)


def cancels(sessions, tokens, whole, times, rng):
    """Seconds from the cancel of the first session to the end of its answer."""
    after = []
    while len(after) < times:
        asked = []

        def cancel():
            time.sleep(whole * (0.2 + 0.6 * rng.random()))
            asked.append(time.monotonic())
            sessions[0].cancel()

        done = Round(sessions, tokens).run(cancel)
        if done.answers[0].finish == "cancelled":
            after.append(done.ends[0] - asked[0])
        for answer in done.answers[1:]:
            if answer.finish == "cancelled":
                raise SystemExit("session_speed.py: the cancel of one session ended another")
    return after


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("model")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--sessions", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--times", type=int, default=5)
    arguments = parser.parse_args()
    os.environ["QUERN_LIBRARY"] = str(arguments.build.resolve() / "lib/libquern.so.1")
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
    import quern

    name = pathlib.Path(arguments.model).name
    with quern.Runtime(backend=arguments.backend) as runtime, runtime.load(arguments.model, context=arguments.tokens + 64) as model:
        sessions = [model.session() for _ in range(arguments.sessions)]
        try:
            Round(sessions, arguments.tokens).run()  # kernels are loaded, clocks are up
            one = statistics.median(Round(sessions[:1], arguments.tokens).run().speed() for _ in range(arguments.times))
            together = statistics.median(Round(sessions, arguments.tokens).run().speed() for _ in range(arguments.times))
            step = len(sessions) / together
            print(f"{name} on {arguments.backend}: one session {one:.1f} tokens/s, {len(sessions)} together {together:.1f}, {together / one:.2f} times as many")
            after = sorted(cancels(sessions, arguments.tokens, arguments.tokens * step, 4 * arguments.times, random.Random(1)))
            print(f"{len(after)} times cancelled beside the others: it ends after {statistics.median(after) * 1e3:.2f} ms, the longest "
                  f"{after[-1] * 1e3:.2f}; a step takes {step * 1e3:.2f}")
        finally:
            for session in sessions:
                session.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
