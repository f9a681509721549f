"""What comes of commands on pull requests whose branch is nobody's own."""

from __future__ import annotations

from tests.harbour.harbour import RIGHT, Harbour


def test_no_commit_goes_to_the_default_branch_without_a_review(harbour: Harbour) -> None:
    repo = harbour.repo
    harbour.mona.pushes(repo, {"notes.txt": "1\n"}, branch="release")
    harbour.mona.pushes(repo, {"calc.py": RIGHT})
    pull = harbour.mona.opens_pull(repo, title="Release", head="main", base="release")
    before = pull.head_sha
    asked = harbour.mona.comments(pull, "/aider any number of them")
    harbour.settle()
    assert pull.head_sha == before
    assert harbour.runs_of(pull) == []
    assert harbour.reactions_on(asked) == ["confused"]
    (said,) = harbour.replies_on(pull)
    assert "others start from" in said
