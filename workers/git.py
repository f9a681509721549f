"""The only place that runs git on the host.

Rules: an argument list and a built environment, never the inherited one; no system, user or
foreign configuration; hooks, monitors, filters, prompts, alternates' commands and unasked
protocols off; everything bounded in time, output and, where asked, memory and disk. Paths are
bytes. A token travels in the environment of git alone (readable by its own user only), never in
argv, in a URL or in a file, and redirects are not followed, so that it reaches no other host.

Sources: git-config(1), git(1) "ENVIRONMENT VARIABLES", gitprotocol-v2(5).
"""

from __future__ import annotations

import base64
import os
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

DEFAULT_TIMEOUT_S = 600.0
DEFAULT_OUTPUT_CAP = 64 * 1024 * 1024
STDERR_CAP = 64 * 1024
STDERR_TAIL = 2_000
_CHUNK = 64 * 1024
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Trees and commits written by old tools carry these flaws, and GitHub serves such history. They
# are tolerated in what the server sends, never in what a machine sends back.
HISTORICAL_FLAWS = (
    "badDate",
    "badDateOverflow",
    "badEmail",
    "badFilemode",
    "badName",
    "badTimezone",
    "missingEmail",
    "missingNameBeforeEmail",
    "missingSpaceBeforeDate",
    "missingSpaceBeforeEmail",
    "nullSha1",
    "zeroPaddedDate",
    "zeroPaddedFilemode",
)

_HARDENED = {
    "core.alternateRefsCommand": "",
    "core.askPass": "",
    "core.attributesFile": "/dev/null",
    "core.autocrlf": "false",
    "core.bigFileThreshold": "16m",
    "core.excludesFile": "/dev/null",
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.logAllRefUpdates": "false",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "core.quotePath": "false",
    "core.symlinks": "false",
    "credential.helper": "",
    "diff.external": "",
    "fetch.fsckObjects": "true",
    "fetch.recurseSubmodules": "false",
    "fetch.unpackLimit": "1",  # keep the pack: a bomb is never inflated into loose files
    "fetch.writeCommitGraph": "false",
    "gc.auto": "0",
    "gc.autoDetach": "false",
    "http.emptyAuth": "false",
    "http.followRedirects": "false",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
    "maintenance.auto": "false",
    "pack.threads": "1",
    "protocol.allow": "never",
    "protocol.ext.allow": "never",
    "protocol.version": "2",
    "receive.fsckObjects": "true",
    "safe.bareRepository": "explicit",
    "safe.directory": "*",
    "submodule.recurse": "false",
    "transfer.credentialsInUrl": "die",
    "transfer.fsckObjects": "true",
    "transfer.unpackLimit": "1",
    "uploadpack.packObjectsHook": "",
}


_ASKED_TO_END = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


class GitFailed(Exception):
    """git ended badly. `argv` holds no secret; `stderr` is the cleaned end of what it said.

    `exit_code` is None when the time or the output limit, not git, ended it. `ours`: it failed on
    the host's own side, whatever it was to read.
    """

    def __init__(
        self, argv: Sequence[str], exit_code: int | None, stderr: str, ours: bool = False
    ) -> None:
        self.argv = tuple(argv)
        self.exit_code = exit_code
        self.stderr = stderr
        self.ours = ours
        how = "was ended" if exit_code is None else f"exited {exit_code}"
        super().__init__(f"git {' '.join(self.argv[:3])} {how}: {stderr}")

    def __reduce__(self) -> tuple[object, ...]:
        return GitFailed, (self.argv, self.exit_code, self.stderr, self.ours), self.__dict__

    @property
    def out_of_memory(self) -> bool:
        """True when git said so: its own words, which it translates into no language here."""
        said = self.stderr.lower()
        return "out of memory" in said or "cannot allocate memory" in said

    @property
    def disk_full(self) -> bool:
        """True when git said so (ENOSPC or EDQUOT)."""
        return "No space left on device" in self.stderr or "Disk quota exceeded" in self.stderr

    @property
    def timed_out(self) -> bool:
        return self.exit_code is None and self.stderr.startswith("took longer than")


@dataclass(frozen=True)
class HttpAuth:
    """A token, bound to one scheme, host and port. Its repr never shows it."""

    url: str
    token: str = field(repr=False)
    username: str = "x-access-token"

    @property
    def origin(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}/"

    def secrets(self) -> tuple[str, ...]:
        """Both forms of the secret, for redaction."""
        return (self.token, self._basic())

    def config(self) -> Mapping[str, str]:
        """Return the one setting that makes git send it, to that origin only."""
        return {f"http.{self.origin}.extraHeader": f"Authorization: Basic {self._basic()}"}

    def _basic(self) -> str:
        return base64.b64encode(f"{self.username}:{self.token}".encode()).decode("ascii")


