from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.template import definition as module
from sandbox.template.definition import (
    Definition,
    DefinitionError,
    base_digest,
    builtin_names,
    check_lock,
    load_builtin,
    load_definition,
    load_named,
    parse_definition,
    template_digest,
)

HASH = "--hash=sha256:" + "a" * 64
LOCK = f"aider-chat==1.2.3 \\\n    {HASH}\n"
TEXT = """
name = "mine"
description = "a test"
suite = "bookworm"
packages = ["git", "python3", "git"]
[aider]
version = "1.2.3"
lock = "aider.lock"
[environment]
LANG = "C.UTF-8"
"""


def test_a_definition_is_read_as_written() -> None:
    assert parse_definition(TEXT, LOCK) == Definition(
        name="mine",
        description="a test",
        suite="bookworm",
        packages=("git", "python3"),
        aider_version="1.2.3",
        aider_lock=LOCK,
        environment=(("LANG", "C.UTF-8"),),
    )


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("suite =", "suit =", "unknown key 'suit'; did you mean 'suite'?"),
        ("packages =", "package =", "did you mean 'packages'?"),
        ("lock =", "lok =", "\\[aider\\]: lock is missing"),
        ("version =", "versions =", "did you mean 'version'?"),
        ("suite =", "zzzz =", "unknown key 'zzzz'; known: aider, description"),
        ('"mine"', '"../x"', "name = '../x' is not a valid name"),
        ('"bookworm"', '"--aptopt=x"', "is not a valid suite"),
        ('"git"', '"git,--x"', "'git,--x' is not a Debian package name"),
        ('"git"', "7", "7 is not a Debian package name"),
        ('"1.2.3"', '"1.2.4"', "does not pin aider-chat==1.2.4"),
        ('"1.2.3"', '"latest"', "is not a valid version"),
        ('"C.UTF-8"', "3", "LANG needs a text"),
        ('name = "mine"', "name = mine", "is not TOML"),
        ('name = "mine"', "", "name is missing"),
    ],
)
def test_a_definition_that_breaks_a_rule_is_refused_with_the_rule(
    old: str, new: str, says: str, tmp_path: Path
) -> None:
    (tmp_path / "aider.lock").write_text(LOCK)
    (tmp_path / "mine.toml").write_text(TEXT.replace(old, new))
    with pytest.raises(DefinitionError, match=says):
        load_definition(tmp_path / "mine.toml")


def test_a_lock_is_looked_for_next_to_the_definition_only(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(TEXT.replace('"aider.lock"', '"../aider.lock"'))
    with pytest.raises(DefinitionError, match="a file name next to the definition"):
        load_definition(tmp_path / "mine.toml")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=re.escape("nowhere.toml")):
        load_definition(tmp_path / "nowhere.toml")


@pytest.mark.parametrize(
    "line",
    [
        "requests==2.0",
        f"requests>=2.0 \\\n    {HASH}",
        "requests==2.0 \\\n    --hash=sha256:short",
        f"requests @ https://registry.invalid/requests.whl \\\n    {HASH}",
        "--index-url https://registry.invalid/simple",
        "-r other.txt",
        "-e .",
        f"requests==2.0 --no-binary requests \\\n    {HASH}",
    ],
)
def test_a_lock_that_is_not_only_pins_and_hashes_is_refused(line: str) -> None:
    with pytest.raises(DefinitionError, match=r"aider\.lock"):
        check_lock(f"{LOCK}{line}\n", "1.2.3")


def test_markers_extras_and_comments_are_fine_in_a_lock() -> None:
    more = (
        f"# why\nuvicorn[standard]==0.30.1 ; python_version < '3.13' \\\n    {HASH} \\\n    {HASH}"
    )
    check_lock(f"{LOCK}{more}\n", "1.2.3")


@pytest.mark.parametrize("name", builtin_names())
def test_every_definition_that_comes_with_drydock_is_valid(name: str) -> None:
    assert load_builtin(name).name == name


def test_the_default_definition_pins_bookworm_whose_python_runs_aider() -> None:
    default = load_builtin("default")
    assert (default.suite, default.aider_version) == ("bookworm", "0.86.2")


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(DefinitionError, match="the built-in ones are: default"):
        load_builtin("nope")


packages = st.lists(st.from_regex(r"[a-z][a-z0-9]{1,8}", fullmatch=True), min_size=1, unique=True)


