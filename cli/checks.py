"""Is this host ready: each check says what it found, and the command or setting that mends it."""

from __future__ import annotations

import email.utils
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import redis
import requests
from sqlalchemy.exc import SQLAlchemyError

from app.github.auth import Scope, TokenSource
from app.github.errors import GitHubError
from app.settings import (
    Settings,
    SettingsError,
    github_problems,
    model_problems,
    require_github,
    system_ca_bundle,
)
from app.store import BadDatabaseUrl, is_current, make_engine
from egress.dial import system_resolve
from egress.policy import GrantKind, Wire, decide_addresses
from sandbox.provider import ProviderFailed
from sandbox.providers import NAMES, make_provider
from sandbox.providers.qemu import QemuProvider
from sandbox.providers.qemu.command import KVM, KVM_PATH
from workers.grants import operator_egress
from workers.model import choose_model
from workers.services import find_template

NEEDED_DISK_GIB = 5
MAX_SKEW_S = 30
_TIMEOUT_S = 15
_APT = "apt-get install"


class Level(StrEnum):
    OK = "ok"
    NOTE = "note"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """`mend` is what to type or set; a note is no obstacle."""

    name: str
    level: Level
    text: str
    mend: str = ""


Check = Callable[[Settings], Iterator[Finding]]


def check_host(settings: Settings) -> Iterator[Finding]:
    """Run every check; one that breaks is itself a finding."""
    for check in CHECKS:
        try:
            yield from check(settings)
        except (OSError, SettingsError, ProviderFailed, requests.RequestException) as error:
            yield Finding(check.__name__, Level.FAIL, str(error) or type(error).__name__)


def acceleration(settings: Settings) -> Iterator[Finding]:
    """Of virtual machines: found out by booting one, where only that tells, and remembered."""
    try:
        verdict = QemuProvider(settings.state_dir, settings.qemu_accel).verdict()
    except ProviderFailed as error:
        yield Finding("acceleration", Level.NOTE, str(error))
        return
    if verdict.accel == KVM:
        yield Finding("acceleration", Level.OK, verdict.reason)
    else:
        yield Finding("acceleration", Level.NOTE, verdict.reason, _mend_of_kvm())


def _mend_of_kvm() -> str:
    if Path(KVM_PATH).exists() and not os.access(KVM_PATH, os.R_OK | os.W_OK):
        return 'usermod -aG kvm "$USER"'
    return "emulated machines are several times slower: use a host with (nested) virtualisation"


