"""llama.cpp as the scripts compare with it: the one in the PyPI source package llama-cpp-python, built with native flags in an environment of
its own (~/.cache/quern-dev/peer-...; about ten minutes once). On processors with AMX peer_tiles.h comes in front, or what GCC 12 makes of
it ends with an illegal instruction."""
import json
import os
import pathlib
import subprocess
import sys

VERSION = "0.3.36"
ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "quern-dev"
NO_AVX512 = ("-DGGML_NATIVE=OFF -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON "
             "-DGGML_SSE42=ON -DGGML_AVX512=OFF")
WIDER = {"avx512f", "avx_vnni"}  # instruction sets beside AVX2 that llama.cpp uses


def processor(key):
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.split(":")[0].strip() == key:
            return line.split(":", 1)[1].strip()
    return "unknown"


def output_of(*command):
    """Standard output of a command; ends the program where it fails."""
    done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed with {done.returncode}:\n{done.stderr.decode(errors='replace')[-2000:]}")
    return done.stdout.decode()


def json_of(*command):
    """The last line of what a command prints, which is JSON."""
    return json.loads(output_of(*command).splitlines()[-1])


def peer_python(avx2):
    """The interpreter of the peer's environment, which is made if it is missing. Native flags are those of AVX2 where there is no more."""
    if avx2 and not WIDER & set(processor("flags").split()):
        avx2 = False
    tiles = not avx2 and "amx_tile" in processor("flags").split()
    folder = CACHE / f"peer-{VERSION}-{'avx2' if avx2 else 'native-amx' if tiles else 'native'}"
    python, done = folder / "bin/python", folder / "built"
    if not done.exists():
        print(f"building llama-cpp-python {VERSION} into {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        flags = (NO_AVX512 if avx2 else "-DGGML_NATIVE=ON") + " -DLLAVA_BUILD=OFF"
        environment = {**os.environ, "CMAKE_ARGS": flags}
        if tiles:
            for name in ("CFLAGS", "CXXFLAGS"):
                environment[name] = f'{os.environ.get(name, "")} -include "{ROOT / "scripts/peer_tiles.h"}"'.strip()
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--no-binary", "llama-cpp-python",
                        f"llama-cpp-python=={VERSION}"], check=True, env=environment)
        done.touch()
    return python
