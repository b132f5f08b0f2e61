"""Run folders: exact, the same bytes for the same run, whole or not at all."""

from __future__ import annotations

import pandas as pd
import pytest

from sim.core.errors import UserError
from sim.report import folder
from sim.report.folder import check_target, load_run, write_run
from sim.report.metrics import summarize
from sim.report.view import RunView, distinct_names, view_of
from tests.report.records import Served, record_of

ROWS = [[0, 1_234_567, 0, 1, 7, 0, 3, 2, 1], [1_234_567, 10**15 + 1, 2, 0, 0, 99, 4, 0, 50]]


def view(name: str = "continuous") -> RunView:
    record = record_of(
        Served(0.0, [0.123456789, 1.0, 1.7]),
        Served(0.1, [2.0], prompt=3),
        Served(0.2, rejected='needs 9 blocks, "only" 4'),
    )
    record.iterations = pd.DataFrame(ROWS).to_numpy(dtype="int64")
    summary = summarize(record, slo={"ttft_s": 1.0}, provenance={"policy": name})
    return view_of(record, name=name, config={"name": "byhand", "seed": 0}, summary=summary)


def files(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


@pytest.mark.parametrize("file_format", ["csv", "parquet"])
def test_a_run_read_back_is_the_run_that_was_written(tmp_path, file_format):
    if file_format == "parquet":
        pytest.importorskip("pyarrow")
    written = view()
    write_run(written, tmp_path / "run", file_format=file_format)
    read = load_run(tmp_path / "run")
    assert read.name == "continuous"
    assert read.config == written.config and read.summary == written.summary
    for table in ("requests", "iterations", "tbt"):
        pd.testing.assert_frame_equal(
            getattr(read, table), getattr(written, table), check_exact=True, check_dtype=False
        )


def test_times_are_written_as_exact_nanosecond_decimals(tmp_path):
    run = write_run(view(), tmp_path / "run")
    assert (run / "iterations.csv").read_text().splitlines() == [
        "start_s,duration_s,num_decodes,num_prefills,prefill_tokens,context_tokens,kv_blocks_used,"
        "waiting,repeats",
        "0.000000000,0.001234567,0,1,7,0,3,2,1",
        "0.001234567,1000000.000000001,2,0,0,99,4,0,50",
    ]
    requests = (run / "requests.csv").read_text().splitlines()
    assert requests[1] == (
        "0,0.000000000,10,3,0.000000000,0.123456789,1.700000000,0.123456789,"
        "0.7882716055,0.876543211,1.700000000,0,finished,"
    )
    assert requests[3] == '2,0.200000000,10,1,,,,,,,,0,rejected,"needs 9 blocks, ""only"" 4"'


def test_the_same_run_gives_the_same_bytes_also_when_saved_again_from_the_folder(tmp_path):
    first = write_run(view(), tmp_path / "first")
    second = write_run(view(), tmp_path / "second")
    third = write_run(load_run(first), tmp_path / "third")
    assert files(first) == files(second) == files(third)


def test_an_id_that_looks_like_a_missing_value_stays_text(tmp_path):
    named = view()
    named.requests["request_id"] = pd.Series(["NA", "", "007"], dtype=object)
    assert load_run(write_run(named, tmp_path / "run")).requests["request_id"].tolist() == ["NA", "", "007"]


def test_a_new_run_replaces_an_old_one_and_keeps_what_is_not_its_own(tmp_path):
    run = write_run(view("old"), tmp_path / "run")
    (run / "plots").mkdir()
    (run / "notes.txt").write_text("mine")
    write_run(view("new"), run)
    assert load_run(run).name == "new"
    assert (run / "notes.txt").read_text() == "mine" and not (run / "plots").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_failure_in_the_middle_leaves_the_old_run_as_it_was(tmp_path, monkeypatch):
    run = write_run(view("old"), tmp_path / "run")
    before = files(run)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder, "_write_table", full)
    with pytest.raises(UserError, match=r"output\.dir: cannot write .*run: No space left on device"):
        write_run(view("new"), run)
    assert files(run) == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_folder_that_holds_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("ten years of work")
    with pytest.raises(UserError, match="something that is not a run"):
        check_target(tmp_path)


def test_a_path_through_a_file_is_refused_before_the_run(tmp_path):
    (tmp_path / "file").write_text("")
    for below in ("file", "file/run", "file/a/b"):
        with pytest.raises(UserError, match=r"output\.dir: cannot write .* is a file, not a folder"):
            check_target(tmp_path / below)


def test_what_is_missing_or_broken_in_a_folder_is_named(tmp_path):
    with pytest.raises(UserError, match="no such run folder"):
        load_run(tmp_path / "nowhere")
    run = write_run(view(), tmp_path / "run")
    (run / "iterations.csv").write_text("start_s,what\n1,2\n")
    with pytest.raises(UserError, match=r"iterations\.csv: not a file of a run folder"):
        load_run(run)
    (run / "iterations.csv").unlink()
    with pytest.raises(UserError, match=r"iterations\.csv is missing"):
        load_run(run)
    (run / "summary.json").write_text("{")
    with pytest.raises(UserError, match="not a run folder"):
        load_run(run)


def test_views_of_one_name_are_told_apart_in_a_legend():
    names = [v.name for v in distinct_names([view("a"), view("b")])]
    assert names == ["a", "b"]
    assert [v.name for v in distinct_names([view("a"), view("a")])] == ["a (byhand) #1", "a (byhand) #2"]
