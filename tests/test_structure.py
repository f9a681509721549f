"""What holds for the sources as a whole: who may import whom, and what no file may do or hold."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from app.messages import COMMAND_HELP, OPTION_HELP
from app.settings import Settings, variable
from cli.docs import PAGES
from cli.main import COMMANDS

ROOT = Path(__file__).parents[1]
# docs/design.md, section 4: imports go one way only.
MAY_IMPORT: Mapping[str, frozenset[str]] = {
    "sandbox": frozenset({"sandbox"}),
    "egress": frozenset({"egress"}),
    "app": frozenset({"app"}),
    "workers": frozenset({"workers", "app", "sandbox", "egress"}),
    "cli": frozenset({"cli", "workers", "app", "sandbox", "egress", "demo"}),
    "demo": frozenset({"demo"}),
}
STANDARD_LIBRARY_ONLY = (
    "sandbox/guest/agent.py",
    "sandbox/guest/commands.py",
    "sandbox/guest/confine.py",
    "sandbox/guest/files.py",
    "sandbox/guest/programs.py",
    "sandbox/guest/task.py",
    "sandbox/guest/tunnel.py",
    "sandbox/guest/vm.py",
    "sandbox/guest/warm.py",
    "sandbox/protocol.py",
    "sandbox/substitute.py",
    "sandbox/supervisor.py",
    "sandbox/template/guard.py",
)
# Processes of their own, whose environment was built by whoever started them: those in a machine,
# and the one that stands between a bake and its steps.
HAVE_A_BUILT_ENVIRONMENT = re.compile(
    r"sandbox/guest/\w+\.py|sandbox/template/guard\.py|cli/boundary/inside/\w+\.py"
)
# The edge: what the operator's shell says is read here and passed on.
READS_THE_ENVIRONMENT = re.compile(r"app/settings/sources\.py|cli/.+\.py|sandbox/template/host\.py")
STARTS = frozenset({"run", "Popen", "call", "check_call", "check_output"})
SOURCES = tuple(
    path.relative_to(ROOT)
    for folder in MAY_IMPORT
    for path in sorted((ROOT / folder).rglob("*.py"))
)


def parsed(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), str(path))


def imported(tree: ast.Module) -> Iterator[str]:
    """Every module that a file names in an import, wherever it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, "relative imports hide which way they go"
            yield node.module


def reached(tree: ast.Module) -> Iterator[str]:
    """The same, where a module that is taken out of its package counts by its own name."""
    packages = {"sandbox", "sandbox.guest"}
    yield from (name for name in imported(tree) if name not in packages)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in packages:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def calls(tree: ast.Module) -> Iterator[tuple[ast.Call, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node, ast.unparse(node.func)


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_imports_go_one_way(path: Path) -> None:
    ours = {name.split(".")[0] for name in imported(parsed(path))} & {*MAY_IMPORT, "tests"}
    assert ours <= MAY_IMPORT[path.parts[0]]


def test_nothing_imports_the_commands() -> None:
    users = {
        path.parts[0]
        for path in SOURCES
        if any(name.split(".")[0] == "cli" for name in imported(parsed(path)))
    }
    assert users == {"cli"}


@pytest.mark.parametrize("name", STANDARD_LIBRARY_ONLY)
def test_what_runs_beside_or_in_a_machine_needs_python_alone(name: str) -> None:
    # In the machine, and for `python -I`, the files lie side by side.
    beside = {Path(each).stem for each in STANDARD_LIBRARY_ONLY}
    named = set(reached(parsed(Path(name))))
    assert {each.split(".")[0] for each in named} <= {*sys.stdlib_module_names, *beside, "sandbox"}
    assert {each.split(".")[-1] for each in named if each.startswith("sandbox.")} <= beside


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_every_program_is_started_with_a_built_environment_and_no_shell(path: Path) -> None:
    for call, name in calls(parsed(path)):
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        where = f"{path}:{call.lineno}"
        assert "shell" not in given, where
        assert name not in {"os.system", "os.popen", "subprocess.getoutput"}, where
        starts = name.startswith("subprocess.") and name.removeprefix("subprocess.") in STARTS
        if starts and not HAVE_A_BUILT_ENVIRONMENT.fullmatch(str(path)):
            assert "env" in given, f"{where}: the environment would be inherited"


def test_subprocess_is_called_by_its_name_so_that_this_file_sees_it() -> None:
    hidden = [
        f"{path}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom)
        and node.module == "subprocess"
        and {alias.name for alias in node.names} & STARTS
    ]
    assert hidden == []


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_the_environment_is_read_at_the_edge_alone(path: Path) -> None:
    allowed = f"{READS_THE_ENVIRONMENT.pattern}|{HAVE_A_BUILT_ENVIRONMENT.pattern}"
    if re.fullmatch(allowed, str(path)):
        return
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {"os.environ", "os.getenv"}:
            pytest.fail(f"{path}:{node.lineno} reads the environment")


# --- what is in no file -----------------------------------------------------------------------


def tracked() -> list[Path]:
    """Every file that git has, or would have once it is added."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "GIT_CONFIG_GLOBAL": "/dev/null"},
        capture_output=True,
        check=True,
    )
    paths = [ROOT / name for name in done.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


# In parts, so that this file holds none itself.
DOWNLOAD_HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("deb", "debian", "org"),
        ("security", "debian", "org"),
        ("archive", "ubuntu", "com"),
        ("docker", "io"),
        ("proxy", "golang", "org"),
        ("crates", "io"),
        ("rubygems", "org"),
        ("raw", "githubusercontent", "com"),
        ("huggingface", "co"),
    )
)
SECRETS = re.compile(
    r"gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{50}|sk-[A-Za-z0-9]{32}|sk-ant-[A-Za-z0-9]"
    r"{20}|AKIA[A-Z0-9]{16}|-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/=]{40}"
)


def test_no_download_host_is_named() -> None:
    named = re.compile(rb"\b(?:" + "|".join(map(re.escape, DOWNLOAD_HOSTS)).encode() + rb")\b")
    found = {path.relative_to(ROOT): named.findall(path.read_bytes()) for path in tracked()}
    assert {path: names for path, names in found.items() if names} == {}


def test_no_file_holds_a_secret() -> None:
    texts = {path: path.read_bytes().decode("utf-8", "replace") for path in tracked()}
    assert [path.relative_to(ROOT) for path, text in texts.items() if SECRETS.search(text)] == []


# --- the pages --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAGES)
def test_a_page_that_follows_from_the_code_does(name: str) -> None:
    committed = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert committed == PAGES[name](), "run: python -m cli.docs"


def test_every_setting_and_command_is_in_the_pages() -> None:
    settings = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    commands = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    assert [n for n in Settings.model_fields if f"`{variable(n)}`" not in settings] == []
    assert [name for name in COMMANDS if f"### `drydock {name}`" not in commands] == []
    typed = [name for name, _ in (*COMMAND_HELP, *OPTION_HELP)]
    assert [name for name in typed if f"`{name}`" not in commands] == []


def test_the_readme_begins_with_the_two_commands_and_names_the_others() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.index("make demo") < readme.index("make test") < readme.index("make up")
    pages_named = re.findall(r"\]\((docs/[a-z]+\.md)\)", readme)
    assert "docs/settings.md" in pages_named
    assert "docs/commands.md" in pages_named
