from __future__ import annotations

import dataclasses
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from sandbox.providers.common import GUEST_AGENT_DIR
from sandbox.template import recipe as module
from sandbox.template.definition import Definition
from sandbox.template.host import Certificates, HostConfig, parse_certificates, to_pem
from sandbox.template.recipe import (
    AIDER_DIR,
    GUEST_CA_BUNDLE,
    DebianRecipe,
    Scratch,
    StepFailed,
    bwrap_argv,
    mmdebstrap_argv,
    pip_argv,
    redact,
    run_step,
    tail,
)
from tests.sandbox.waiting import eventually

PATIENCE_S = 30.0
SECRET = "https://user:hunter2@mirror.invalid/debian/"


class Tools:
    """Stands for the host's programs: records each call and leaves what the real one would."""

    def __init__(self, definition: Definition) -> None:
        self.calls: list[tuple[list[str], dict[str, str]]] = []
        self.files: dict[str, str] = {}
        self.version = definition.aider_version

    def __call__(
        self, argv: Sequence[str], *, env: Mapping[str, str], log: Path, lock_fd: int
    ) -> None:
        self.calls.append((list(argv), dict(env)))
        for word in argv:
            if word.endswith(("sources.list", "pip.conf")) and Path(word).is_file():
                self.files[Path(word).name] = Path(word).read_text()
        log.write_text(f"aider {self.version}\n" if log.name == "version.log" else "")
        if log.name == "tar.log":
            make_rootfs(Path(argv[argv.index("-C") + 1]))
        if log.name == "pip.log":
            make_aider(Path(argv[argv.index("--bind") + 1]))

    def named(self, *words: str) -> tuple[list[str], dict[str, str]]:
        return next(call for call in self.calls if all(word in call[0] for word in words))


def make_rootfs(root: Path) -> None:
    for folder in ("etc/profile.d", "run", "work", "home/work", "usr/local/share/ca-certificates"):
        (root / folder).mkdir(parents=True)
    bundle = root / GUEST_CA_BUNDLE.lstrip("/")
    bundle.parent.mkdir(parents=True)
    bundle.write_text(to_pem(b"debian" * 20))


def make_aider(root: Path) -> None:
    table = root / AIDER_DIR.lstrip("/") / "lib/python3.11/site-packages/litellm"
    table.mkdir(parents=True)
    prices = {"gpt": {"input_cost_per_token": 1}}
    (table / "model_prices_and_context_window_backup.json").write_text(json.dumps(prices))


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return Scratch(folder, lock_fd=0)


@pytest.fixture
def tools(definition: Definition) -> Tools:
    return Tools(definition)


def make_recipe(tools: Tools, host: HostConfig | None = None) -> DebianRecipe:
    company = parse_certificates(to_pem(b"debian" * 20) + to_pem(b"company" * 20))
    return DebianRecipe(host or HostConfig(), company, run=tools, is_root=False)


def assemble(recipe: DebianRecipe, definition: Definition, scratch: Scratch) -> Path:
    into = scratch.path / "template"
    into.mkdir()
    recipe.assemble(definition, scratch.path / "base.tar", into, scratch)
    return into


def test_the_base_comes_from_the_hosts_own_sources_in_a_private_file(
    definition: Definition, tools: Tools, scratch: Scratch
) -> None:
    host = HostConfig(apt_sources=(f"deb {SECRET} bookworm main",))
    make_recipe(tools, host).build_base(definition, scratch.path / "base.tar", scratch)
    assert tools.files["sources.list"] == f"deb {SECRET} bookworm main\n"
    assert stat.S_IMODE((scratch.path / "sources.list").stat().st_mode) == 0o600


def test_without_sources_mmdebstrap_chooses(definition: Definition) -> None:
    assert mmdebstrap_argv(definition, Path("/x.tar"), None)[-2:] == ["bookworm", "/x.tar"]


