"""Every setting: its name, its kind, its default and what it means. docs/settings.md follows."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from platformdirs import user_state_dir
from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from app.settings.kinds import (
    ExistingFile,
    Name,
    Names,
    PathLevels,
    Permission,
    Phases,
    Registries,
    RuleLevels,
    Seconds,
    Text,
    Url,
    UserPath,
)

ENV_PREFIX = "DRYDOCK_"
SECRET_FIELDS = frozenset(
    {"private_key", "webhook_secret", "model_api_key", "dashboard_token", "database_url"}
)


def variable(field: str) -> str:
    """Return the environment variable of a setting."""
    return ENV_PREFIX + field.upper()


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
        None,
        description=(
            "Any OpenAI- or Anthropic-compatible server, with what its paths begin with"
            " (`https://models.example.com/v1`); the vendor's when not set."
        ),
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

    registries: Registries = Field(
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