def programs(_settings: Settings) -> Iterator[Finding]:
    wanted = (
        ("qemu-system-x86_64", "qemu-system-x86"),
        ("runsc", "runsc"),
        ("bwrap", "bubblewrap"),
        ("git", "git"),
        ("mmdebstrap", "mmdebstrap"),
    )
    for program, package in wanted:
        path = shutil.which(program, path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/bin")
        if path:
            yield Finding(program, Level.OK, path)
        else:
            level = Level.FAIL if program == "git" else Level.NOTE
            yield Finding(program, level, "not installed", f"{_APT} {package}")


def user_namespaces(_settings: Settings) -> Iterator[Finding]:
    knobs = {
        "/proc/sys/user/max_user_namespaces": "user.max_user_namespaces=15000",
        "/proc/sys/kernel/unprivileged_userns_clone": "kernel.unprivileged_userns_clone=1",
    }
    closed = [mend for path, mend in knobs.items() if _read(path) == "0"]
    if _read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" and os.geteuid():
        closed.append("kernel.apparmor_restrict_unprivileged_userns=0")
    for mend in closed:
        yield Finding("user namespaces", Level.FAIL, "are closed", f"sysctl -w {mend}")
    if not closed:
        yield Finding("user namespaces", Level.OK, "can be made")


def disk(settings: Settings) -> Iterator[Finding]:
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(settings.state_dir).free / 1024**3
    text = f"{free:.1f} GiB free at {settings.state_dir}"
    if free < NEEDED_DISK_GIB:
        mend = "make room, or set DRYDOCK_STATE_DIR to a larger disk"
        yield Finding("disk", Level.FAIL, f"{text}, {NEEDED_DISK_GIB} are needed", mend)
    else:
        yield Finding("disk", Level.OK, text)


def providers(settings: Settings) -> Iterator[Finding]:
    """The one in use must work; the others are told."""
    active = make_provider(settings.provider, settings.state_dir)
    for name in NAMES:
        if name in ("auto", "fake"):
            continue
        provider = make_provider(name, settings.state_dir)
        probe = provider.probe()
        level = Level.OK if probe.ok else Level.NOTE
        if not probe.ok and name == active.name:
            level = Level.FAIL
        mark = " (in use)" if name == active.name else ""
        yield Finding(f"provider {name}{mark}", level, probe.reason or "works")


def template(settings: Settings) -> Iterator[Finding]:
    try:
        found = find_template(settings)
    except SettingsError as error:
        mend = f"drydock template bake {settings.template}"
        yield Finding("template", Level.FAIL, str(error), mend)
    else:
        yield Finding("template", Level.OK, f"{found.name} {found.digest[:12]}")


def queue(settings: Settings) -> Iterator[Finding]:
    if settings.redis_url is None:
        if shutil.which("redis-server"):
            yield Finding("Redis", Level.OK, "`drydock up` starts a private one")
        else:
            mend = f"{_APT} redis-server, or set DRYDOCK_REDIS_URL"
            yield Finding("Redis", Level.FAIL, "no server, and none is installed", mend)
        return
    try:
        redis.Redis.from_url(settings.redis_url, socket_timeout=5).ping()
    except (redis.RedisError, ValueError):
        yield Finding("Redis", Level.FAIL, "does not answer", "check DRYDOCK_REDIS_URL")
    else:
        yield Finding("Redis", Level.OK, "answers")


def database(settings: Settings) -> Iterator[Finding]:
    if settings.database_url is None and not (settings.state_dir / "drydock.sqlite3").exists():
        yield Finding("database", Level.OK, "SQLite, made by the first start")
        return
    try:
        with make_engine(settings.effective_database_url).connect() as connection:
            current = is_current(connection)
    except (SQLAlchemyError, BadDatabaseUrl) as error:
        text = f"does not answer: {type(error).__name__}"
        yield Finding("database", Level.FAIL, text, "check DRYDOCK_DATABASE_URL")
        return
    if current:
        yield Finding("database", Level.OK, "answers, tables are current")
    else:
        yield Finding(
            "database", Level.NOTE, "tables are older", "the next `drydock up` moves them"
        )


def github_app(settings: Settings) -> Iterator[Finding]:
    problems = github_problems(settings)
    if problems:
        for problem in problems:
            yield Finding("GitHub App", Level.NOTE, problem)
        return
    yield from _clock(settings)
    github = require_github(settings)
    tokens = TokenSource(
        api_url=github.api_url,
        app_id=github.app_id,
        private_key=github.private_key.get_secret_value(),
        ca_bundle=system_ca_bundle(settings),
    )
    try:
        granted = tokens.app_info().permissions
    except GitHubError as error:
        mend = "check DRYDOCK_APP_ID, DRYDOCK_PRIVATE_KEY_FILE and DRYDOCK_GITHUB_API_URL"
        yield Finding("GitHub App", Level.FAIL, str(error), mend)
        return
    yield from judge_permissions(dict(granted))


# Asked for only where a repository's config wants it; by permission, what is missed without it.
_OPTIONAL = (Scope.TEAMS, Scope.TEAM_REVIEWS, Scope.ACTIONS_LOGS)
_MISSED = {
    "members": "a repository's config cannot name teams",
    "actions": "fix_ci does without the logs of failed checks",
}


def judge_permissions(granted: dict[str, str]) -> Iterator[Finding]:
    """Hold the App's permissions against what Drydock asks tokens for: no less, and no more."""
    needed = _asked_for(scope for scope in Scope if scope not in _OPTIONAL)
    most = _asked_for(Scope)
    mend = "GitHub → App settings → Permissions & events"
    missing = [f"{n}: {v}" for n, v in needed.items() if granted.get(n, "") < v]
    wide = [f"{n}: {v}" for n, v in granted.items() if v > most.get(n, "")]
    without = {n: v for n, v in most.items() if n not in needed and granted.get(n, "") < v}
    if missing:
        yield Finding("App permissions", Level.FAIL, f"missing {', '.join(sorted(missing))}", mend)
    if wide:
        text = f"wider than needed: {', '.join(sorted(wide))}"
        yield Finding("App permissions", Level.FAIL, text, mend)
    if not missing and not wide:
        yield Finding("App permissions", Level.OK, "just what is needed")
    for name, level in sorted(without.items()):
        text = f"without {name}: {level}: {_MISSED[name]}"
        yield Finding("App permissions", Level.NOTE, text, mend)


def _asked_for(scopes: Iterable[Scope]) -> dict[str, str]:
    wanted: dict[str, str] = {"metadata": "read"}
    for scope in scopes:
        for name, level in scope.permissions.items():
            wanted[name] = max(wanted.get(name, "read"), level)  # "write" sorts after "read"
    return wanted


def _clock(settings: Settings) -> Iterator[Finding]:
    bundle = system_ca_bundle(settings)
    answer = requests.head(
        settings.github_api_url, timeout=_TIMEOUT_S, verify=str(bundle) if bundle else True
    )
    told = (
        email.utils.parsedate_to_datetime(answer.headers["date"])
        if "date" in answer.headers
        else None
    )
    if told is None:
        yield Finding("clock", Level.NOTE, "GitHub's answer has no date to compare with")
        return
    skew = time.time() - told.timestamp()
    if abs(skew) > MAX_SKEW_S:
        text = f"{skew:+.0f} s off GitHub's: it will refuse the App's tokens"
        yield Finding("clock", Level.FAIL, text, "timedatectl set-ntp true")
    else:
        yield Finding("clock", Level.OK, f"{skew:+.0f} s off GitHub's")


def webhook(settings: Settings) -> Iterator[Finding]:
    if settings.web_url is None:
        text = "DRYDOCK_WEB_URL is not set, so it cannot be tried whether GitHub reaches this host"
        yield Finding("webhook", Level.NOTE, text)
        return
    url = f"{settings.web_url}/healthz"
    try:
        ok = requests.get(url, timeout=_TIMEOUT_S).ok
    except requests.RequestException as error:
        ok = False
        text = f"{url}: {type(error).__name__}"
    else:
        text = f"{url} answers" if ok else f"{url} answers with an error"
    mend = "" if ok else "start `drydock up`, and let your proxy forward to DRYDOCK_BIND"
    yield Finding("webhook", Level.OK if ok else Level.NOTE, text, mend)


def model(settings: Settings) -> Iterator[Finding]:
    """Ask the vendor for its list of models: free, and refused with a wrong key."""
    problems = model_problems(settings)
    if problems:
        for problem in problems:
            yield Finding("model", Level.NOTE, problem)
        return
    choice = choose_model(settings, find_template(settings).path / "prices.json")
    grant = choice.route.grant
    name = "/v1/models" if grant.wire in (Wire.OPENAI, Wire.ANTHROPIC) else "/v1beta/models"
    origin = (grant.scheme, grant.host, grant.port)
    headers = dict(c.header_for(origin) for c in choice.credentials.values())
    headers |= {"anthropic-version": "2023-06-01"} if grant.wire is Wire.ANTHROPIC else {}
    url = f"{grant.scheme}://{grant.host}:{grant.port}{grant.path_prefix.rstrip('/')}{name}"
    bundle = system_ca_bundle(settings)
    answer = requests.get(
        url, headers=headers, timeout=_TIMEOUT_S, verify=str(bundle) if bundle else True
    )
    if answer.status_code in (401, 403):
        text = f"{grant.host} rejects the key ({answer.status_code})"
        yield Finding("model", Level.FAIL, text, "check DRYDOCK_MODEL_API_KEY")
    else:
        yield Finding("model", Level.OK, f"{grant.host} answers ({answer.status_code})")


def registries(settings: Settings) -> Iterator[Finding]:
    """Each granted host must lead to a public address, or be listed as one that need not."""
    egress = operator_egress(settings, find_template(settings).path / "rootfs")
    for trouble in egress.troubles:
        yield Finding("registries", Level.NOTE, trouble, "use a mirror that wants no password")
    for grant in egress.grants:
        if grant.kind is not GrantKind.TUNNEL or grant.host.startswith("*."):
            continue
        try:
            decision = decide_addresses(grant, grant.host, system_resolve(grant.host, grant.port))
        except OSError:
            yield Finding(grant.name, Level.NOTE, f"{grant.host} is not known on this host")
            continue
        if decision.allowed:
            yield Finding(grant.name, Level.OK, f"{grant.host} may be reached")
        else:
            mend = f"if that is right, add {grant.host} to DRYDOCK_ALLOWED_PRIVATE_HOSTS"
            yield Finding(grant.name, Level.NOTE, decision.reason, mend)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except OSError:
        return ""


CHECKS: tuple[Check, ...] = (
    acceleration,
    programs,
    user_namespaces,
    disk,
    providers,
    template,
    queue,
    database,
    github_app,
    webhook,
    model,
    registries,
)