@given(packages, st.randoms())
def test_the_order_of_packages_changes_no_digest(names: list[str], random: object) -> None:
    shuffled = list(names)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, two = (dataclasses.replace(EXAMPLE, packages=tuple(x)) for x in (names, shuffled))
    assert template_digest(one, "x86_64", "ca") == template_digest(two, "x86_64", "ca")
    assert base_digest(one, "x86_64") == base_digest(two, "x86_64")


EXAMPLE = parse_definition(TEXT, LOCK)
OTHER_LOCK = LOCK.replace("a" * 64, "b" * 64)


@pytest.mark.parametrize(
    "changed",
    [
        dataclasses.replace(EXAMPLE, name="other"),
        dataclasses.replace(EXAMPLE, suite="trixie"),
        dataclasses.replace(EXAMPLE, packages=("git",)),
        dataclasses.replace(EXAMPLE, aider_lock=OTHER_LOCK),
        dataclasses.replace(EXAMPLE, environment=()),
    ],
)
def test_everything_that_makes_a_template_changes_its_digest(changed: Definition) -> None:
    assert template_digest(changed, "x86_64", "ca") != template_digest(EXAMPLE, "x86_64", "ca")


def test_architecture_and_certificates_change_the_digest() -> None:
    digests = {
        template_digest(EXAMPLE, architecture, ca)
        for architecture in ("x86_64", "aarch64")
        for ca in ("one", "two")
    }
    assert len(digests) == 4


def test_a_new_recipe_changes_both_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    before = (base_digest(EXAMPLE, "x86_64"), template_digest(EXAMPLE, "x86_64", "ca"))
    monkeypatch.setattr(module, "RECIPE_VERSION", 999)
    after = (base_digest(EXAMPLE, "x86_64"), template_digest(EXAMPLE, "x86_64", "ca"))
    assert not set(before) & set(after)


def test_a_new_lock_keeps_the_base_layer() -> None:
    changed = dataclasses.replace(EXAMPLE, aider_lock=OTHER_LOCK, environment=())
    assert base_digest(changed, "x86_64") == base_digest(EXAMPLE, "x86_64")


def test_a_digest_is_the_same_in_every_process_and_release() -> None:
    plain = dataclasses.replace(EXAMPLE, environment=(("A", "ü"),))
    digest = template_digest(plain, "x86_64", "ca")
    assert re.fullmatch(r"[0-9a-f]{64}", digest)
    assert digest == template_digest(plain, "x86_64", "ca")


MORE = """
setup = ["npm install -g pnpm@9", "true"]
[machine]
memory_mib = 4096
cpus = 4
disk_mib = 16384
"""


def with_more(more: str = MORE) -> Definition:
    head, machine = more.split("[machine]")
    return parse_definition(head + TEXT + "[machine]" + machine, LOCK)


def test_set_up_lines_and_the_size_of_a_machine_are_read_as_written() -> None:
    read = with_more()
    assert read.setup == ("npm install -g pnpm@9", "true")
    assert dict(read.machine) == {"memory_mib": 4096, "cpus": 4, "disk_mib": 16384}


def test_they_name_another_template_but_the_same_base() -> None:
    plain, more = parse_definition(TEXT, LOCK), with_more()
    assert template_digest(plain, "amd64", "") != template_digest(more, "amd64", "")
    assert base_digest(plain, "amd64") == base_digest(more, "amd64")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"true"', '" "', "setup: ' ' is not a shell command"),
        ('"true"', "1", "setup: 1 is not a shell command"),
        ('["npm install -g pnpm@9", "true"]', '"true"', "setup is a list of shell commands"),
        ("cpus = 4", "cpu = 4", "did you mean 'cpus'?"),
        ("cpus = 4", "cpus = 0", "cpus is a whole number from 1 to 256"),
        ("cpus = 4", "cpus = true", "cpus is a whole number"),
        ("4096", '"4G"', "memory_mib is a whole number"),
    ],
)
def test_a_wrong_set_up_or_size_is_refused_in_words(old: str, new: str, says: str) -> None:
    assert old in MORE
    with pytest.raises(DefinitionError, match=re.escape(says)):
        with_more(MORE.replace(old, new))


def test_a_definition_is_named_by_its_name_or_its_file(tmp_path: Path) -> None:
    (tmp_path / "aider.lock").write_text(LOCK)
    (tmp_path / "mine.toml").write_text(TEXT)
    assert load_named(str(tmp_path / "mine.toml")) == parse_definition(TEXT, LOCK)
    assert load_named("default") == load_builtin("default")
    with pytest.raises(DefinitionError, match="the built-in ones are: default"):
        load_named("mine")