@dataclass(frozen=True)
class Limits:
    """Hard limits for one git process and its children, by prlimit(1). None is no limit.

    `memory_bytes` are of address space, the packs that git maps included; `data_bytes` are of what
    it makes room for itself.
    """

    memory_bytes: int | None = None
    data_bytes: int | None = None
    file_bytes: int | None = None
    cpu_s: int | None = None

    def prefix(self) -> list[str]:
        pairs = (
            ("as", self.memory_bytes),
            ("data", self.data_bytes),
            ("fsize", self.file_bytes),
            ("cpu", self.cpu_s),
        )
        options = [f"--{name}={value}" for name, value in pairs if value is not None]
        return ["prlimit", "--core=0", *options, "--"] if options else []


@dataclass(frozen=True)
class GitResult:
    """What one git call gave. `stderr` is cleaned and cut to its end."""

    exit_code: int
    stdout: bytes
    stderr: str
    truncated: bool = False


@dataclass(frozen=True)
class Git:
    """How git is called on this host. `home` is an empty directory that we own.

    `ca_bundle` is a PEM file for HTTPS; `proxy` is an explicit HTTP(S) proxy, never taken from the
    surrounding environment.
    """

    home: Path
    ca_bundle: Path | None = None
    proxy: str | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S

    def run(
        self,
        args: Sequence[str],
        *,
        git_dir: Path | None = None,
        stdin: bytes | IO[bytes] = b"",
        auth: HttpAuth | None = None,
        protocols: Sequence[str] = (),
        config: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        output_cap: int = DEFAULT_OUTPUT_CAP,
        limits: Limits | None = None,
    ) -> bytes:
        """Run git and return its standard output. GitFailed for any exit status but 0."""
        result = self.attempt(
            args,
            git_dir=git_dir,
            stdin=stdin,
            auth=auth,
            protocols=protocols,
            config=config,
            env=env,
            timeout_s=timeout_s,
            output_cap=output_cap,
            limits=limits,
        )
        if result.exit_code != 0:
            raise GitFailed(args, result.exit_code, result.stderr)
        return result.stdout

    def attempt(
        self,
        args: Sequence[str],
        *,
        git_dir: Path | None = None,
        stdin: bytes | IO[bytes] = b"",
        auth: HttpAuth | None = None,
        protocols: Sequence[str] = (),
        config: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        output_cap: int = DEFAULT_OUTPUT_CAP,
        head_only: bool = False,
        limits: Limits | None = None,
    ) -> GitResult:
        """Run git and return what came, whatever its exit status.

        `head_only` makes output beyond the cap no failure: its head is returned as `truncated`.

        `stdin` is all of its input, or a file that is read from where it stands. `protocols` are
        the transports allowed (none by default); `config` adds settings by environment.
        GitFailed when the time or output limit ended it, or it could not start.
        """
        argv = build_argv(args, git_dir, limits)
        settings = {**(config or {}), **(auth.config() if auth else {})}
        built = self.build_env(settings, protocols, env or {})
        secrets = auth.secrets() if auth else ()
        limit_s = self.timeout_s if timeout_s is None else timeout_s
        result = _Call(args, argv, built, secrets, stdin).wait(limit_s, output_cap)
        if result.truncated and not head_only:
            raise GitFailed(args, None, f"gave more than {output_cap} bytes")
        return result

    def build_env(
        self, config: Mapping[str, str], protocols: Sequence[str], extra: Mapping[str, str]
    ) -> dict[str, str]:
        """Return git's whole environment; the hardened settings are in it, not in a file."""
        self.home.mkdir(parents=True, exist_ok=True)
        env = {
            "PATH": _PATH,
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_ALLOW_PROTOCOL": ":".join(protocols) or "none",
            "GIT_CEILING_DIRECTORIES": "/",
        }
        if self.ca_bundle is not None:
            env["GIT_SSL_CAINFO"] = str(self.ca_bundle)
        if self.proxy is not None:
            env["http_proxy"] = env["https_proxy"] = self.proxy
        return {**env, **_as_env_config({**_HARDENED, **config}), **extra}


def build_argv(args: Sequence[str], git_dir: Path | None, limits: Limits | None) -> list[str]:
    """Return the whole command line. It is readable by every user, so it holds no secret."""
    where = [] if git_dir is None else [f"--git-dir={git_dir}"]
    prefix = limits.prefix() if limits else []
    return [*prefix, "git", "--no-pager", "--literal-pathspecs", *where, *args]


