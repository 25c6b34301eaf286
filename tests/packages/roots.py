"""Clean Debian systems to install packages into: made once by debootstrap, then laid under a throw-away layer for each test.

Needs root and a mirror; the mirror is the one that this machine's own apt uses. Call in_own_mounts() first: all mounts are then
gone when the process is.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CACHE = pathlib.Path(os.environ.get("QUERN_SCRIPT_CACHE") or
                     pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "quern-dev") / "roots"


def in_own_mounts():
    """Starts this program again in mounts of its own; leaves with 77 and a reason where that cannot be."""
    if os.environ.get("QUERN_OWN_MOUNTS") == "1":
        return
    if os.geteuid() != 0:
        skip("installing packages into a root needs the user root")
    for program in ("debootstrap", "unshare", "dpkg-scanpackages"):
        if shutil.which(program) is None:
            skip(f"{program} is not installed")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        skip("this container may not have mounts of its own")
    os.environ["QUERN_OWN_MOUNTS"] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


def mirror():
    """The URI from which this machine's apt gets Debian."""
    folder = pathlib.Path("/etc/apt")
    files = [folder / "sources.list", *sorted(folder.glob("sources.list.d/*.list")), *sorted(folder.glob("sources.list.d/*.sources"))]
    for file in files:
        text = file.read_text() if file.is_file() else ""
        for pattern in (r"(?m)^deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+\S+\s+.*\bmain\b", r"(?m)^URIs:\s*(\S+)"):
            for uri in re.findall(pattern, text):
                if re.search(r"/debian/?$", uri):
                    return uri
    skip("no source of Debian packages was found below /etc/apt")


def host_settings():
    """What this machine's apt knows of proxies and dates, for the roots."""
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout
    wanted = ("Acquire::http::", "Acquire::https::", "Acquire::Check-Valid-Until", "Acquire::Check-Date")
    return "".join(line + "\n" for line in dump.splitlines() if line.startswith(wanted))


def base(suite):
    """The folder of a minimal system, made if it is not there."""
    folder = CACHE / suite
    if not (folder / ".whole").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        uri = mirror()
        done = subprocess.run(["debootstrap", "--variant=minbase", suite, folder, uri], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"debootstrap {suite} from {uri}: {done.stdout[-2000:]}{done.stderr[-500:]}")
        (folder / "etc/apt/sources.list").write_text(f"deb {uri} {suite} main\n")
        (folder / "etc/apt/apt.conf.d/90host").write_text(host_settings())
        # Nothing is kept of what a test downloads but the archives, which all share.
        (folder / "etc/apt/apt.conf.d/docker-clean").unlink(missing_ok=True)
        for file in ("resolv.conf", "hosts"):
            shutil.copyfile(f"/etc/{file}", folder / "etc" / file)
        subprocess.run(["chroot", folder, "apt-get", "update", "-qq"], check=True)
        (folder / ".whole").touch()
    return folder


def make_backend_package(folder, backend, version, plugin):
    """A package of a backend with this plugin, as that version had it; its path."""
    tree = folder / f"quern-backend-{backend}"
    multiarch = subprocess.run(["dpkg-architecture", "-qDEB_HOST_MULTIARCH"], capture_output=True, text=True, check=True).stdout.strip()
    architecture = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()
    place = tree / f"usr/lib/{multiarch}/quern/backends-1"
    place.mkdir(parents=True)
    (place / f"libbackend_{backend}.so").write_bytes(plugin)
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN/control").write_text(f"Package: quern-backend-{backend}\nVersion: {version}\nArchitecture: {architecture}\nDepends: quern-abi-1\n"
                                         "Maintainer: Quern Maintainers <maintainers@quern.example.org>\nDescription: an older backend\n")
    package = folder / f"quern-backend-{backend}_{version}_{architecture}.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, package], check=True, capture_output=True)
    return package


def rpm_requires(rpm):
    """What the rpm needs to be installed, without what rpm itself provides."""
    out = subprocess.run(["rpm", "-qp", "--nosignature", "--requires", rpm], capture_output=True, text=True, check=True).stdout
    return [line for line in out.splitlines() if not line.startswith("rpmlib(")]


