"""What is done to the repository inside the machine, each step through `Sandbox.exec`.

The repository stands in `/work/repo`, the run's own files in `/work/job` beside it. Command lines
use paths relative to the repository only, so that a provider may keep its files anywhere. Nothing
that these functions return is trusted: the gate judges what comes out on the host.

Left-overs that Aider did not commit are never published: they are named as a warning and thrown
away before the tests run once more, so that what is tested is what is published.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from sandbox.provider import WORK_DIR, ExecResult, Sandbox
from workers.checkout import BASE_REF, Bundle
from workers.git import printable
from workers.outcome import GitFacts

REPO_DIR = f"{WORK_DIR}/repo"
JOB_DIR = f"{WORK_DIR}/job"
OUT_REF = "refs/heads/drydock/out"
WORK_BRANCH = "drydock/out"
MAX_BUNDLE_BYTES = 256 * 1024 * 1024
MAX_LEFTOVERS = 200
STEP_TIMEOUT_S = 300.0

_IN_BUNDLE = f"{JOB_DIR}/in.bundle"
_OUT_BUNDLE = f"{JOB_DIR}/out.bundle"
_ENV: Mapping[str, str] = {"LC_ALL": "C.UTF-8", "GIT_TERMINAL_PROMPT": "0"}

# One shell and as few processes as there can be: starting one takes 20 ms under gVisor.
_CLONE = """
set -eu
git init --quiet --template= -b "$1" repo
cd repo
mkdir -p .git/info
printf %s "$2" >> .git/config
printf '[safe]\\n\\tdirectory = *\\n' >> "$HOME/.gitconfig"
printf '%s\\n' '.aider*' '__pycache__/' '.pytest_cache/' > .git/info/exclude
[ ! -e ../job/shallow ] || mv ../job/shallow .git/shallow
git bundle unbundle ../job/in.bundle "$3"
git update-ref "$3" "$4"
git reset --hard --quiet "$4"
rm -f ../job/in.bundle
"""

# Untracked files that were there before Aider (what setup made) are neither left-overs nor removed.
_NOTE_UNTRACKED = """
set -eu
git ls-files -z --others --exclude-standard | LC_ALL=C sort -z > ../job/untracked
"""

_NEW_UNTRACKED = """
git ls-files -z --others --exclude-standard | LC_ALL=C sort -z > ../job/untracked.now
LC_ALL=C comm -z -13 ../job/untracked ../job/untracked.now
"""

# What Aider reads and partly executes when it lies at the root of the repository or in the home:
# .env, .aider.conf.yml, .aider.model.settings.yml, .aider.model.metadata.json, .aiderignore.
_HIDE = """
set -eu
mkdir -p ../job/hidden
git ls-files -z -- ':(literal).env' ':(top,glob).aider*' ':(top,glob).aider*/**' > ../job/tracked
if [ -s ../job/tracked ]; then
  git update-index -z --skip-worktree --stdin < ../job/tracked
fi
for name in .env .aider*; do
  if [ -e "$name" ] || [ -L "$name" ]; then mv -- "$name" "../job/hidden/$name"; fi
done
cd "$HOME"
rm -rf .env .aider.conf.yml .aider.model.settings.yml .aider.model.metadata.json \
  .aider/oauth-keys.env
cd - > /dev/null
cat ../job/tracked
"""

_RESTORE = """
set -eu
if [ -s ../job/tracked ]; then
  git update-index -z --no-skip-worktree --stdin < ../job/tracked
fi
rm -rf -- .aider*
for name in ../job/hidden/.env ../job/hidden/.aider*; do
  if [ -e "$name" ] || [ -L "$name" ]; then mv -f -- "$name" .; fi
done
"""

# Aider's map of the repository ends it over a name that is not UTF-8: such files are left out, by
# patterns that have a wildcard for what cannot be written.
_LEAVE_OUT = r"""
set -eu
git ls-files -z | LC_ALL=C.UTF-8 grep -zaxv '.*' | tr '\n\0' '?\n' \
  | LC_ALL=C sed -e 's/[][\\*!#]/\\&/g' -e 's/[^ -~]\{1,\}/*/g' -e 's|^|/|' > ../job/aiderignore
"""

# Aider reads text with any line ending and writes line feeds only. For files whose lines end in
# CRLF throughout, a clean filter gives the ending back when they are added, so that a one-line
# change stays one. Names that git would quote are left out.
_KEEP_CRLF = r"""
set -eu
git ls-files --eol | grep '^i/crlf' | grep -v 'attr/text ' > ../job/crlf || true
[ -s ../job/crlf ] || exit 0
export LC_ALL=C
cut -f 2- ../job/crlf | grep -v '^"' | sed 's/[][\\*?]/\\&/g; s/ /[[:space:]]/g' \
  | sed 's|.*|/& filter=drydock-crlf|' >> .git/info/attributes
git config filter.drydock-crlf.clean "perl -pe 's/\\r?\\n/\\r\\n/'"
"""

_DISCARD = (
    r"""
set -eu
if [ -s ../job/crlf ]; then
  rm -f .git/info/attributes
  git ls-files -z --eol | tr '\n\0' '\0\n' | grep '^i/crlf *w/lf' | cut -f 2- \
    | tr '\n\0' '\0\n' > ../job/rewrite || true
  xargs -0 -r rm -f -- < ../job/rewrite  # else git takes them for unchanged by their times
  git checkout-index --force --index -z --stdin < ../job/rewrite
fi
git reset --hard --quiet HEAD
("""
    + _NEW_UNTRACKED
    + """) | xargs -0 -r rm -rf --
