from __future__ import annotations

import json
import multiprocessing
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from egress import audit as audit_module
from egress.audit import GENESIS, AuditBroken, AuditLog, Head, verify


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def write(path: Path, count: int, name: str = "a") -> Head:
    with AuditLog(path, clock=lambda: 5.0) as log:
        for number in range(count):
            log.append({"kind": name, "number": number})
        return log.head


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def change(path: Path, line: int, **values: Any) -> None:
    entries = lines(path)
    entries[line - 1].update(values)
    path.write_text("".join(json.dumps(each) + "\n" for each in entries))


def test_records_are_chained_from_the_first(path: Path) -> None:
    head = write(path, 3)
    entries = lines(path)
    assert [entry["seq"] for entry in entries] == [1, 2, 3]
    assert [entry["prev"] for entry in entries] == [GENESIS, *(e["hash"] for e in entries[:2])]
    assert entries[0]["time"] == 5.0
    assert head == Head(3, entries[2]["hash"])
    assert verify(path).ok
    assert verify(path).head == head


def test_an_empty_log_is_whole(path: Path) -> None:
    write(path, 0)
    assert verify(path) == audit_module.Verification(True, Head())


def test_the_log_is_for_its_owner_only(path: Path) -> None:
    write(path, 1)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_reopened_log_goes_on(path: Path) -> None:
    write(path, 2)
    assert write(path, 2).seq == 4
    assert verify(path).ok


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"record": {"kind": "other"}}, "record 2 was changed"),
        ({"time": 6.0}, "record 2 was changed"),
        ({"hash": "0" * 64}, "record 2 was changed"),
        ({"prev": "0" * 64}, "record 2 does not continue record 1"),
        ({"seq": 3}, "record 3 follows record 1"),
    ],
)
def test_an_edited_record_is_named(path: Path, values: dict[str, Any], reason: str) -> None:
    write(path, 3)
    change(path, 2, **values)
    found = verify(path)
    assert (found.ok, found.broken_line, found.reason) == (False, 2, reason)
    assert found.head.seq == 1


def test_an_edit_with_a_fitting_hash_breaks_the_next_record(path: Path) -> None:
    write(path, 3)
    entry = {**lines(path)[1], "time": 6.0}
    change(path, 2, time=6.0, hash=audit_module._digest(entry))
    assert verify(path).reason == "record 3 does not continue record 2"


@pytest.mark.parametrize("number", [1, 2])
def test_a_removed_record_is_noticed(path: Path, number: int) -> None:
    write(path, 3)
    kept = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(kept[: number - 1] + kept[number:]))
    assert verify(path).broken_line == number


def test_swapped_records_are_noticed(path: Path) -> None:
    write(path, 3)
    one, two, three = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(one + three + two)
    assert verify(path).broken_line == 2


def test_a_cut_end_differs_from_the_head_that_was_kept(path: Path) -> None:
    head = write(path, 3)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    assert verify(path).ok
    assert verify(path).head != head


def test_garbage_in_the_middle_is_named(path: Path) -> None:
    write(path, 2)
    one, two = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(one + b"garbage\n" + two)
    found = verify(path)
    assert (found.ok, found.broken_line) == (False, 2)


@pytest.mark.parametrize("torn", [b"{", b'{"seq":3,"time"', b"\0\0\0", b"x" * 5000])
def test_a_torn_last_line_is_sealed_and_recorded(path: Path, torn: bytes) -> None:
    write(path, 2)
    with path.open("ab") as file:
        file.write(torn)
    found = verify(path)
    assert (found.ok, found.broken_line) == (False, 3)
    write(path, 1, "after")
    assert verify(path).ok
    recovered = json.loads(path.read_bytes().splitlines()[3])["record"]
    assert (recovered["kind"], recovered["torn_bytes"]) == ("recovered", len(torn))
    assert verify(path).head.seq == 4


def test_a_sealed_line_cannot_be_exchanged_for_another(path: Path) -> None:
    write(path, 1)
    with path.open("ab") as file:
        file.write(b"torn")
    write(path, 1)
    path.write_bytes(path.read_bytes().replace(b"torn\n", b"tern\n"))
    found = verify(path)
    assert (found.ok, found.broken_line) == (False, 2)


def test_a_line_that_lacks_only_its_newline_is_completed(path: Path) -> None:
    head = write(path, 2)
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    with AuditLog(path) as log:
        assert log.head == head
    assert verify(path).ok


def test_a_log_whose_last_record_is_broken_is_not_continued(path: Path) -> None:
    write(path, 2)
    change(path, 2, time=6.0)
    with pytest.raises(AuditBroken, match="the last record is broken"):
        AuditLog(path)


def test_a_log_that_was_cut_under_its_writer_is_not_continued(path: Path) -> None:
    with AuditLog(path) as log:
        log.append({"kind": "a"})
        path.write_bytes(b"")
        with pytest.raises(AuditBroken, match="was cut"):
            log.append({"kind": "b"})


def test_a_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        AuditLog(path)


def test_a_closed_log_takes_nothing(path: Path) -> None:
    log = AuditLog(path)
    log.close()
    log.close()
    with pytest.raises(AuditBroken, match="closed"):
        log.append({"kind": "a"})


def test_a_full_disk_is_an_error_and_leaves_no_torn_line(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    with AuditLog(path) as log:
        log.append({"kind": "a"})
        monkeypatch.setattr(audit_module.os, "write", lambda fd, data: real(fd, data[:9]))
        with pytest.raises(AuditBroken, match="cannot be written"):
            log.append({"kind": "b"})
        monkeypatch.undo()
        log.append({"kind": "c"})
    assert [entry["record"]["kind"] for entry in lines(path)] == ["a", "c"]
    assert verify(path).ok


def test_a_record_that_is_too_long_is_refused(path: Path) -> None:
    with AuditLog(path) as log:
        with pytest.raises(AuditBroken, match="longer than"):
            log.append({"kind": "x" * audit_module.MAX_LINE})
        log.append({"kind": "a"})
    assert verify(path).ok


def test_two_writers_in_one_process_keep_one_chain(path: Path) -> None:
    with AuditLog(path) as one, AuditLog(path) as two:
        threads = [
            threading.Thread(target=lambda log=log: [log.append({"n": n}) for n in range(50)])
            for log in (one, two, one, two)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert verify(path).ok
    assert verify(path).head.seq == 200


def test_writers_in_several_processes_keep_one_chain(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write, args=(path, 40, str(n))) for n in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    assert verify(path).ok
    assert verify(path).head.seq == 120
