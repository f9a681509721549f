"""What is wrong with the settings, told to the operator."""

from __future__ import annotations


class SettingsError(Exception):
    """The operator has to set something; `problems` are sentences that say what and how."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