def test_secrets_of_registries_and_proxies_are_in_no_argument_and_not_in_the_template(
    definition: Definition, tools: Tools, scratch: Scratch
) -> None:
    host = HostConfig(
        apt_sources=(f"deb {SECRET} bookworm main",),
        pip=(("index-url", SECRET),),
        proxies=(("https_proxy", SECRET),),
    )
    recipe = make_recipe(tools, host)
    recipe.build_base(definition, scratch.path / "base.tar", scratch)
    into = assemble(recipe, definition, scratch)
    assert "hunter2" in tools.files["pip.conf"]
    assert not [word for argv, _ in tools.calls for word in argv if "hunter2" in word]
    texts = [path.read_bytes() for path in into.rglob("*") if path.is_file()]
    assert not [text for text in texts if b"hunter2" in text]


def test_only_pip_gets_the_network_and_the_proxies(
    definition: Definition, tools: Tools, scratch: Scratch
) -> None:
    host = HostConfig(proxies=(("https_proxy", "http://proxy.invalid"),))
    assemble(make_recipe(tools, host), definition, scratch)
    inside = [(argv, env) for argv, env in tools.calls if "--bind" in argv]
    online = [argv for argv, _ in inside if "--unshare-net" not in argv]
    assert len(online) == 1
    assert online[0][-2:] == ["-r", "/run/bake/aider.lock"]
    assert [argv for argv, env in inside if "https_proxy" in env] == online


def test_its_own_lines_are_run_last_by_a_shell_with_the_network(
    definition: Definition, tools: Tools, scratch: Scratch
) -> None:
    lines = ("npm install -g pnpm@9", "echo done > /etc/set-up")
    assemble(make_recipe(tools), dataclasses.replace(definition, setup=lines), scratch)
    inside = [argv for argv, _ in tools.calls if "--bind" in argv]
    shells = [argv for argv in inside if argv[-3:-1] == ["/bin/sh", "-ec"]]
    assert tuple(argv[-1] for argv in shells) == lines
    assert not any("--unshare-net" in argv for argv in shells)
    assert inside.index(shells[0]) > inside.index(tools.named("compileall")[0])


def test_tools_get_a_built_environment(
    definition: Definition,
    tools: Tools,
    scratch: Scratch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DRYDOCK_CANARY", "seen")
    assemble(make_recipe(tools), definition, scratch)
    assert all("DRYDOCK_CANARY" not in env for _, env in tools.calls)


def test_pip_takes_only_hashed_wheels_of_the_lock() -> None:
    options = {"--require-hashes", "--no-deps", "--only-binary"}
    assert options <= set(pip_argv())


def test_what_tells_of_the_host_is_replaced(
    definition: Definition, tools: Tools, scratch: Scratch
) -> None:
    etc = assemble(make_recipe(tools), definition, scratch) / "rootfs" / "etc"
    assert (etc / "hostname").read_text() == "drydock\n"
    assert "nameserver" not in (etc / "resolv.conf").read_text()
    assert f"SSL_CERT_FILE={GUEST_CA_BUNDLE}\n" in (etc / "profile.d/drydock.sh").read_text()


def test_certificates_that_debian_lacks_are_installed_once(
    definition: Definition, tools: Tools, scratch: Scratch
) -> None:
    into = assemble(make_recipe(tools), definition, scratch)
    added = list((into / "rootfs/usr/local/share/ca-certificates").iterdir())
    assert [path.read_text() for path in added] == [to_pem(b"company" * 20)]
    assert tools.named("update-ca-certificates")


def test_without_certificates_of_its_own_the_bundle_is_left_alone(
    definition: Definition, tools: Tools, scratch: Scratch
) -> None:
    recipe = DebianRecipe(HostConfig(), Certificates({}), run=tools, is_root=False)
    assemble(recipe, definition, scratch)
    assert not [argv for argv, _ in tools.calls if "update-ca-certificates" in argv]


def test_a_link_in_the_image_is_replaced_and_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "link").symlink_to(victim)
    module._replace(tmp_path / "link", "new")
    assert (victim.read_text(), (tmp_path / "link").read_text()) == ("mine", "new")


def test_the_providers_mount_point_is_there(
    definition: Definition, tools: Tools, scratch: Scratch
) -> None:
    into = assemble(make_recipe(tools), definition, scratch)
    assert (into / "rootfs" / GUEST_AGENT_DIR.lstrip("/")).is_dir()


