"""A stand-in for Aider, for tests of everything but Aider: the same flags, files and habits.

Asks the model over HTTP, applies search/replace blocks, commits, runs the test command, tells the
model of failures up to three times, and always ends with 0. Runs as a program; standard library
only.
"""

# It talks on standard output, and to the loopback address that it is given:
# ruff: noqa: T201, S310

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

REFLECTIONS = 3
EDIT = re.compile(
    r"^(?P<path>\S+)\n```\w*\n<{7} SEARCH\n(?P<old>.*?)={7}\n(?P<new>.*?)>{7} REPLACE",
    re.MULTILINE | re.DOTALL,
)


def main() -> None:
    flags = dict(arg[2:].split("=", 1) for arg in sys.argv[1:] if "=" in arg)
    log = Log(Path(flags["analytics-log"]), Path(flags["llm-history-file"]))
    try:
        talk(flags, log)
    except urllib.error.HTTPError as error:
        print(f"litellm.APIError: {error.code} {error.read().decode(errors='replace')[:500]}")
    except OSError as error:
        print(f"litellm.InternalServerError: {error}")
    log.event("exit", reason="Completed --message-file")


class Log:
    def __init__(self, analytics: Path, history: Path) -> None:
        self._analytics, self._history = analytics, history

    def event(self, name: str, **properties: object) -> None:
        with self._analytics.open("a") as file:
            file.write(json.dumps({"event": name, "properties": properties}) + "\n")

    def reply(self, text: str) -> None:
        with self._history.open("a") as file:
            file.write("LLM RESPONSE 2025-01-01T00:00:00\n")
            file.writelines(f"ASSISTANT {line}\n" for line in text.split("\n"))


def talk(flags: dict[str, str], log: Log) -> None:
    files = [arg.removeprefix("--file=") for arg in sys.argv if arg.startswith("--file=")]
    shown = "\n".join(f"{name}\n{Path(name).read_text(errors='replace')}" for name in files)
    shown += "".join(Path(name).read_text() for key, name in flags.items() if key == "read")
    prompt = Path(flags["message-file"]).read_text()
    messages = [{"role": "user", "content": f"{prompt}\n{shown}"}]
    for _ in range(1 + REFLECTIONS):
        log.event("message_send_starting")
        answer = ask(flags["model"], messages)
        log.event("message_send", prompt_tokens=10, completion_tokens=10)
        log.reply(answer)
        messages.append({"role": "assistant", "content": answer})
        problem = follow(answer, flags)
        if problem is None:
            return
        messages.append({"role": "user", "content": problem})
    print(f"Only {REFLECTIONS} reflections allowed, stopping.")


def ask(model: str, messages: list[dict[str, str]]) -> str:
    request = urllib.request.Request(
        os.environ["OPENAI_API_BASE"] + "/chat/completions",
        json.dumps({"model": model.partition("/")[2], "messages": messages}).encode(),
        {
            "content-type": "application/json",
            "authorization": f"Bearer {os.environ['OPENAI_API_KEY']}",
        },
    )
    with urllib.request.urlopen(request, timeout=600) as answer:
        content: str = json.load(answer)["choices"][0]["message"]["content"]
        return content


def follow(answer: str, flags: dict[str, str]) -> str | None:
    """Apply the edit, commit and test; returns what the model has to be told, None when done."""
    edit = EDIT.search(answer)
    if edit is None:
        return None
    path = Path(edit["path"])
    text = path.read_text() if path.exists() else ""
    if edit["old"] not in text:
        print("The LLM did not conform to the edit format.")
        return "That block matches nothing."
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace(edit["old"], edit["new"], 1) if text else edit["new"])
    commit(edit["path"])
    return test(flags.get("test-cmd"))


def commit(path: str) -> None:
    subprocess.run(["git", "add", "--", path], check=True, env=dict(os.environ))
    words = ["git", "commit", "--quiet", "--no-verify", "-m", f"fix: Change {path}"]
    subprocess.run(words, check=False, env=dict(os.environ))


def test(command: str | None) -> str | None:
    if command is None:
        return None
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    if done.returncode == 0:
        return None
    print("Added 1 line of output to the chat.")
    return f"The tests failed:\n{done.stdout}{done.stderr}"


if __name__ == "__main__":
    main()
