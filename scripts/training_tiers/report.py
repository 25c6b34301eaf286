"""What a call of scripts/training-tiers found: checks, runs and the machine, as JSON."""
import json
import math
import pathlib
import sys


class Wrong(Exception):
    """Why a tier cannot go on; the text is one sentence."""


def shown(value):
    """A number as sentences have it."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def plain(value):
    """As JSON has it: a number that is none becomes text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


class Report:
    """Checks as they are made. Each is told on standard error; one that fails makes the call fail."""

    def __init__(self, machine):
        self.content = {"report": "quern training tiers", "version": 1, **machine, "tiers": [], "runs": [], "checks": []}
        self.tier = ""

    def begin(self, tier):
        self.tier = tier

    def end(self, seconds):
        checks = [one for one in self.content["checks"] if one["tier"] == self.tier]
        # A tier in which nothing was checked did not pass.
        passed = bool(checks) and all(one["passed"] for one in checks)
        self.content["tiers"].append({"tier": self.tier, "passed": passed, "checks": len(checks), "seconds": round(seconds, 1)})

    @property
    def passed(self):
        return bool(self.content["tiers"]) and all(one["passed"] for one in self.content["tiers"])

    def add(self, name, asked, measured, bound, passed, sentence):
        name = name.rstrip(",")  # which a sentence goes on behind
        check = {"tier": self.tier, "check": name, "asked": asked, "measured": plain(measured), "bound": plain(bound), "passed": bool(passed)}
        if not passed:
            check["fault"] = sentence
        self.content["checks"].append(check)
        words = f"{name}: {shown(measured)} ({asked} {shown(bound)})" if passed else f"FAILED: {sentence}"
        print(f"{self.tier}: {words}", file=sys.stderr, flush=True)

    def at_most(self, name, measured, bound):
        self.add(name, "at most", measured, bound, measured <= bound, f"{name} is {shown(measured)}, and at most {shown(bound)} is allowed.")

    def at_least(self, name, measured, bound):
        self.add(name, "at least", measured, bound, measured >= bound, f"{name} is {shown(measured)}, and at least {shown(bound)} is asked for.")

    def equal(self, name, measured, expected):
        self.add(name, "equal to", measured, expected, measured == expected, f"{name} is {shown(measured)}, and {shown(expected)} is asked for.")

    def holds(self, name, measured, expected, passed):
        """A condition in words."""
        self.add(name, "has to be", measured, expected, passed, f"{name} is {shown(measured)}, and it has to be {expected}.")

    def failed(self, problem):
        """A tier that could not go on."""
        self.add("the tier", "has to", "ended early", "end", False, problem)

    def run(self, **figures):
        self.content["runs"].append({"tier": self.tier, **{name: plain(value) for name, value in figures.items() if value is not None}})

    def write(self, path):
        text = json.dumps({**self.content, "passed": self.passed}, indent=1, allow_nan=False) + "\n"
        if path is None:
            sys.stdout.write(text)
        else:
            pathlib.Path(path).write_text(text)
