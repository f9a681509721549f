"""Settings: the only reader of the environment and of `drydock.toml`.

`load_settings` is called once, at the edge, and its frozen value is passed in; importing this
module reads nothing. An environment variable wins over the file. Every problem is collected and
told in words that name what to set; a secret's value never appears in one.

The values are read by hand and only validated by pydantic, because a message has to name the
variable or the file's key that a wrong value came from.
"""

from __future__ import annotations

import difflib
import os
import ssl
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from platformdirs import user_state_dir
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    ValidationError,
    model_validator,
)

from app.app_key import UnusableKey, load_app_key, normalised_pem

ENV_PREFIX = "DRYDOCK_"
CONFIG_VARIABLE = "DRYDOCK_CONFIG"
CONFIG_NAME = "drydock.toml"
SECRET_FIELDS = frozenset(
    {"private_key", "webhook_secret", "model_api_key", "dashboard_token", "database_url"}
)
_MAX_SECRET_BYTES = 64 * 1024
_TYPO_RATIO = 0.8

_COMMON_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


class SettingsError(Exception):
    """The operator has to set something; `problems` are sentences that say what and how."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def _split(value: object) -> object:
    """A list may be written `a, b` where the source has only text."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _base_url(value: str) -> str:
    if not value.startswith(("http://", "https://")):
        raise ValueError("must begin with http:// or https://")
    if any(c.isspace() for c in value):
        raise ValueError("must not contain spaces")
    authority = value.split("://", 1)[1].split("/", 1)[0]
    if "@" in authority:
        raise ValueError("must not carry a user name or password")
    return value.rstrip("/")


def _one_line(value: str) -> str:
    if not value.isprintable() or "<" in value or ">" in value:
        raise ValueError("must be one line without < or >")
    return value


