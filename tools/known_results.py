"""What is known to have passed: a check or a test under a sanitizer does not run again while everything that it depends on stays the same.

The checksum of what a result depends on is stored in the user's cache directory ($XDG_CACHE_HOME or ~/.cache), like the compiler cache, so
that other clones on the machine know the result too. ALL=1 in the environment disables this.
"""
import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(rb'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
DIRECTORIES = [ROOT / "src", ROOT / "src" / "app", ROOT / "tests", ROOT / "cmake"]   # where includes are searched


@functools.cache
def includes(file):
    """The files of this project that a file includes directly."""
    found = []
    for name in INCLUDE.findall(file.read_bytes()):
        for base in (file.parent, *DIRECTORIES):
            path = pathlib.Path(os.path.normpath(base / os.fsdecode(name)))
            if path.is_file() and path.is_relative_to(ROOT):
                found.append(path)
    return found


@functools.cache
def checksum(file):
    return f"{file.relative_to(ROOT)} {hashlib.sha256(file.read_bytes()).hexdigest()}\n"


def with_includes(sources):
    """The sources and the files of this project that they include, directly or through others."""
    found = set()
    waiting = list(sources)
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += includes(file)
    return found


# Compilers, libraries with what is needed to compile against them, interpreters and servers. Other packages, such as a browser and the
# libraries that only it uses, change no result.
PACKAGES = re.compile(rb"^(.*-dev|cpp|g\+\+|gcc|clang|llvm|libclang|binutils|python3|nodejs|openssl|postgresql|mariadb-server|valgrind)(?![a-z])")


@functools.cache
def installed_packages():
    """The versions of the system's packages on which results depend."""
    if not shutil.which("dpkg-query"):
        return b""
    lines = subprocess.run(["dpkg-query", "-W"], capture_output=True, check=True).stdout.splitlines(keepends=True)
    return b"".join(line for line in lines if PACKAGES.match(line))


class KnownResults:
    """The results of one kind of check; `settings` is bytes that every result depends on, such as the version of a tool."""

    def __init__(self, kind, settings):
        cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
        self.directory = cache / "cubepi-checks" / kind
        self.settings = settings + installed_packages()

    def key(self, sources, words="", direct=False):
        """The checksum of sources, of what they include, and of other words, such as a compiler's arguments. `direct`: only of what they
        include themselves, for results that hardly depend on more."""
        digest = hashlib.sha256(self.settings)
        digest.update(words.replace(str(ROOT), "").encode())
        files = {*sources, *(file for source in sources for file in includes(source))} if direct else with_includes(sources)
        for file in sorted(files):
            digest.update(checksum(file).encode())
        return digest.hexdigest()

    def has(self, key):
        if os.environ.get("ALL") or not (self.directory / key).exists():
            return False
        (self.directory / key).touch()   # .ci/run removes results that were not used for a month
        return True

    def add(self, key):
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            (self.directory / key).touch()
        except OSError:
            pass   # the result is not remembered
