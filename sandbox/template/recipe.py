"""How a template is built: mmdebstrap for the system, pip with hashes for Aider.

Nothing here needs root. mmdebstrap chooses its mode, and every later step runs in bubblewrap with
the new root as its root. What the guest gets must not tell anything of the host: credentials of
registries, proxies and the host's resolver stay outside.

Ownership: with root, `/work` and `/home/work` belong to uid 1000. Without root, all files belong to
the user who bakes, whom a provider maps to root inside; it then mounts its own `/work` and home.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from sandbox.template.definition import Definition
from sandbox.template.host import (
    TOOL_PATH,
    Certificates,
    HostConfig,
    find_tool,
    parse_certificates,
    pip_config_file,
    to_pem,
)

GUEST_CA_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
AIDER_DIR = "/opt/aider"
# Where providers put their agent. A template is read-only, so the mount point is in it.
AGENT_MOUNT = "/run/drydock"
WORK_UID = 1000
WORK_GID = 1000

# What each host program is for, and the Debian package that brings it.
HOST_TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "bwrap": "bubblewrap",
    "tar": "tar",
    "unshare": "util-linux",
    "sync": "coreutils",
}

STEP_TIMEOUT_S = 1800.0
_GUARD = Path(__file__).parent / "guard.py"
_TAIL_LINES = 20
_TAIL_BYTES = 64 * 1024
_BAKE_DIR = "/run/bake"

# Every tool that brings its own list of certificates is pointed to the system's.
CA_ENVIRONMENT = dict.fromkeys(
    (
        "CURL_CA_BUNDLE",
        "GIT_SSL_CAINFO",
        "NODE_EXTRA_CA_CERTS",
        "PIP_CERT",
        "REQUESTS_CA_BUNDLE",
        "SSL_CERT_FILE",
    ),
    GUEST_CA_BUNDLE,
)

# Manuals and translations are of no use to an agent; licences stay.
_TRIM = (
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-include=/usr/share/locale/locale.alias",
)

# Run by mmdebstrap's shell with the new root as "$1".
_CUSTOMIZE = (
    'chroot "$1" useradd --uid 1000 --user-group --create-home --home-dir /home/work'
    " --shell /bin/bash work",
    'install -d -m 0755 "$1/work"',
    # No setuid programs: a guest needs none, and on the host they would be stale ones.
    'find "$1" -xdev -type f -perm /6000 -exec chmod ug-s {} +',
    # A mirror's address may carry a password.
    'find "$1/etc/apt" -name "*sources*" -type f -exec sed -i -E "s#://[^/@ ]+@#://#" {} +',
    # Providers read the tree as an ordinary user; it holds nothing secret.
    'chmod -R a+rX "$1/etc" "$1/root" "$1/usr" "$1/var" "$1/home"',
    'rm -rf "$1/etc/resolv.conf" "$1/etc/hostname" "$1"/var/cache/debconf/*-old "$1"/var/log/*',
)


class StepFailed(Exception):
    """One step of a bake failed. `tail` holds the last lines that its tool wrote."""

    def __init__(self, what: str, tail: str) -> None:
        super().__init__(f"{what}\n{tail}".rstrip())
        self.what = what
        self.tail = tail


@dataclass(frozen=True)
class Scratch:
    """A folder that goes away with the bake, and the lock that its tools keep until they ended."""

    path: Path
    lock_fd: int


class Runner(Protocol):
    """Runs one host program to its end, or raises `StepFailed`; `lock_fd` stays open in it."""

    def __call__(
        self, argv: Sequence[str], *, env: Mapping[str, str], log: Path, lock_fd: int
    ) -> None: ...


class Recipe(Protocol):
    """The two halves of a bake; tests bring a fake one."""

    def build_base(self, definition: Definition, tar: Path, scratch: Scratch) -> None:
        """Write the base layer to `tar`."""

    def assemble(
        self, definition: Definition, base: Path, into: Path, scratch: Scratch
    ) -> dict[str, Any]:
        """Fill `into` with rootfs/ and prices.json; returns facts for template.json."""


def run_step(argv: Sequence[str], *, env: Mapping[str, str], log: Path, lock_fd: int) -> None:
    """Run a program with only `env`, its output in `log`, under the guard.

    It never outlives this process, and holds the lock until it ended. `StepFailed` on a non-zero
    exit or after `STEP_TIMEOUT_S`.
    """
    with log.open("ab") as output:
        guard = subprocess.Popen(
            [sys.executable, "-I", str(_GUARD), *argv],
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            start_new_session=True,
            pass_fds=[lock_fd],
        )
    name = log.stem
    try:
        code = guard.wait(timeout=STEP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise StepFailed(f"{name} took longer than {STEP_TIMEOUT_S:.0f} s", tail(log)) from None
    finally:
        # Also on Ctrl-C: the guard ends the program when this pipe closes.
        guard.communicate()
    if code:
        raise StepFailed(f"{name} ended with status {code}", tail(log))


def tail(log: Path) -> str:
    """The last lines of a tool's output."""
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return "\n".join(redact(line) for line in lines[-_TAIL_LINES:])