def tolerate_historical_flaws() -> dict[str, str]:
    """Return settings for fetching from a server: old flaws are let through, attacks are not."""
    return {f"fetch.fsck.{flaw}": "ignore" for flaw in HISTORICAL_FLAWS}


def printable(text: str | bytes, cap: int = 500) -> str:
    """Return `text` fit to be shown: control, bidirectional and invisible characters escaped.

    At most `cap` characters are returned, and then an ellipsis.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    shown = "".join(map(_shown, text[: cap + 1]))
    return shown if len(shown) <= cap else shown[:cap] + "…"


def _shown(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape").decode("ascii")


def _as_env_config(settings: Mapping[str, str]) -> dict[str, str]:
    env = {"GIT_CONFIG_COUNT": str(len(settings))}
    for index, (key, value) in enumerate(settings.items()):
        env[f"GIT_CONFIG_KEY_{index}"] = key
        env[f"GIT_CONFIG_VALUE_{index}"] = value
    return env


def _ends_within(pid: int, seconds: float) -> bool:
    """Wait for a child's end without reaping it; `Popen.wait` with a timeout polls, up to 50 ms."""
    handle = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(handle)


class _Call:
    """One git process, its pumps and its end."""

    def __init__(
        self,
        args: Sequence[str],
        argv: Sequence[str],
        env: Mapping[str, str],
        secrets: Sequence[str],
        stdin: bytes | IO[bytes],
    ) -> None:
        self._args = args
        self._input = stdin if isinstance(stdin, bytes) else b""
        self._secrets = secrets
        self._stdout = bytearray()
        self._stderr = bytearray()
        self._overflow = False
        self._fault: BaseException | None = None
        try:
            self._process = subprocess.Popen(
                list(argv),
                env=dict(env),
                cwd="/",
                stdin=subprocess.PIPE if isinstance(stdin, bytes) else stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # so that its helpers end with it
            )
        except OSError as error:
            raise GitFailed(args, None, f"could not be started: {error}", ours=True) from error

    def wait(self, timeout_s: float, output_cap: int) -> GitResult:
        pumps: list[threading.Thread] = []
        try:
            pumps.extend(self._start_pumps(output_cap))
            in_time = _ends_within(self._process.pid, timeout_s)
        finally:
            # Before it is reaped: its group's number cannot be another's yet.
            self._kill_group()
            for pump in pumps:
                pump.join()
            code = self._process.wait()
        if self._fault is not None:
            raise self._fault
        if not in_time:
            raise GitFailed(self._args, None, f"took longer than {timeout_s:g} s")
        # We never ask, we kill: it was a service's stop, which reaches all processes of the worker.
        if -code in _ASKED_TO_END:
            raise GitFailed(self._args, code, "was told to end from outside", ours=True)
        return GitResult(code, bytes(self._stdout[:output_cap]), self._said(), self._overflow)

    def _start_pumps(self, output_cap: int) -> Iterator[threading.Thread]:
        process = self._process
        for target, arguments in (
            (self._feed, (process.stdin,)),
            (self._keep_head, (process.stdout, output_cap)),
            (self._keep_tail, (process.stderr,)),
        ):
            thread = threading.Thread(target=self._pump, args=(target, *arguments), daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # what Python calls it when there is no room for a stack
                raise MemoryError("no thread could be started") from error
            yield thread

    def _pump(self, move: Callable[..., None], *arguments: object) -> None:
        """What goes wrong here (memory at an end) must not leave a part that looks whole."""
        try:
            move(*arguments)
        except BaseException as error:  # noqa: BLE001  raised by whoever waits
            self._fault = error
            self._kill_group()

    def _feed(self, pipe: IO[bytes] | None) -> None:
        if pipe is None:
            return  # it reads a file by itself
        try:
            with pipe:
                pipe.write(self._input)
        except BrokenPipeError:
            return  # git read what it wanted; its exit status tells the rest

    def _keep_head(self, pipe: IO[bytes], cap: int) -> None:
        with pipe:
            while chunk := os.read(pipe.fileno(), _CHUNK):
                self._stdout += chunk
                if len(self._stdout) > cap:
                    self._overflow = True
                    self._kill_group()
                    return

    def _keep_tail(self, pipe: IO[bytes]) -> None:
        with pipe:
            while chunk := os.read(pipe.fileno(), _CHUNK):
                self._stderr += chunk
                del self._stderr[:-STDERR_CAP]

    def _kill_group(self) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return  # everything of it has ended already

    def _said(self) -> str:
        text = self._stderr.decode("utf-8", "replace")
        for secret in self._secrets:
            text = text.replace(secret, "[secret]")
        lines = [printable(line.rstrip(), 1_000) for line in text.splitlines() if line.strip()]
        return "\n".join(lines)[-STDERR_TAIL:]
