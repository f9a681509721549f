"""docker-compose.yml, Dockerfile: who gets which privilege, and that no secret lies in them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.settings import CONFIG_VARIABLE, SECRET_FIELDS, Settings, load_settings

ROOT = Path(__file__).parents[1]
COMPOSE = ROOT / "docker-compose.yml"

# What may be given beyond "nothing", and to whom. A new privilege is added here with its reason
# next to it in docker-compose.yml, or not at all.
CAPABILITIES = {
    "template": {
        *("SYS_ADMIN", "SYS_CHROOT", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"),
        *("MKNOD", "SETUID", "SETGID", "SETFCAP"),
    },
}
_NAMESPACES = {"seccomp=unconfined", "apparmor=unconfined", "systempaths=unconfined"}
UNCONFINED = {"template": _NAMESPACES, "worker": _NAMESPACES}
SECRETS = {
    "web": {"private_key", "webhook_secret", "database_url", "dashboard_token"},
    "beat": {"private_key", "webhook_secret", "database_url"},
    "worker": {"private_key", "webhook_secret", "database_url", "model_api_key"},
    "postgres": {"postgres_password"},
}

# The services that read Drydock's settings.
SETTLED = ("beat", "web", "worker")
Compose = Callable[..., dict[str, Any]]

CONFIG: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
SERVICES: dict[str, dict[str, Any]] = CONFIG["services"]

every_service = pytest.mark.parametrize("name", sorted(SERVICES))


def own_options(service: dict[str, Any]) -> set[str]:
    return {str(option) for option in service["security_opt"]} - {"no-new-privileges:true"}


@every_service
def test_every_service_has_a_health_check_or_ends_by_itself(name: str) -> None:
    check = SERVICES[name]["healthcheck"]
    if check.get("disable"):
        assert SERVICES[name]["restart"] == "no"
    else:
        assert check["test"]
        assert check["interval"]


@every_service
def test_every_service_is_read_only_and_gains_no_privileges(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert not {"privileged", "pid", "ipc", "network_mode", "userns_mode"} & set(service)


@every_service
def test_a_service_has_only_the_privileges_that_are_documented(name: str) -> None:
    service = SERVICES[name]
    assert set(service.get("cap_add", [])) == CAPABILITIES.get(name, set())
    assert own_options(service) == UNCONFINED.get(name, set())
    assert "devices" not in service


def test_only_the_bake_is_root_and_it_holds_no_secret() -> None:
    roots = {name for name, service in SERVICES.items() if str(service.get("user")) == "0:0"}
    assert roots == {"template"}
    assert "secrets" not in SERVICES["template"]


@every_service
def test_a_service_gets_only_the_secrets_it_needs(name: str) -> None:
    assert set(SERVICES[name].get("secrets", [])) == SECRETS.get(name, set())


@every_service
def test_a_secret_is_a_file_and_never_a_value(name: str) -> None:
    secret_variables = {f"DRYDOCK_{field.upper()}" for field in SECRET_FIELDS}
    environment = SERVICES[name].get("environment", {})
    assert not secret_variables & set(environment)
    for variable, value in environment.items():
        if re.search("KEY|SECRET|PASSWORD|TOKEN", variable):
            assert variable.endswith("_FILE")
            default = re.sub(rf"^\$\{{{variable.removeprefix('DRYDOCK_')}:?-(.*)\}}$", r"\1", value)
            given = {f"/run/secrets/{secret}" for secret in SERVICES[name]["secrets"]}
            assert default in given | {""}


@every_service
def test_every_setting_in_the_file_is_one_that_drydock_knows(name: str) -> None:
    known = set(Settings.model_fields) | {f"{field}_file" for field in SECRET_FIELDS}
    known |= {CONFIG_VARIABLE.removeprefix("DRYDOCK_").lower()}
    for variable in SERVICES[name].get("environment", {}):
        if variable.startswith("DRYDOCK_"):
            assert variable.removeprefix("DRYDOCK_").lower() in known


def test_secrets_come_from_files_outside_the_repository() -> None:
    for name, secret in CONFIG["secrets"].items():
        assert set(secret) == {"file"}, name
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert "secrets/" in ignored
    assert ".env" in ignored


@every_service
def test_images_are_pinned_by_version(name: str) -> None:
    image = SERVICES[name]["image"]
    assert re.search(r":\d+\.\d+(\.\d+)?(-[a-z]+)?\Z", image), image


def test_the_images_base_is_pinned_and_can_be_a_mirrors() -> None:
    text = (ROOT / "Dockerfile").read_text()
    sources = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert sources == ["${PYTHON_IMAGE}", "base", "base"]
    assert re.search(r"^ARG PYTHON_IMAGE=python:\d+\.\d+\.\d+-slim-bookworm$", text, re.MULTILINE)


def test_the_image_installs_by_hashes_and_does_not_run_as_root() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert text.count("pip install --require-hashes") == 1
    assert "--no-index ." in text
    assert re.findall(r"^USER (\S+)", text, re.MULTILINE)[-1] == "drydock"


def test_only_the_way_in_is_published_and_on_loopback() -> None:
    published = {name: s["ports"] for name, s in SERVICES.items() if "ports" in s}
    assert set(published) == {"web"}
    assert all(str(port).startswith("127.0.0.1:") for port in published["web"])


def test_redis_and_the_database_are_reached_by_no_route() -> None:
    assert CONFIG["networks"]["inside"]["internal"] is True
    assert SERVICES["redis"]["networks"] == SERVICES["postgres"]["networks"] == ["inside"]
    assert SERVICES["beat"]["networks"] == ["inside"]


def test_the_database_server_is_asked_for_by_a_profile() -> None:
    profiled = {name for name, service in SERVICES.items() if "profiles" in service}
    assert profiled == {"postgres"}


def test_every_privilege_has_its_reason_in_a_comment() -> None:
    lines = COMPOSE.read_text().splitlines()
    bare = [
        line.strip()
        for line, above in zip(lines[1:], lines, strict=False)
        if re.search(r"- (\w+=unconfined|SYS_\w+|[A-Z]{4,}(_[A-Z]+)?)( |$)", line)
        and "#" not in line
        and "#" not in above
    ]
    assert bare == []


def test_docker_ignores_all_but_the_sources() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    for package in ("app", "cli", "demo", "egress", "sandbox", "workers"):
        assert f"!{package}" in rules


def compose_command() -> list[str] | None:
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) and answers([*command, "version"]):
            return command
    return None


def answers(argv: list[str]) -> bool:
    return subprocess.run(argv, capture_output=True, check=False, timeout=60).returncode == 0


@pytest.fixture
def compose(tmp_path: Path) -> Compose:
    """Run `docker compose config` as a stranger with just these variables, and return the whole."""
    command = compose_command()
    if command is None:
        pytest.skip("docker compose is not installed here")

    def config(**variables: str) -> dict[str, Any]:
        (tmp_path / "settings.env").touch()
        env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(tmp_path),
            "ENV_SOURCE": str(tmp_path / "settings.env"),
            **variables,
        }
        argv = [*command, "--file", str(COMPOSE), "config"]
        done = subprocess.run(
            argv, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        whole: dict[str, Any] = yaml.safe_load(done.stdout)
        return whole

    return config


@pytest.mark.parametrize("profile", ["", "postgres"])
def test_docker_compose_accepts_the_file(profile: str, compose: Compose) -> None:
    assert set(SETTLED) <= set(compose(COMPOSE_PROFILES=profile)["services"])


def test_every_setting_may_come_by_an_environment_file(compose: Compose, tmp_path: Path) -> None:
    lines = "DRYDOCK_APP_ID=7\nDRYDOCK_BUDGET_REPO_DAY_USD=20\nDRYDOCK_STATE_DIR=/elsewhere\n"
    (tmp_path / "settings.env").write_text(lines)
    for name in SETTLED:
        environment = compose()["services"][name]["environment"]
        assert str(environment["DRYDOCK_APP_ID"]) == "7"
        assert str(environment["DRYDOCK_BUDGET_REPO_DAY_USD"]) == "20"
        assert environment["DRYDOCK_STATE_DIR"] == "/var/lib/drydock", "fixed: the volume is there"


@pytest.mark.parametrize("name", SETTLED)
def test_no_named_variable_hides_what_the_operators_files_say(name: str) -> None:
    """An empty one would: it goes before both files."""
    own = {"DRYDOCK_DASHBOARD_TOKEN_FILE"}  # read from .env by a name of compose's own
    for variable, value in SERVICES[name]["environment"].items():
        assert variable in own or not re.fullmatch(r"\$\{DRYDOCK_\w+:?-?.*\}", str(value))


@pytest.mark.parametrize("name", SETTLED)
def test_a_settings_file_is_mounted_where_it_is_looked_for(name: str) -> None:
    service = SERVICES[name]
    place = service["environment"][CONFIG_VARIABLE]
    assert f"${{CONFIG_SOURCE:-/dev/null}}:{place}:ro" in service["volumes"]


def test_without_a_settings_file_nothing_is_set() -> None:
    assert load_settings(Path("/dev/null"), {}) == load_settings(None, {})


def test_the_worker_is_healthy_when_both_of_its_processes_answer() -> None:
    """Which nodes are asked, and what silence comes to, is tried in tests/cli/test_serve.py."""
    assert SERVICES["worker"]["healthcheck"]["test"] == ["CMD", "drydock", "worker", "--ping"]


def test_what_a_comment_promises_of_qemu_is_so() -> None:
    """Neither the device nor the programs are given to a container."""
    assert "/dev/kvm" not in COMPOSE.read_text()
    assert "qemu" not in (ROOT / "Dockerfile").read_text().lower()
