"""What a machine's Aider rehearses before there is a run for it: see `sandbox/guest/warm_aider.py`.

One edit and its commit, with the flags of a real run. Pure: values to values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sandbox.provider import WarmProgram
from workers.aider import AiderJob, build_argv, build_env, build_files

AIDER_PYTHON = "/opt/aider/bin/python"
FILE = "rehearsal.py"
EDIT = f"""\
{FILE}
```python
<<<<<<< SEARCH
count = 1
=======
count = 2
>>>>>>> REPLACE
```
"""
# Files that refer to each other, in the languages that are met most: the repository map reads them,
# and what it needs for each language, and for ranking, is loaded with the first of its kind.
TREE: Mapping[str, str] = {
    FILE: "count = 1\n",
    "lib.py": "class Store:\n    def get(self):\n        return 1\n\n\ndef top():\n    pass\n",
    "use.py": "from lib import Store, top\n\n\ndef run():\n    top()\n    return Store().get()\n",
    "test_use.py": "from use import run\n\n\ndef test_run():\n    assert run() == 1\n",
    "README.md": "# Rehearsal\n\nIt says `run`.\n\n```python\nrun()\n```\n",
    "config.yml": "run:\n  - top\n",
    "pyproject.toml": '[project]\nname = "top"\n',
    "package.json": '{"name": "top"}\n',
    "Makefile": "run:\n\ttrue\n",
    "run.sh": "run() {\n  true\n}\nrun\n",
    "index.html": "<script>run()</script>\n",
    "a.js": "export function run() { return top(); }\n",
    "a.ts": "export function run(): number { return top(); }\n",
    "a.go": "package a\n\nfunc Run() int { return Top() }\n",
    "a.rs": "fn run() -> i32 { top() }\n",
    "a.java": "class A { int run() { return top(); } }\n",
    "a.c": "int run(void) { return top(); }\n",
    "a.rb": "def run\n  top\nend\n",
}


def build_warm(job: AiderJob, environment: Mapping[str, str]) -> WarmProgram:
    """Return what a machine wakes up beforehand for a job like this one.

    `environment` is what a command of Aider's gets besides `build_env`. What differs between jobs
    (brief, files, commands) is rehearsal here; the model's key and address may yet change.
    """
    played = replace(job, files=(FILE,), test_command="true", lint_command=None)
    files = build_files(played, "Set it to 2.")
    return WarmProgram(
        python=AIDER_PYTHON,
        program=job.program,
        argv=tuple(build_argv(played)[1:]),
        env=tuple({**environment, **build_env(played)}.items()),
        late_env=tuple(job.route_env),
        files=(*TREE.items(), *((path, data.decode()) for path, data in files.items())),
        replies=(EDIT, "Set the count"),
    )