class Root:
    """A system of one test. Changes go to a layer that close() throws away."""

    def __init__(self, suite, packages):
        lower = base(suite)
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="quern-root-"))
        self.path = self.work / "root"
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3g", "tmpfs", self.work], check=True)
        for name in ("root", "upper", "work"):
            (self.work / name).mkdir()
        options = f"lowerdir={lower},upperdir={self.work}/upper,workdir={self.work}/work"
        subprocess.run(["mount", "-t", "overlay", "-o", options, "overlay", self.path], check=True)
        for name in ("proc", "sys", "dev"):
            subprocess.run(["mount", "--rbind", f"/{name}", self.path / name], check=True)
        archives = CACHE / f"{suite}-archives"
        (archives / "partial").mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "--bind", archives, self.path / "var/cache/apt/archives"], check=True)
        self.add_packages(packages)

    def add_packages(self, packages):
        """Makes the files known to apt, as a repository in the root."""
        folder = self.path / "srv/packages"
        folder.mkdir(parents=True, exist_ok=True)
        for package in packages:
            if package.parent != folder:
                shutil.copy(package, folder)
        index = subprocess.run(["dpkg-scanpackages", "--multiversion", "."], cwd=folder, capture_output=True, check=True).stdout
        (folder / "Packages").write_bytes(index)
        (self.path / "etc/apt/sources.list.d/quern.list").write_text("deb [trusted=yes] file:/srv/packages ./\n")
        self.run("apt-get update -qq -o Dir::Etc::sourcelist=sources.list.d/quern.list -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0")

    def run(self, command, code=0, env=None):
        """A shell command in the root; its output. Raises where it leaves with another code."""
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive",
                       **(env or {})}
        done = subprocess.run(["chroot", self.path, "sh", "-c", command], capture_output=True, text=True, env=environment, timeout=900,
                              stdin=subprocess.DEVNULL, start_new_session=True)  # no terminal: apt stops where it may not ask one
        if done.returncode != code:
            raise AssertionError(f"{command}: code {done.returncode} instead of {code}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done.stdout + done.stderr

    def unpack_rpm(self, rpm):
        with open(rpm, "rb") as file:
            archive = subprocess.run(["rpm2archive", "-"], stdin=file, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-xz", "-C", self.path], input=archive, check=True)

    def install(self, *packages, recommends=True):
        return self.run(f"apt-get install -y -q {'' if recommends else '--no-install-recommends'} {' '.join(packages)}")

    def files(self):
        """All files but those in which dpkg and apt keep their own notes."""
        own = ("var/lib/dpkg", "var/lib/apt", "var/cache", "var/log", "proc", "sys", "dev", "srv", "tmp", "run", "etc/ld.so.cache",
               "usr/share/doc", "var/lib/ucf", "root/.cache")
        found = set()
        for folder, names, files in os.walk(self.path):
            relative = os.path.relpath(folder, self.path)
            names[:] = [n for n in names if os.path.normpath(os.path.join(relative, n)) not in own]
            found |= {os.path.normpath(os.path.join(relative, f)) for f in files}
        return {f for f in found if f not in own}

    def files_of_nobody(self):
        """As files(), without those of installed packages: what a purge leaves of others is theirs, and the system's to keep (libc6
        recommends some of what libcurl depends on, so that apt does not remove those)."""
        folder = self.path / "var/lib/dpkg/info"
        owned = set()
        for listing in folder.glob("*.list"):
            owned |= {os.path.normpath(line.lstrip("/")) for line in listing.read_text().splitlines()}
        merged = {f"usr/{name}" for name in owned if name.split("/")[0] in ("bin", "lib", "lib32", "lib64", "sbin")}
        return self.files() - owned - merged

    def close(self):
        subprocess.run(["umount", "--recursive", "--lazy", self.work], capture_output=True)
        shutil.rmtree(self.work, ignore_errors=True)
