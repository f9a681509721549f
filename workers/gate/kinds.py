"""What kind of thing a change puts into the tree: links, submodules, programs, big files. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from workers.gate.names import is_git_folder
from workers.gate.paths import canonical
from workers.gate.values import (
    EXECUTABLE,
    GITLINK,
    Change,
    GateRules,
    Rule,
    TreeFacts,
    in_mib,
)
from workers.git import printable

# Linux follows 40 and Windows 63: more lead nowhere.
_MAX_LINKS_FOLLOWED = 63
_KNOWN_MODES = frozenset({0, 0o100644, 0o100664, EXECUTABLE, 0o120000, GITLINK})

# What a lock is made from. `*` is the name's beginning.
MANIFESTS: Mapping[bytes, tuple[bytes, ...]] = {
    b"package-lock.json": (b"package.json",),
    b"npm-shrinkwrap.json": (b"package.json",),
    b"yarn.lock": (b"package.json",),
    b"pnpm-lock.yaml": (b"package.json", b"pnpm-workspace.yaml"),
    b"bun.lock": (b"package.json",),
    b"bun.lockb": (b"package.json",),
    b"deno.lock": (b"deno.json", b"deno.jsonc", b"package.json"),
    b"poetry.lock": (b"pyproject.toml",),
    b"uv.lock": (b"pyproject.toml",),
    b"pdm.lock": (b"pyproject.toml",),
    b"pylock.toml": (b"pyproject.toml",),
    b"Pipfile.lock": (b"Pipfile",),
    b"Cargo.lock": (b"Cargo.toml",),
    b"go.sum": (b"go.mod",),
    b"Gemfile.lock": (b"Gemfile",),
    b"composer.lock": (b"composer.json",),
    b"mix.lock": (b"mix.exs",),
    b"pubspec.lock": (b"pubspec.yaml",),
    b"flake.lock": (b"flake.nix",),
    b"Podfile.lock": (b"Podfile",),
    b"gradle.lockfile": (b"build.gradle", b"build.gradle.kts"),
    b"packages.lock.json": (),
}

Seen = tuple[Change, Rule, str]


def check_kind(change: Change, rules: GateRules) -> Iterator[Seen]:
    """Yield what is to be said about one change's mode and size."""
    if GITLINK in {change.old_mode, change.new_mode}:
        yield change, Rule.SUBMODULE, "a submodule was added, moved or removed"
    elif change.path.lower() == b".gitmodules":
        yield change, Rule.SUBMODULE, "the list of submodules was changed"
    if change.new_mode == EXECUTABLE and change.old_mode != EXECUTABLE:
        yield change, Rule.EXECUTABLE, "the file can now be executed"
    if change.new_mode not in _KNOWN_MODES:
        yield change, Rule.PATH_UNSAFE, f"git knows no file of mode {change.new_mode:o}"
    if change.size is not None and change.size > rules.max_file_bytes:
        limit = in_mib(rules.max_file_bytes)
        yield change, Rule.LARGE_FILE, f"is {in_mib(change.size)}, more than {limit}"


def check_locks(changes: Sequence[Change]) -> Iterator[Seen]:
    """Yield every lock file of the whole change whose manifest stayed as it was.

    A workspace has one lock for many manifests, so a manifest anywhere below counts too.
    """
    changed = [change.path for change in changes if not change.commit]
    for change in changes:
        folder, slash, name = change.path.rpartition(b"/")
        if change.commit or name not in MANIFESTS or not change.new_mode:
            continue
        if not any(_is_manifest(path, folder + slash, MANIFESTS[name]) for path in changed):
            wanted = " or ".join(each.decode() for each in MANIFESTS[name]) or "a manifest"
            yield change, Rule.LOCK_FILE, f"the lock was changed and {wanted} was not"


def _is_manifest(path: bytes, below: bytes, names: Sequence[bytes]) -> bool:
    return path.startswith(below) and path.rpartition(b"/")[2] in names


def check_links(facts: TreeFacts) -> Iterator[tuple[str, bytes, str]]:
    """Yield commit, path and reason for every symlink that the run made lead out of the tree."""
    base = _Links.of(facts.base_links)
    before = {path for path in base.exact if _leaves(path, base)}
    for tree in facts.links:
        links = _Links.of(tree.links)
        for path, target in links.exact.items():
            unchanged = path in before and target == base.exact[path]
            if not unchanged and _leaves(path, links):
                shown = printable(target, 200)
                yield tree.commit, path, f"a symlink out of the repository, to {shown}"


def leaves_tree(path: bytes, links: Mapping[bytes, bytes]) -> bool:
    """Return whether following the symlink at `path` leads out of the tree or into `.git`.

    Links on the way are followed too, as the kernel would, and names are read as the most forgiving
    file system reads them. A link that turns in circles leads nowhere and is no escape.
    """
    return _leaves(path, _Links.of(links))


@dataclass(frozen=True)
class _Links:
    """A tree's symlinks by their paths, and by the canonical forms of these."""

    exact: Mapping[bytes, bytes]
    folded: Mapping[str, bytes]

    @classmethod
    def of(cls, links: Mapping[bytes, bytes]) -> _Links:
        return cls(links, {canonical(path): target for path, target in links.items()})

    def target(self, path: bytes) -> bytes | None:
        return self.exact.get(path, self.folded.get(canonical(path)))


def _leaves(path: bytes, links: _Links) -> bool:
    todo = path.split(b"/")[::-1]
    at: list[bytes] = []
    followed = 0
    while todo:
        step = _take_step(todo.pop(), at, links)
        if step is None:
            return True
        if step:
            followed += 1
            if followed > _MAX_LINKS_FOLLOWED:
                return False
            todo += step[::-1]
    return False


def _take_step(part: bytes, at: list[bytes], links: _Links) -> list[bytes] | None:
    """Move `at` by one path component; returns a link's components to walk next, None outside."""
    if part in {b"", b"."}:
        return []
    if _leads_up(part):
        return None if not at else _drop_last(at)
    if is_git_folder(canonical(part)):
        return None
    at.append(part)
    target = links.target(b"/".join(at))
    if target is None:
        return []
    at.pop()
    # Windows takes a drive or a backslash for the beginning of an absolute path.
    absolute = target.startswith((b"/", b"\\")) or target[1:2] == b":"
    return None if absolute else target.replace(b"\\", b"/").split(b"/")


def _leads_up(part: bytes) -> bool:
    """Windows drops spaces at a name's end, so `.. ` is `..` there."""
    return part.rstrip(b" ") == b".."


def _drop_last(at: list[bytes]) -> list[bytes]:
    at.pop()
    return []