def _existing_file(value: Path) -> Path:
    if not value.is_file():
        raise ValueError("must be the path of a file that exists")
    return value


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Name = Annotated[Text, AfterValidator(_one_line)]
Url = Annotated[Text, AfterValidator(_base_url)]
Names = Annotated[tuple[Text, ...], BeforeValidator(_split)]
UserPath = Annotated[Path, AfterValidator(Path.expanduser)]
ExistingFile = Annotated[UserPath, AfterValidator(_existing_file)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Registry = Literal["apt", "npm", "pip"]
Phases = Annotated[tuple[Literal["setup", "agent", "verify"], ...], BeforeValidator(_split)]
Permission = Literal["triage", "write", "maintain", "admin"]


def _pairs(value: object) -> object:
    """`refuse:GLOB`, or a GLOB alone, which refuses; a table in the file has `GLOB = "level"`."""
    if isinstance(value, dict):
        return tuple(value.items())
    value = _split(value)
    if not isinstance(value, tuple | list):
        return value
    return tuple(_pair(each) if isinstance(each, str) else each for each in value)


def _pair(text: str) -> tuple[str, str]:
    level, colon, glob = text.partition(":")
    return (glob, level) if colon and level in _LEVELS else (text, "refuse")


def _rule_levels(value: object) -> object:
    """`RULE=level`; a table in the file has `RULE = "level"`."""
    if isinstance(value, dict):
        return tuple(value.items())
    value = _split(value)
    if not isinstance(value, tuple | list):
        return value
    return tuple(
        tuple(part.strip() for part in each.split("=", 1)) if isinstance(each, str) else each
        for each in value
    )


_LEVELS = ("refuse", "warn", "allow")
GateLevel = Literal["refuse", "warn", "allow"]
PathLevels = Annotated[tuple[tuple[Text, GateLevel], ...], BeforeValidator(_pairs)]
RuleLevels = Annotated[tuple[tuple[Text, GateLevel], ...], BeforeValidator(_rule_levels)]


def _default_state_dir() -> Path:
    return Path(user_state_dir("drydock", appauthor=False))


class Settings(BaseModel):
    """Everything an operator can set, by the field's name in capitals after `DRYDOCK_`."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    app_id: int | None = Field(None, gt=0, description="The GitHub App's id.")
    app_slug: Name | None = Field(
        None, description="The App's name in URLs; asked from GitHub when not set."
    )
    private_key: SecretStr | None = Field(None, description="The App's private key (PEM, RSA).")
    webhook_secret: SecretStr | None = Field(None, description="The App's webhook secret.")
    github_api_url: Url = Field("https://api.github.com", description="REST base URL.")
    github_url: Url = Field("https://github.com", description="Web and git base URL.")

    model: Text | None = Field(None, description="A LiteLLM model name, as Aider takes it.")
    models: Names = Field(
        (), description="Other models that `model=` may choose; same server and key."
    )
    weak_model: Text | None = Field(
        None, description="Model for commit messages and summaries; the same one when not set."
    )
    model_api_base: Url | None = Field(
        None, description="Any OpenAI- or Anthropic-compatible server; the vendor's when not set."
    )
    model_api_key: SecretStr | None = Field(
        None, description="The model's key; the vendor's own variable works too."
    )
    model_api_version: Text | None = Field(None, description="Azure OpenAI's `api-version`.")
    model_edit_format: Text = Field("diff", description="Aider's edit format.")
    model_max_input_tokens: int | None = Field(None, gt=0, description="Overrides the known size.")
    model_max_output_tokens: int | None = Field(None, gt=0, description="Overrides the known size.")
    model_input_usd_per_mtok: float | None = Field(
        None, ge=0, description="US dollars per million input tokens; overrides the price table."
    )
    model_output_usd_per_mtok: float | None = Field(
        None, ge=0, description="US dollars per million output tokens; overrides the price table."
    )
    budget_usd: float = Field(5.0, gt=0, description="The most that one run may spend, in USD.")
    budget_repo_day_usd: float | None = Field(
        None, gt=0, description="The most that one repository's runs may spend in a day (UTC)."
    )
    budget_user_day_usd: float | None = Field(
        None, gt=0, description="The most that one person's runs may spend in a day (UTC)."
    )
    max_rounds: int = Field(
        5, ge=1, description="Runs in a row on one pull request that no person asked for."
    )
    max_runs_repo_hour: int = Field(
        40, ge=1, description="Runs that one repository may start in an hour."
    )
    max_runs_user_hour: int = Field(
        20, ge=1, description="Runs that one account may ask for in an hour."
    )
    max_open_pulls: int = Field(
        20, ge=1, description="Open pull requests of Drydock's that one repository may have."
    )
    plain_http_hosts: Names = Field(
        (), description="Hosts whose model server may be reached without TLS (loopback always)."
    )

    registries: Annotated[tuple[Registry, ...], BeforeValidator(_split)] = Field(
        ("apt", "npm", "pip"),
        description="Package tools whose registries are open, as the tools are configured.",
    )
    registry_phases: Phases = Field(("setup",), description="When registries are open.")
    allowed_hosts: Names = Field(
        (),
        description="Other hosts that runs may reach: HOST, *.DOMAIN, HOST:PORT or "
        "http://HOST/PATH, each with the phases in which it is open (set-up when none is named).",
    )
    allowed_private_hosts: Names = Field(
        (), description="Granted hosts whose addresses may be private, such as a company's mirror."
    )
    pinned_only: bool = Field(
        False, description="Refuse set-up commands that install what no hash or lock file pins."
    )

    provider: Text = Field("auto", description="auto, qemu, gvisor, bubblewrap, …")
    qemu_accel: Literal["auto", "kvm", "tcg"] = Field("auto", description="auto, kvm or tcg.")
    template: Text = Field("default", description="A built-in template, or a .toml file.")
    memory_mib: int = Field(2048, ge=256, description="A machine's memory, MiB.")
    cpus: int = Field(2, ge=1, le=256, description="A machine's CPUs.")
    disk_mib: int = Field(4096, ge=256, description="A machine's disk, MiB.")
    pool_size: int | None = Field(
        None,
        ge=0,
        le=64,
        description="Machines that wait, started and warm, in each process that drives runs; "
        "1 for gvisor and bubblewrap when not set, else 0. One takes about 0.4 GB of memory.",
    )
    ttl_minutes: float = Field(60, gt=0, le=1440, description="A machine's life at most, minutes.")
    setup_timeout_s: Seconds = Field(900, description="Longest set-up, seconds.")
    agent_timeout_s: Seconds = Field(1800, description="Longest work of Aider, seconds.")
    test_base: bool = Field(
        True, description="Run the tests on the base too, once for each base and template."
    )
    test_timeout_s: Seconds = Field(600, description="Longest test run, seconds.")

    database_url: Text | None = Field(
        None,
        repr=False,
        description="Any SQLAlchemy URL; SQLite in the state directory when not set.",
    )
    redis_url: Text | None = Field(
        None,
        repr=False,
        description="Celery's broker; `drydock up` starts a private one when not set.",
    )
    state_dir: UserPath = Field(
        default_factory=_default_state_dir, description="Templates, mirrors, run logs, audit."
    )
    bind: Text = Field("127.0.0.1:8000", description="Web address, HOST:PORT.")
    dashboard_token: SecretStr | None = Field(
        None, description="Password of the dashboard; without one it answers on loopback only."
    )
    web_url: Url | None = Field(None, description="Where people reach the dashboard, if they can.")
    ca_bundle: ExistingFile | None = Field(
        None, description="CA certificates for outgoing TLS; the system's when not set."
    )

    label: Name = Field("aider", description="The label that starts a run.")
    min_permission: Permission = Field("write", description="Who may start runs.")
    allow_triage: bool = Field(
        False, description="Let a repository's own `allow` go down to `triage`."
    )
    allowed_bots: Names = Field((), description="Bot accounts whose commands count.")
    clone_depth: int = Field(0, ge=0, description="Commits of history sent in; 0 is all.")
    max_file_mb: float = Field(5, gt=0, description="Larger files refuse the run, MB.")
    protected_paths: PathLevels = Field(
        (
            (".github/workflows/**", "refuse"),
            (".github/actions/**", "refuse"),
            (".github/drydock.yml", "refuse"),
            (".github/drydock.yaml", "refuse"),
        ),
        description="Paths that no run changes, whatever the repository says: globs, each with "
        "`refuse:` (meant when there is none), `warn:` or `allow:` before it.",
    )
    gate_levels: RuleLevels = Field(
        (), description="Levels of the gate's rules, as RULE=refuse, RULE=warn or RULE=allow."
    )
    signing_key: UserPath | None = Field(
        None,
        description="Ed25519 key (PEM) that signs provenance; made in the state directory when "
        "not set.",
    )
    allow_permission: Literal["write", "maintain", "admin", "nobody"] = Field(
        "maintain", description="Who may let a refused path through with `/aider allow PATH`."
    )
    keep_refused_days: float = Field(
        14, gt=0, le=3650, description="How long a refused run's bundle is kept, days."
    )
    keep_bodies_days: float = Field(
        14,
        ge=3,
        le=3650,
        description="How long the bodies of webhooks that are done with are kept, days; GitHub "
        "redelivers for three.",
    )
    commit_name: Name = Field("Drydock", description="Author of the commits.")
    # .invalid can never belong to anybody (RFC 2606).
    commit_email: Name = Field("drydock@noreply.invalid", description="Author's address.")
    worker_concurrency: int = Field(2, ge=1, le=256, description="Runs at a time on this host.")
    log_format: Literal["auto", "console", "json"] = Field("auto", description="Log lines.")

    @model_validator(mode="after")
    def _prices_come_in_pairs(self) -> Settings:
        prices = (self.model_input_usd_per_mtok, self.model_output_usd_per_mtok)
        if (prices[0] is None) != (prices[1] is None):
            raise ValueError(
                "DRYDOCK_MODEL_INPUT_USD_PER_MTOK and DRYDOCK_MODEL_OUTPUT_USD_PER_MTOK"
                " must be set together"
            )
        return self

    @property
    def effective_database_url(self) -> str:
        """The database in use: the operator's, or SQLite in the state directory."""
        return self.database_url or f"sqlite:///{self.state_dir / 'drydock.sqlite3'}"

    @property
    def model_choices(self) -> tuple[str, ...]:
        """The models that a command may name: the default one first, each once."""
        default = (self.model,) if self.model else ()
        return tuple(dict.fromkeys((*default, *self.models)))

    @property
    def own_login(self) -> str | None:
        """The login that the App acts under, when its slug is known."""
        return f"{self.app_slug}[bot]" if self.app_slug else None


@dataclass(frozen=True)
class GitHubSettings:
    """What the GitHub App needs; all of it is there and the key was read as RSA."""

    app_id: int
    private_key: SecretStr
    webhook_secret: SecretStr
    api_url: str
    url: str


@dataclass(frozen=True)
class ModelSettings:
    """What a run needs to reach its model. `api_key` is None for a server that wants none."""

    model: str
    api_key: SecretStr | None
    api_base: str | None


def variable(field: str) -> str:
    """Return the environment variable of a setting."""
    return ENV_PREFIX + field.upper()


def load_settings(
    config_path: Path | None = None, env: Mapping[str, str] | None = None
) -> Settings:
    """Read the file and the environment once. SettingsError with every problem found.

    The file is `config_path`, else `$DRYDOCK_CONFIG`, else `drydock.toml` in the working folder
    if there is one. Empty variables count as not set. `env` defaults to the process's.
    """
    given = os.environ if env is None else env
    env = {name: value for name, value in given.items() if value.strip()}
    reader = _Reader()
    reader.read_file(_config_path(config_path, env))
    reader.read_env(env)
    reader.read_vendor(env)
    return reader.build()


def _config_path(config_path: Path | None, env: Mapping[str, str]) -> Path | None:
    if config_path is not None:
        return config_path
    if CONFIG_VARIABLE in env:
        return Path(env[CONFIG_VARIABLE])
    default = Path(CONFIG_NAME)
    return default if default.is_file() else None


class _Reader:
    """Collects values with where each came from, and the problems on the way."""

    def __init__(self) -> None:
        self._values: dict[str, object] = {}
        self._sources: dict[str, str] = {}
        self._problems: list[str] = []

    def read_file(self, path: Path | None) -> None:
        if path is None:
            return
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            self._problems.append(f"{path}: cannot be read ({error.strerror or error})")
        except ValueError as error:
            self._problems.append(f"{path}: not valid TOML ({error})")
        else:
            self._take_table(path, table)

    def _take_table(self, path: Path, table: Mapping[str, Any]) -> None:
        for key, value in table.items():
            field = _field_of(key)
            if field is None:
                self._problems.append(f"{path}: {unknown_key(key, _known_keys())}")
            elif key != field:
                self._take_secret(
                    field, f"{key} in {path}", path.parent / Path(str(value)).expanduser()
                )
            else:
                self._put(field, value, f"{key} in {path}")
        self._refuse_pairs({key: f"{key} in {path}" for key in table})

    def read_env(self, env: Mapping[str, str]) -> None:
        names = [n for n in env if n.startswith(ENV_PREFIX) and n != CONFIG_VARIABLE]
        for name in names:
            key = name.removeprefix(ENV_PREFIX).lower()
            field = _field_of(key)
            if field is None:
                self._suspect(name, key)
            elif key != field:
                self._take_secret(field, name, Path(env[name]).expanduser())
            else:
                self._put(field, env[name], name)
        self._refuse_pairs({n.removeprefix(ENV_PREFIX).lower(): n for n in names})

    def _suspect(self, name: str, key: str) -> None:
        """The environment is shared with other tools: only a likely typing error is refused."""
        near = difflib.get_close_matches(key, _known_keys(), 1, _TYPO_RATIO)
        if near:
            self._problems.append(f"{name} is not a setting; did you mean {variable(near[0])}?")

    def _refuse_pairs(self, given: Mapping[str, str]) -> None:
        for field in sorted(SECRET_FIELDS):
            if field in given and f"{field}_file" in given:
                self._problems.append(
                    f"{given[field]} and {given[f'{field}_file']} are both set: keep one"
                )

    def _put(self, field: str, value: object, source: str) -> None:
        self._values[field] = value
        self._sources[field] = source

    def _take_secret(self, field: str, source: str, path: Path) -> None:
        """Read a secret from a file; a file that cannot be read is a problem, not an absence."""
        try:
            with path.open("rb") as file:
                text = file.read(_MAX_SECRET_BYTES).decode("utf-8").strip()
        except OSError as error:
            self._problems.append(f"{source}: cannot read {path} ({error.strerror or error})")
        except ValueError:
            self._problems.append(f"{source}: {path} is not text")
        else:
            if not text:
                self._problems.append(f"{source}: {path} is empty")
            self._put(field, text, source)

    def read_vendor(self, env: Mapping[str, str]) -> None:
        """The vendor's own variables fill what Drydock's left open, for the model's vendor only."""
        vendor = model_vendor(str(self._values.get("model") or ""))
        if vendor is None:
            return
        for field, names in (
            ("model_api_key", key_names(vendor)),
            ("model_api_base", base_names(vendor)),
        ):
            name = next((n for n in names if n in env), None)
            if field not in self._values and name is not None:
                self._put(field, env[name], name)

    def build(self) -> Settings:
        try:
            settings = Settings.model_validate(self._values)
        except ValidationError as error:
            self._problems.extend(self._explain(dict(e)) for e in error.errors())
        if self._problems:
            raise SettingsError(tuple(self._problems))
        return settings

    def _explain(self, error: Mapping[str, Any]) -> str:
        """One sentence for one pydantic error; the given value is never repeated."""
        message = str(error["msg"]).removeprefix("Value error, ")
        field = str(error["loc"][0]) if error["loc"] else None
        if field is None:
            return message
        return f"{self._sources.get(field, variable(field))}: {message}"


def _known_keys() -> tuple[str, ...]:
    return (*Settings.model_fields, *(f"{field}_file" for field in sorted(SECRET_FIELDS)))


def _field_of(key: str) -> str | None:
    if key in Settings.model_fields:
        return key
    field = key.removesuffix("_file")
    return field if field in SECRET_FIELDS and field != key else None


def unknown_key(key: str, known: tuple[str, ...]) -> str:
    """Say that a key is unknown, and the nearest right one if any is near."""
    near = difflib.get_close_matches(key, known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"unknown key {key!r}{hint}"


def model_vendor(model: str) -> str | None:
    """Return the LiteLLM vendor of a model name: its prefix, or what the bare name implies."""
    prefix, slash, _ = model.partition("/")
    if slash:
        return prefix.lower()
    name = model.lower()
    if name.startswith("claude"):
        return "anthropic"
    if name.startswith(("gpt-", "chatgpt-", "o1", "o3", "o4")):
        return "openai"
    return None


def key_names(vendor: str) -> tuple[str, ...]:
    """The variables that a vendor's own tools read the key from."""
    stem = _stem(vendor)
    extra = {"GEMINI": ("GOOGLE_API_KEY",)}.get(stem, ())
    return (f"{stem}_API_KEY", *extra)


def base_names(vendor: str) -> tuple[str, ...]:
    """The variables that a vendor's own tools read the base URL from."""
    stem = _stem(vendor)
    return (f"{stem}_API_BASE", f"{stem}_BASE_URL")


def _stem(vendor: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in vendor).upper()


def _key_problem(pem: str) -> str | None:
    """Why this is not a usable App key, in words without any of it; None when it is."""
    try:
        load_app_key(pem)
    except UnusableKey as error:
        return str(error)
    return None


def github_problems(settings: Settings) -> tuple[str, ...]:
    """What is missing before Drydock can act as a GitHub App, as sentences; () when nothing."""
    problems = []
    if settings.app_id is None:
        problems.append("DRYDOCK_APP_ID is not set: it is on the App's settings page")
    if settings.private_key is None:
        problems.append(
            "DRYDOCK_PRIVATE_KEY_FILE is not set: the path of the .pem file from the App's page"
        )
    elif problem := _key_problem(settings.private_key.get_secret_value()):
        problems.append(f"DRYDOCK_PRIVATE_KEY {problem}")
    if settings.webhook_secret is None:
        problems.append(
            "DRYDOCK_WEBHOOK_SECRET is not set: without it anybody could send webhooks;"
            " choose one and enter it on the App's page too"
        )
    return tuple(problems)


def require_github(settings: Settings) -> GitHubSettings:
    """Return the GitHub group. SettingsError listing everything that is missing."""
    problems = github_problems(settings)
    app_id, key, secret = settings.app_id, settings.private_key, settings.webhook_secret
    if problems or app_id is None or key is None or secret is None:
        raise SettingsError(problems)
    pem = SecretStr(normalised_pem(key.get_secret_value()))
    return GitHubSettings(app_id, pem, secret, settings.github_api_url, settings.github_url)


def model_problems(settings: Settings) -> tuple[str, ...]:
    """What is missing before a model can be called. A server of one's own may want no key."""
    if settings.model is None:
        return ("DRYDOCK_MODEL is not set: a LiteLLM model name such as openai/gpt-4.1",)
    if settings.model_api_key is None and settings.model_api_base is None:
        vendor = model_vendor(settings.model)
        also = f" (or {key_names(vendor)[0]})" if vendor else ""
        return (f"DRYDOCK_MODEL_API_KEY{also} is not set: the key for {settings.model}",)
    return ()


def require_model(settings: Settings) -> ModelSettings:
    """Return the model group. SettingsError saying what is missing."""
    problems = model_problems(settings)
    if problems or settings.model is None:
        raise SettingsError(problems)
    return ModelSettings(settings.model, settings.model_api_key, settings.model_api_base)


def system_ca_bundle(settings: Settings) -> Path | None:
    """Return the CA bundle for outgoing TLS: the operator's, or the system's; None if none."""
    if settings.ca_bundle is not None:
        return settings.ca_bundle
    found = ssl.get_default_verify_paths().cafile
    candidates = (found, *_COMMON_BUNDLES) if found else _COMMON_BUNDLES
    return next((Path(path) for path in candidates if Path(path).is_file()), None)