def test_litellms_prices_come_along(definition: Definition, tools: Tools, scratch: Scratch) -> None:
    into = assemble(make_recipe(tools), definition, scratch)
    assert "gpt" in json.loads((into / "prices.json").read_text())


def test_a_wrong_aider_is_found_out(definition: Definition, tools: Tools, scratch: Scratch) -> None:
    tools.version = "9.9.9"
    with pytest.raises(StepFailed, match=r"the baked Aider is not 1\.2\.3\naider 9\.9\.9"):
        assemble(make_recipe(tools), definition, scratch)


@pytest.mark.parametrize("network", [True, False])
def test_the_steps_run_as_root_of_their_own_namespace(network: bool) -> None:
    argv = bwrap_argv(Path("/r"), ["true"], binds={}, network=network)
    assert {"--unshare-user", "--unshare-pid", "--die-with-parent"} <= set(argv)
    assert argv[argv.index("--uid") + 1] == "0"
    assert ("--unshare-net" in argv) is not network


def run(code: str, log: Path) -> None:
    with Path("/dev/null").open() as fd:
        run_step([sys.executable, "-c", code], env={}, log=log, lock_fd=fd.fileno())


def test_a_failed_step_tells_the_end_of_what_it_said(tmp_path: Path) -> None:
    code = "import sys; [print('line', i, flush=True) for i in range(99)]; sys.exit(3)"
    with pytest.raises(StepFailed) as caught:
        run(code, tmp_path / "pip.log")
    assert caught.value.what == "pip ended with status 3"
    assert caught.value.tail.splitlines()[-1] == "line 98"
    assert "line 78" not in caught.value.tail


def test_a_step_that_succeeds_leaves_its_output_in_the_log(tmp_path: Path) -> None:
    run("print('fine')", tmp_path / "x.log")
    assert tail(tmp_path / "x.log") == "fine"


def test_a_step_has_an_empty_environment_and_no_input(tmp_path: Path) -> None:
    run(
        "import os, sys; print(sorted(set(os.environ) - {'LC_CTYPE'}), sys.stdin.read())",
        tmp_path / "x.log",
    )
    assert tail(tmp_path / "x.log") == "[] "


def test_a_step_that_takes_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STEP_TIMEOUT_S", 0.5)
    with pytest.raises(StepFailed, match="took longer"):
        run("import time; print('begun', flush=True); time.sleep(600)", tmp_path / "x.log")


def test_passwords_in_addresses_are_hidden_in_what_is_shown() -> None:
    assert (
        redact(f"E: cannot fetch {SECRET}") == "E: cannot fetch https://***@mirror.invalid/debian/"
    )


CALLER = """
import sys
from pathlib import Path
from sandbox.template.recipe import run_step
with open("/dev/null") as fd:
    run_step(sys.argv[2:], env={}, log=Path(sys.argv[1]), lock_fd=fd.fileno())
"""

# Ends its children on TERM as mmdebstrap does, and writes down that it could.
PROGRAM = """
import os, signal, subprocess, sys, time
from pathlib import Path
child = subprocess.Popen(["sleep", "600"])
def clean(*_):
    child.wait()
    Path(sys.argv[1]).write_text("clean")
    sys.exit(1)
signal.signal(signal.SIGTERM, clean)
print(os.getpid(), child.pid, flush=True)
signal.pause()
"""


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_step_ends_in_order_when_its_caller_is_killed(
    signum: signal.Signals, tmp_path: Path
) -> None:
    log, done = tmp_path / "x.log", tmp_path / "done"
    caller = subprocess.Popen(
        [sys.executable, "-c", CALLER, str(log), sys.executable, "-c", PROGRAM, str(done)],
        stderr=subprocess.DEVNULL,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    eventually(lambda: log.exists() and len(log.read_text().split()) == 2, PATIENCE_S)
    pids = [int(word) for word in log.read_text().split()]
    caller.send_signal(signum)
    caller.wait(timeout=30)
    eventually(lambda: done.exists() and not any(alive(pid) for pid in pids), PATIENCE_S)
    assert done.read_text() == "clean"


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