def redact(line: str) -> str:
    """Hide the user part of addresses: tools print mirrors with their passwords."""
    return re.sub(r"://[^/@\s]+@", "://***@", line)


def guest_environment(definition: Definition) -> dict[str, str]:
    """What every command in the machine gets besides PATH and HOME."""
    return {**CA_ENVIRONMENT, **dict(definition.environment)}


def mmdebstrap_argv(definition: Definition, tar: Path, sources: Path | None) -> list[str]:
    """The base layer's command. Sources come as a file, since addresses may carry passwords."""
    return [
        "mmdebstrap",
        "--variant=minbase",
        "--mode=auto",
        "--format=tar",
        f"--include={','.join(sorted(definition.packages))}",
        *(f"--dpkgopt={option}" for option in _TRIM),
        *(f"--customize-hook={hook}" for hook in _CUSTOMIZE),
        definition.suite,
        str(tar),
        *([str(sources)] if sources else []),
    ]


def extract_argv(suite: str, packages: Sequence[str], tar: Path, sources: Path | None) -> list[str]:
    """Download packages with what they depend on, and pack their files as they are."""
    return [
        "mmdebstrap",
        "--variant=extract",
        "--mode=auto",
        "--format=tar",
        f"--include={','.join(packages)}",
        suite,
        str(tar),
        *([str(sources)] if sources else []),
    ]


