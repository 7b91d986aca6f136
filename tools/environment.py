"""Make a virtual environment hold exactly what its lock file says. Standard library only: runs before anything exists.

    python tools/environment.py .venv                   the development environment, with this project editable
    python tools/environment.py .envs/interop-0.6.1     an environment of its own, from requirements/interop-0.6.1.txt

A stamp, written last, says what is installed: an interrupted run is done again from the start, a matching one costs
a few milliseconds.
"""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEVELOPMENT = ROOT / ".venv"


class EnvironmentFailure(Exception):
    """One sentence for the person at the terminal."""


def ensure(env: Path) -> None:
    """Bring `env` to the state of its lock file. Raises EnvironmentFailure with what to do next."""
    lock = lock_file(env)
    if not lock.is_file():
        raise EnvironmentFailure(f"{env} has no lock file {lock.relative_to(ROOT)}")
    if stamp_of(env) == wanted_stamp(env) and (env / "bin/python").exists():
        return
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # a second ./dev waits here and then finds the work done
        installed, wanted = stamp_of(env), wanted_stamp(env)
        if installed == wanted and runs(env):
            return
        if installed[:1] != wanted[:1] or not runs(env):
            leave(env)
            rebuild(env, lock)
        if env == DEVELOPMENT:
            install_project(env)
        (env / "stamp").write_text("\n".join(wanted) + "\n")


def lock_file(env: Path) -> Path:
    return ROOT / "requirements" / ("dev.txt" if env == DEVELOPMENT else f"{env.name}.txt")


def wanted_stamp(env: Path) -> list[str]:
    """The lock and the place (an environment cannot be moved); then the project's metadata, quick to install again."""
    packages = hashlib.sha256(f"{env}\n{digest(lock_file(env))}".encode()).hexdigest()
    return [packages, digest(ROOT / "pyproject.toml")] if env == DEVELOPMENT else [packages]


def stamp_of(env: Path) -> list[str]:
    try:
        return (env / "stamp").read_text().split()
    except OSError:
        return []


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def runs(env: Path) -> bool:
    """Whether the environment's interpreter still works (it may have been removed from the machine)."""
    try:
        return subprocess.run([env / "bin/python", "-c", ""], check=False).returncode == 0
    except OSError:
        return False


def leave(env: Path) -> None:
    """Start over with the base interpreter when this process runs from the environment that is about to go."""
    if Path(sys.prefix).resolve() == env.resolve():
        base = getattr(sys, "_base_executable", sys.executable)
        os.execv(base, [base, *sys.orig_argv[1:]])


def rebuild(env: Path, lock: Path) -> None:
    began = time.monotonic()
    say(f"making {env.relative_to(ROOT)} with Python {sys.version.split()[0]}")
    if env.exists():
        shutil.rmtree(env)
    missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if missing:
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        raise EnvironmentFailure(
            f"{sys.executable} has no {missing[0]}: apt-get install {package}, then run ./dev again"
        )
    run([sys.executable, "-m", "venv", env], hint="see above")
    count = sum("==" in line for line in lock.read_text().splitlines())
    say(f"installing {count} packages from {lock.relative_to(ROOT)} (once, about a minute)")
    pip(env, "--require-hashes", "-r", lock)
    say(f"{env.relative_to(ROOT)} is ready after {time.monotonic() - began:.0f} s")


def install_project(env: Path) -> None:
    say("installing this project, editable")
    pip(env, "--no-deps", "--no-build-isolation", "--editable", ROOT)


def pip(env: Path, *arguments: str | Path) -> None:
    flags = ["--quiet", "--quiet", "--no-input", "--disable-pip-version-check", "--progress-bar=off"]
    run(
        [env / "bin/python", "-m", "pip", "install", *flags, *arguments],
        hint="the package index must be reachable; run ./dev again to retry",
    )


def run(command: list[str | Path], *, hint: str) -> None:
    elsewhere = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_USER", "PIP_TARGET", "PIP_PREFIX")
    environment = {name: value for name, value in os.environ.items() if name not in elsewhere}
    done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, env=environment)
    if done.returncode != 0:
        words = " ".join(str(part) for part in command[1:4])
        raise EnvironmentFailure(f"`{words} ...` failed with exit code {done.returncode}: {hint}")


def say(text: str) -> None:
    print(f"dev: {text}", file=sys.stderr, flush=True)


def main() -> int:
    if len(sys.argv) != 2:
        say("usage: python tools/environment.py FOLDER")
        return 2
    try:
        ensure((ROOT / sys.argv[1]).absolute())
    except (EnvironmentFailure, OSError) as failure:
        say(str(failure))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
