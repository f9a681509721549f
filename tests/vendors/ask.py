"""Runs inside a machine: asks every model on the list with Aider's own LiteLLM; JSON lines out."""

import json
import os
import sys

jobs = json.loads(sys.argv[1])
for job in jobs:
    os.environ.update(job["env"])

import litellm  # noqa: E402  reads the environment

litellm.suppress_debug_info = True


def ask(model: str, *, stream: bool) -> str:
    answer = litellm.completion(
        model=model,
        messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi."}],
        stream=stream,
        max_retries=0,
    )
    if stream:
        return "".join(piece.choices[0].delta.content or "" for piece in answer)
    return str(answer.choices[0].message.content)


for job in jobs:
    os.environ.update(job["env"])
    for stream in (False, True):
        try:
            said, error = ask(job["model"], stream=stream), ""
        except Exception as raised:  # noqa: BLE001
            said, error = "", f"{type(raised).__name__}: {raised}"
        told = {"name": job["name"], "stream": stream, "said": said, "error": error}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