"""
)


class GuestRepoFailed(Exception):
    """A step on the repository inside the machine failed; the text names the step and its end."""


@dataclass(frozen=True)
class Identity:
    """Who commits. Inside the machine it is a placeholder: the gate sets the real one."""

    name: str
    email: str


AGENT_IDENTITY = Identity("Drydock", "drydock@localhost")
_CONFIG = f"""\
[user]
\tname = {AGENT_IDENTITY.name}
\temail = {AGENT_IDENTITY.email}
[core]
\tautocrlf = false
\tquotePath = false
[commit]
\tgpgSign = false
[gc]
\tauto = 0
[advice]
\tdetachedHead = false
"""


def clone(sandbox: Sandbox, bundle: Bundle, data: IO[bytes]) -> None:
    """Put the bundle into the machine and check its base out on a branch of our name.

    Errors: GuestRepoFailed, and whatever the sandbox raises.
    """
    sandbox.write_file(_IN_BUNDLE, data)
    if bundle.shallow:
        shallow = "".join(f"{sha}\n" for sha in bundle.shallow)
        sandbox.write_file(f"{JOB_DIR}/shallow", shallow.encode())
    args = (WORK_BRANCH, _CONFIG, BASE_REF, bundle.base_sha)
    _run(sandbox, ["sh", "-c", _CLONE, "clone", *args], WORK_DIR)


def prepare_for_agent(sandbox: Sandbox) -> tuple[str, ...]:
    """Make the repository safe for Aider to start in; call it after setup, right before Aider.

    Takes away, until `settle_after_agent`, what would configure Aider, and keeps CRLF endings.
    Returns the tracked names that were hidden; git does not see them as deleted.
    """
    steps = (_NOTE_UNTRACKED, _HIDE, _LEAVE_OUT, _KEEP_CRLF)
    listed = _sh(sandbox, "set -e\n" + "\n".join(f"({step})" for step in steps)).stdout
    return tuple(printable(name) for name in listed.split(b"\0") if name)


def begin_trial(sandbox: Sandbox) -> None:
    """Note what lies here, so that `end_trial` can take away what a command leaves behind."""
    _sh(sandbox, _NOTE_UNTRACKED)


def end_trial(sandbox: Sandbox) -> None:
    """Make the work tree what it was at `begin_trial`; ignored files stay."""
    _sh(sandbox, _DISCARD)


def read_facts(sandbox: Sandbox, base_sha: str) -> GitFacts:
    """Return what git in the machine says after Aider: commits since the base, head, left-overs."""
    head = _git(sandbox, "rev-parse", "HEAD").stdout.decode("ascii", "replace").strip()
    count = _git(sandbox, "rev-list", "--count", f"{base_sha}..HEAD").stdout
    return GitFacts(commits=_number(count), head=head, dirty=list_leftovers(sandbox))


def list_leftovers(sandbox: Sandbox) -> tuple[str, ...]:
    """Return the names of changed or new files that no commit holds, for the report's warning."""
    changed = _git(sandbox, "diff", "--name-only", "--no-renames", "-z", "HEAD").stdout
    new = _sh(sandbox, _NEW_UNTRACKED).stdout
    names = [printable(name) for name in (changed + new).split(b"\0") if name]
    return tuple(names[:MAX_LEFTOVERS])


def settle_after_agent(sandbox: Sandbox) -> None:
    """Give the hidden files back and make the work tree equal its head, byte for byte.

    Ignored files and what setup left stay, so that the tests find their installation.
    """
    _sh(sandbox, f"set -e\n({_RESTORE})\n({_DISCARD})")


def take_bundle(
    sandbox: Sandbox, base_sha: str, into: IO[bytes], *, max_bytes: int = MAX_BUNDLE_BYTES
) -> int:
    """Bundle `base_sha..HEAD` and stream it into `into`; returns its bytes, 0 for no new commit.

    Errors: GuestRepoFailed; `GuestMisbehaved` beyond `max_bytes`.
    """
    head = _git(sandbox, "rev-parse", "HEAD").stdout.strip()
    if head == base_sha.encode():
        return 0
    # A detached head or another branch is all the same: what is at HEAD goes out.
    _git(sandbox, "update-ref", OUT_REF, "HEAD")
    if not _number(_git(sandbox, "rev-list", "--count", f"{base_sha}..HEAD").stdout):
        return 0
    range_ = (f"^{base_sha}", OUT_REF)
    _git(sandbox, "bundle", "create", "--quiet", "--version=2", "../job/out.bundle", *range_)
    return sandbox.copy_out(_OUT_BUNDLE, into, max_bytes=max_bytes)


def _number(text: bytes) -> int:
    stripped = text.strip()
    if not stripped.isdigit() or len(stripped) > 9:
        raise GuestRepoFailed(f"git in the machine counted {printable(text, 80)}")
    return int(stripped)


def _git(sandbox: Sandbox, *args: str) -> ExecResult:
    return _run(sandbox, ["git", *args], REPO_DIR)


def _sh(sandbox: Sandbox, script: str, cwd: str = REPO_DIR) -> ExecResult:
    return _run(sandbox, ["sh", "-c", script], cwd)


def _run(sandbox: Sandbox, argv: Sequence[str], cwd: str) -> ExecResult:
    done = sandbox.exec(argv, env=_ENV, cwd=cwd, timeout_s=STEP_TIMEOUT_S)
    if done.exit_code == 0:
        return done
    how = "took too long" if done.timed_out else f"ended with {done.exit_code or done.signal}"
    said = printable(done.stderr[-1_000:].strip(), 1_000)
    raise GuestRepoFailed(f"{shlex.join(argv[:3])[:120]} in the machine {how}: {said}")