def bwrap_argv(
    rootfs: Path, command: Sequence[str], *, binds: Mapping[str, Path], network: bool
) -> list[str]:
    """Run `command` with `rootfs` as its root, as root of a user namespace of its own.

    `binds` are read-only, below /run/bake or over files that exist.
    """
    argv = ["bwrap", "--die-with-parent", "--new-session", "--unshare-user", "--uid", "0"]
    argv += ["--gid", "0", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    argv += [] if network else ["--unshare-net"]
    argv += ["--bind", str(rootfs), "/", "--dev", "/dev", "--proc", "/proc"]
    argv += ["--tmpfs", "/tmp", "--tmpfs", "/run", "--dir", _BAKE_DIR]  # noqa: S108 (the guest's)
    for target, source in binds.items():
        argv += ["--ro-bind", str(source), target]
    return [*argv, "--chdir", "/", "--", *command]


def pip_argv() -> list[str]:
    """Install the lock into Aider's environment: wheels only, so that nothing is executed."""
    argv = ["python3", "-m", "pip", "--python", f"{AIDER_DIR}/bin/python", "install", "--quiet"]
    argv += ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--no-compile"]
    return [*argv, "-r", f"{_BAKE_DIR}/aider.lock"]


@dataclass(frozen=True)
class DebianRecipe:
    """The real recipe. `certificates` are the ones that the guest trusts besides Debian's own."""

    host: HostConfig
    certificates: Certificates
    run: Runner = run_step
    is_root: bool = field(default_factory=lambda: os.geteuid() == 0)

    def build_base(self, definition: Definition, tar: Path, scratch: Scratch) -> None:
        self._mmdebstrap(lambda sources: mmdebstrap_argv(definition, tar, sources), scratch)

    def extract(self, suite: str, packages: Sequence[str], tar: Path, scratch: Scratch) -> None:
        """Pack the files of packages and of what they depend on; nothing of them is run."""
        self._mmdebstrap(lambda sources: extract_argv(suite, packages, tar, sources), scratch)

    def host_tool(self, argv: Sequence[str], scratch: Scratch, name: str) -> None:
        """Run a tool of the host's in the scratch folder's name. Errors: `StepFailed`."""
        self._host(argv, {"PATH": TOOL_PATH, "LC_ALL": "C.UTF-8"}, scratch, name)

    def _mmdebstrap(self, make: Callable[[Path | None], list[str]], scratch: Scratch) -> None:
        sources = None
        if self.host.apt_sources:
            sources = scratch.path / "sources.list"
            _write_private(sources, "\n".join(self.host.apt_sources) + "\n")
        env = self._tool_env()
        argv = make(sources)
        if self.is_root:
            # Its mounts stay invisible here, and cannot be in the way of removing its folder.
            # Without root it has its own namespace, and is another user who may not enter ours.
            argv = ["unshare", "--mount", "--", find_tool(argv[0]) or argv[0], *argv[1:]]
            env["TMPDIR"] = str(scratch.path)
        self._host(argv, env, scratch, "mmdebstrap")

    def assemble(
        self, definition: Definition, base: Path, into: Path, scratch: Scratch
    ) -> dict[str, Any]:
        rootfs = into / "rootfs"
        rootfs.mkdir(mode=0o755)
        self._unpack(base, rootfs, scratch)
        _write_etc(rootfs, definition)
        (rootfs / AGENT_MOUNT.lstrip("/")).mkdir(mode=0o755)
        self._install_certificates(rootfs, scratch)
        self._install_aider(definition, rootfs, scratch)
        self._set_up(definition, rootfs, scratch)
        facts = self._verify(definition, rootfs, scratch)
        shutil.copyfile(_price_table(rootfs), into / "prices.json")
        self._host(["sync", "-f", str(into)], self._tool_env(), scratch, "sync")
        return facts

    def _unpack(self, base: Path, rootfs: Path, scratch: Scratch) -> None:
        argv = ["tar", "-xpf", str(base), "-C", str(rootfs), "--no-same-owner"]
        # Device nodes need root, and every provider brings its own /dev.
        self._host([*argv, "--exclude=./dev/*"], self._tool_env(), scratch, "tar")
        if self.is_root:
            for path in (rootfs / "work", *_tree(rootfs / "home" / "work")):
                os.chown(path, WORK_UID, WORK_GID, follow_symlinks=False)

    def _install_certificates(self, rootfs: Path, scratch: Scratch) -> None:
        bundle = rootfs / GUEST_CA_BUNDLE.lstrip("/")
        extra = self.certificates.without(parse_certificates(bundle.read_text(encoding="utf-8")))
        folder = rootfs / "usr/local/share/ca-certificates"
        for fingerprint, der in extra.der_by_fingerprint.items():
            _replace(folder / f"host-{fingerprint[:16]}.crt", to_pem(der))
        if extra.der_by_fingerprint:
            self._inside(["update-ca-certificates"], rootfs, scratch, "ca")

    def _install_aider(self, definition: Definition, rootfs: Path, scratch: Scratch) -> None:
        self._inside(["python3", "-m", "venv", "--without-pip", AIDER_DIR], rootfs, scratch, "venv")
        _write_private(scratch.path / "aider.lock", definition.aider_lock)
        _write_private(scratch.path / "pip.conf", pip_config_file(self.host.pip))
        self._inside(pip_argv(), rootfs, scratch, "pip", network=True)
        # Read-only at run time, so what is not compiled now is compiled on every start. Unchecked:
        # a provider may copy the tree and lose the times that the default mode compares.
        compile_all = [f"{AIDER_DIR}/bin/python", "-m", "compileall", "-q", "-j", "0"]
        compile_all += ["--invalidation-mode", "unchecked-hash", f"{AIDER_DIR}/lib"]
        self._inside(compile_all, rootfs, scratch, "compile")

    def _set_up(self, definition: Definition, rootfs: Path, scratch: Scratch) -> None:
        """Run the definition's own lines; what one leaves in memory (/tmp, /run) is gone after."""
        for number, line in enumerate(definition.setup, start=1):
            self._inside(["/bin/sh", "-ec", line], rootfs, scratch, f"setup-{number}", network=True)

    def _verify(self, definition: Definition, rootfs: Path, scratch: Scratch) -> dict[str, Any]:
        """The baked Aider starts, without network, and is the version that was asked for."""
        log = self._inside([f"{AIDER_DIR}/bin/aider", "--version"], rootfs, scratch, "version")
        said = tail(log).split()
        if definition.aider_version not in said:
            raise StepFailed(f"the baked Aider is not {definition.aider_version}", " ".join(said))
        owner = "work" if self.is_root else "root"
        return {"aider": f"{AIDER_DIR}/bin/aider", "work_owner": owner}

    def _inside(
        self,
        command: Sequence[str],
        rootfs: Path,
        scratch: Scratch,
        name: str,
        *,
        network: bool = False,
    ) -> Path:
        binds = self._network_binds(scratch) if network else {}
        argv = bwrap_argv(rootfs, command, binds=binds, network=network)
        env = {**self._inside_env(), **(dict(self.host.proxies) if network else {})}
        return self._host(argv, env, scratch, name)

    def _network_binds(self, scratch: Scratch) -> dict[str, Path]:
        binds = {
            f"{_BAKE_DIR}/aider.lock": scratch.path / "aider.lock",
            f"{_BAKE_DIR}/pip.conf": scratch.path / "pip.conf",
        }
        for path in (Path("/etc/resolv.conf"), Path("/etc/hosts")):
            if path.exists():
                binds[str(path)] = path.resolve()
        return binds

    def _inside_env(self) -> dict[str, str]:
        return {
            "PATH": TOOL_PATH,
            "HOME": "/root",
            "LC_ALL": "C.UTF-8",
            "PIP_CONFIG_FILE": f"{_BAKE_DIR}/pip.conf",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_CACHE_DIR": "1",
            "PIP_NO_INPUT": "1",
            "PIP_ROOT_USER_ACTION": "ignore",
            **CA_ENVIRONMENT,
        }

    def _tool_env(self) -> dict[str, str]:
        return {"PATH": TOOL_PATH, "LC_ALL": "C.UTF-8", **dict(self.host.proxies)}

    def _host(
        self, argv: Sequence[str], env: Mapping[str, str], scratch: Scratch, name: str
    ) -> Path:
        log = scratch.path / f"{name}.log"
        program = find_tool(argv[0]) or argv[0]
        self.run([program, *argv[1:]], env=env, log=log, lock_fd=scratch.lock_fd)
        return log


def _write_etc(rootfs: Path, definition: Definition) -> None:
    """Replace what tells of the host, and let login shells see the environment."""
    etc = rootfs / "etc"
    _replace(etc / "hosts", "127.0.0.1 localhost drydock\n::1 localhost\n")
    _replace(etc / "hostname", "drydock\n")
    _replace(etc / "resolv.conf", "# A machine has no resolver.\n")
    _replace(etc / "machine-id", "")
    environment = guest_environment(definition)
    lines = [f"export {key}={shlex.quote(value)}" for key, value in environment.items()]
    _replace(etc / "profile.d" / "drydock.sh", "\n".join(lines) + "\n")


def _replace(path: Path, text: str) -> None:
    """Write a new file, never through a link that the image brought."""
    path.unlink(missing_ok=True)
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
    path.chmod(0o644)


def _write_private(path: Path, text: str) -> None:
    """A file for a tool that may hold a password; it goes away with the scratch folder."""
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


def _price_table(rootfs: Path) -> Path:
    """LiteLLM's bundled prices in Aider's environment, checked to be a table."""
    name = "site-packages/litellm/model_prices_and_context_window_backup.json"
    found = sorted((rootfs / AIDER_DIR.lstrip("/") / "lib").glob(f"python3*/{name}"))
    if len(found) != 1 or not isinstance(json.loads(found[0].read_bytes()), dict):
        raise StepFailed("the baked Aider brings no price table of LiteLLM's", "")
    return found[0]


def _tree(folder: Path) -> list[Path]:
    return [folder, *folder.rglob("*")]
