from __future__ import annotations

import pytest
from rich.table import Table
from rich.text import Text

from cli.tables import print_table


def test_what_a_pipe_gets_is_neither_cut_nor_folded(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(box=None)
    for cell in ("https://" + "a" * 200 + ".example:443", "why " * 50):
        table.add_column(cell[:5], overflow="fold")
    table.add_row(Text("https://" + "a" * 200 + ".example:443"), Text("why " * 50))
    print_table(table)
    (_, row) = capsys.readouterr().out.splitlines()
    assert "a" * 200 in row
    assert ("why " * 50).strip() in row
