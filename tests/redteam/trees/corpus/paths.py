"""Paths that are protected, by whom and against whom, and the agent's own files."""

from __future__ import annotations

from tests.redteam.trees.corpus.cases import R, W, commits, tree
from tests.workers.conftest import link
from tests.workers.gate.conftest import Yard
from workers.gate import Allowance, Level, PathRule, Rule

P = Rule.PROTECTED_PATH
for path in (
    b".github/workflows/ci.yml",
    b".github/workflows/new/deep.yml",
    b".github/actions/setup/action.yml",
    b".github/drydock.yml",
    b".github/CODEOWNERS",
    b"CODEOWNERS",
    b".husky/pre-commit",
    b"web/.husky/pre-push",
    b".githooks/post-merge",
    b".pre-commit-config.yaml",
    b"lefthook.yml",
    b".vscode/tasks.json",
    b"sub/.vscode/launch.json",
    b".idea/runConfigurations/all.xml",
    b".devcontainer/devcontainer.json",
    b".envrc",
    b".env",
    b"deploy/.env.production",
    b".npmrc",
    b".yarnrc.yml",
    b".cargo/config.toml",
    b".claude/settings.json",
    b".mcp.json",
):
    tree(f"protected: {path.decode()}", {path: b"changed\n"}, (P, path.decode(), R))
# One that is let through stands for no other, however long what they have in common is.
LONG = "docs/" + "/".join(["n" * 250] * 3)
tree("names that differ after hundreds of characters, one of them allowed",
     {f"{LONG}/.env".encode(): b"X=1\n", f"{LONG}/.npmrc".encode(): b"x\n"},
     (P, f"{LONG}/.env", R), (P, f"{LONG}/.npmrc", W),
     allowances=(Allowance(f"{LONG}/.npmrc", "boss"),))  # fmt: skip
for path in (b".env.example", b".vscode/settings.json", b"AGENTS.md", b".gitlab-ci.yml"):
    tree(f"with care: {path.decode()}", {path: b"changed\n"}, (P, path.decode(), W))

tree(
    "a protected file removed", {}, (P, ".github/workflows/ci.yml", R),
    drop=(b".github/workflows/ci.yml",),
)  # fmt: skip
tree(
    "another case of a protected folder",
    {b".GitHub/Workflows/x.yml": b"1"},
    (P, ".GitHub/Workflows/x.yml", R),
    (Rule.NAME_COLLISION, ".GitHub/Workflows/x.yml", R),
)
tree(
    "an invisible character in a protected folder",
    {".github/work\u200dflows/x.yml".encode(): b"1"},
    (P, ".github/work\\u200dflows/x.yml", R),
    (Rule.NAME_COLLISION, ".github/work\\u200dflows/x.yml", R),
    (Rule.PATH_NAME, ".github/work\\u200dflows/x.yml", W),
)
tree(
    "a link in the place of a protected folder",
    {b".github/workflows": link(b"../docs")},
    (P, ".github/workflows", R),
    (P, ".github/workflows/ci.yml", R),
    drop=(b".github/workflows/ci.yml",),
)
tree(
    "a file in the place of the folder above",
    {b".github": b"1"},
    (P, ".github", R),
    (P, ".github/workflows/ci.yml", R),
    (P, ".github/drydock.yml", R),
    drop=(b".github/workflows/ci.yml", b".github/drydock.yml"),
)


def _there_and_back(yard: Yard) -> None:
    yard.change({b".github/workflows/evil.yml": b"x"})
    yard.change({}, drop=[b".github/workflows/evil.yml"])


commits("a workflow that a later commit takes back", _there_and_back,
        (P, ".github/workflows/evil.yml", R))  # fmt: skip
tree(
    "the repository protects more",
    {b"deploy/prod.tf": b"1"}, (P, "deploy/prod.tf", R),
    paths=(PathRule("deploy/**"),),
)  # fmt: skip
tree(
    "the repository allows what the defaults refuse",
    {b".npmrc": b"1"}, paths=(PathRule(".npmrc", Level.ALLOW),),
)  # fmt: skip
tree(
    "the repository cannot allow what the operator refuses",
    {b".github/workflows/x.yml": b"1"}, (P, ".github/workflows/x.yml", R),
    paths=(PathRule(".github/workflows/**", Level.ALLOW),),
)  # fmt: skip
tree(
    "the operator's floor warns and the repository refuses",
    {b"x.py": b"1"}, (P, "x.py", R),
    floor=(PathRule("*.py", W),), paths=(PathRule("x.py"),),
)  # fmt: skip
tree(
    "a person lets one path through",
    {b".npmrc": b"1", b".envrc": b"1"}, (P, ".npmrc", W), (P, ".envrc", R),
    allowances=(Allowance(".npmrc", "mona"),),
)  # fmt: skip

# ---- the agent's files -----------------------------------------------------------------------

for path in (b".aider.conf.yml", b"x/.aider.tags.cache.v4/d", b".AIDERignore"):
    tree(f"agent: {path.decode()}", {path: b"x\n"}, (Rule.AGENT_FILE, path.decode(), R))
