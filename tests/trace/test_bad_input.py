"""Wrong trace files and options: one message that names file, line, value and what is allowed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from sim.core.errors import ConfigError, TraceError, UserError
from sim.trace import generate, load_trace

HEADER = "arrival_s,prompt_tokens,output_tokens\n"


def put(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("0,10,5\n1,-3,5\n", r"t\.csv: line 3: prompt_tokens: '-3'; expected an integer >= 1"),
        ("0,10,5\n1,2.5,5\n", r"line 3: prompt_tokens: '2\.5'; expected an integer"),
        ("0,10,0\n", r"line 2: output_tokens: '0'; expected an integer >= 1"),
        ("0,10,x\n", r"line 2: output_tokens: 'x'"),
        ("0,10\n", r"line 2: output_tokens: is empty"),
        ("nan,10,5\n", r"line 2: arrival_s: 'nan'; expected a finite number of seconds"),
        ("inf,10,5\n", r"line 2: arrival_s: 'inf'"),
        (",10,5\n", r"line 2: arrival_s: is empty"),
        ("1e30,10,5\n", r"line 2: arrival_s: '1e30'"),
        ("0,10,5\n\n\n7,oops,5\n", r"line 5: prompt_tokens: 'oops'"),
        ("0,10,5,99\n", r"t\.csv: line 2: more fields than the header, which has 3"),
        ("0,10,5\n0,10,5,9\n", r"t\.csv: line 3: 4 fields, but the header has 3"),
        ("0,1e300,5\n", r"line 2: prompt_tokens: '1e300'; expected an integer >= 1 and <= 1000000000"),
        ("0,5,12345678901234567890\n", r"output_tokens: '12345678901234567890'; .* <= 1000000000"),
        ("1e300,5,5\n", r"arrival_s: '1e300'; expected a finite number of seconds, at most 9\.2e\+09"),
        ("", r"t\.csv: the trace has no requests"),
    ],
)
def test_a_wrong_row_is_named_by_its_line(rows: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=message):
        load_trace(put(tmp_path, HEADER + rows))


def test_rows_of_one_request_id_are_named_both(tmp_path: Path) -> None:
    text = "request_id,arrival_s,prompt_tokens,output_tokens\na,0,1,1\nb,1,1,1\na,2,1,1\n"
    with pytest.raises(TraceError, match=r"t\.csv: line 4: request_id: 'a' is that of line 2 too"):
        load_trace(put(tmp_path, text))


def test_an_empty_column_of_request_ids_is_none(tmp_path: Path) -> None:
    text = "request_id,arrival_s,prompt_tokens,output_tokens\n,0,1,1\n,1,1,1\n"
    assert load_trace(put(tmp_path, text)).request_ids is None


def test_lines_above_the_header_count_in_what_is_said_of_ragged_rows(tmp_path: Path) -> None:
    text = "# made by hand\n" + HEADER
    with pytest.raises(TraceError, match="line 4: 4 fields"):
        load_trace(put(tmp_path, text + "0,1,1\n0,1,1,1\n"))
    with pytest.raises(TraceError, match="line 3: more fields"):
        load_trace(put(tmp_path, text + "0,1,1,1\n"))


def test_whole_numbers_written_as_decimals_are_taken(tmp_path: Path) -> None:
    trace = load_trace(put(tmp_path, HEADER + "0,10.0,5\n1e1,2e1,5.\n"))
    assert trace.prompt_tokens.tolist() == [10, 20]
    assert trace.arrival_ns.tolist() == [0, 10_000_000_000]


def test_comments_above_the_header_are_skipped_and_counted_as_lines(tmp_path: Path) -> None:
    text = "# made by hand\n# twice\n" + HEADER
    assert len(load_trace(put(tmp_path, text + "0,1,1\n"))) == 1
    with pytest.raises(TraceError, match="line 4: prompt_tokens"):
        load_trace(put(tmp_path, text + "0,x,1\n"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("\n\n", "the file is empty"),
        ("hello\nworld\n", "no trace format recognises it; it begins with 'hello'"),
        ("a,b\n1,2\n", "give trace.format, one of .*azure"),
    ],
)
def test_a_file_of_no_known_kind_says_how_it_begins(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=message):
        load_trace(put(tmp_path, text))


def test_a_missing_column_is_answered_with_the_nearest(tmp_path: Path) -> None:
    path = put(tmp_path, "TIMESTAMP,ContextTokens,GenratedTokens\n2023-11-16 18:15:46,1,1\n")
    with pytest.raises(TraceError, match="no column 'GeneratedTokens': did you mean 'GenratedTokens'"):
        load_trace(path)


def test_a_wrong_time_of_azure_is_named(tmp_path: Path) -> None:
    path = put(tmp_path, "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,1,1\n16/11/2023,1,1\n")
    with pytest.raises(TraceError, match="line 3: TIMESTAMP: '16/11/2023'; expected a time like"):
        load_trace(path)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ('{"timestamp": 1, "input_length": 5', "line 2: not valid JSON: .* at column 35$"),
        ("[1, 2]", r"line 2: expected a JSON object, got '\[1, 2\]'"),
        (
            '{"timestamp": 1, "input_length": 5}',
            "line 2: no key 'output_length'; it has timestamp, input_length",
        ),
        ('{"timestamp": NaN, "input_length": 5, "output_length": 1}', "line 2: timestamp"),
        ('{"timestamp": null, "input_length": 5, "output_length": 1}', "line 2: timestamp: is empty"),
        ('{"timestamp": 1, "input_length": true, "output_length": 1}', "line 2: input_length: True"),
        (
            '{"timestamp": 1, "input_length": 0, "output_length": 1}',
            "line 2: input_length: 0; expected .* >= 1",
        ),
    ],
)
def test_a_wrong_json_line_is_named(second: str, message: str, tmp_path: Path) -> None:
    first = json.dumps({"timestamp": 0, "input_length": 5, "output_length": 1})
    with pytest.raises(TraceError, match=message):
        load_trace(put(tmp_path, f"{first}\n{second}\n", "t.jsonl"))


def test_a_missing_file_is_answered_with_the_nearest(tmp_path: Path) -> None:
    put(tmp_path, HEADER, "sample.csv")
    with pytest.raises(TraceError, match=r"no trace file .*smaple\.csv; did you mean .*sample\.csv\?"):
        load_trace(tmp_path / "smaple.csv")
    with pytest.raises(TraceError, match="is a folder"):
        load_trace(tmp_path)


def test_an_unknown_format_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown trace format 'azur': did you mean 'azure'"):
        load_trace(put(tmp_path, HEADER + "0,1,1\n"), format="azur")


def test_a_damaged_archive_is_an_error_not_a_traceback(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(b"\x1f\x8b" + b"garbage" * 10)
    with pytest.raises(TraceError, match=r"t\.csv\.gz"):
        load_trace(path)


@pytest.mark.parametrize(
    "text",
    [
        '{"benchmarks": [5]}',
        '[{"conversations": 5}]',
        '{"input_lens": 5}',
        '{"sub_requests": 5}',
        '{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": 7}',
    ],
)
def test_json_of_another_shape_than_its_format_is_an_error_that_names_the_format(
    text: str, tmp_path: Path
) -> None:
    with pytest.raises(TraceError, match=r"t\.json: not laid out as format '\w+' is"):
        load_trace(put(tmp_path, text, "t.json"))


def test_a_truncated_archive_is_an_error(tmp_path: Path) -> None:
    rows = "".join(f"{second},10,5\n" for second in range(50_000))
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress((HEADER + rows).encode())[:-1000])
    with pytest.raises(TraceError, match="ended before the end"):
        load_trace(path)


def test_a_damaged_parquet_file_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra `parquet`")
    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1garbage" * 10)
    with pytest.raises(TraceError, match=r"cannot read trace .*t\.parquet"):
        load_trace(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, "limit: 0"),
        ({"rate_scale": 0.0}, "rate_scale: 0"),
        ({"rate_scale": float("nan")}, "rate_scale: nan"),
        ({"rate_scale": 1e-20}, "rate_scale: 1e-20 is too small"),
        ({"window_s": (3, 1)}, r"window_s: \[3, 1\]"),
        ({"thin": 1.5}, "thin: 1.5"),
        ({"over_cap": "cut"}, "over_cap: unknown value 'cut'; allowed: reject, clip, drop"),
        ({"max_prompt_tokens": 0}, "max_prompt_tokens: 0"),
        (
            {"arrivals": {"process": "posson"}},
            "arrivals.process: unknown value 'posson': did you mean 'poisson'",
        ),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        load_trace(put(tmp_path, HEADER + "0,1,1\n5,1,1\n"), **options)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "synthetic: give num_requests or duration_s"),
        ({"num_requests": 0}, "synthetic.num_requests: 0 is too small; it must be at least 1"),
        ({"num_requests": 1.5}, "synthetic.num_requests: expected a whole number, got 1.5"),
        (
            {"num_requests": 5, "prompt_tokens": 1e300},
            r"prompt_tokens\.value: 1e\+300 is too large; it must be at most 1000000000",
        ),
        ({"num_requests": float("inf")}, "synthetic.num_requests: expected a whole number, got inf"),
        (
            {"num_requests": 5, "input_tokens": 3},
            "synthetic.input_tokens: unknown key: did you mean 'prompt_tokens'",
        ),
        ({"num_requests": 5, "prompt_tokens": 0}, "synthetic.prompt_tokens.value: 0 is too small"),
        ({"num_requests": 5, "prompt_tokens": "long"}, "synthetic.prompt_tokens: expected a mapping"),
        (
            {"num_requests": 5, "prompt_tokens": {"distribution": "normal"}},
            "prompt_tokens.distribution: unknown value",
        ),
        (
            {"num_requests": 5, "prompt_tokens": {"distribution": "uniform", "min": 1}},
            r"prompt_tokens\.max: missing",
        ),
        (
            {"num_requests": 5, "prompt_tokens": {"distribution": "uniform", "min": 9, "max": 2}},
            "max: 2 is below min, 9",
        ),
        (
            {"num_requests": 5, "arrivals": {"rate_per_s": 0}},
            r"arrivals\.rate_per_s: 0.0 is too small; it must be above 0",
        ),
        ({"num_requests": 5, "arrivals": {"rate_per_s": float("nan")}}, r"arrivals\.rate_per_s: nan"),
        (
            {"num_requests": 5, "arrivals": {"process": "poisson", "burstiness": 1}},
            r"arrivals\.burstiness: unknown key",
        ),
        (
            {"num_requests": 5, "arrivals": {"markov": {"multipliers": [1], "mean_stay_s": [1]}}},
            "two or more states",
        ),
        ({"num_requests": 5, "correlation": 2}, "correlation: 2.0 is too large"),
        ({"num_requests": 5, "correlation": 0.5, "copula": [[1]]}, "give either correlation or copula"),
        ({"num_requests": 5, "copula": [[1, 2], [3]]}, "copula: the rows must be of one length"),
        ({"num_requests": 5, "clients": {"a": -1}}, "clients.a: -1.0 is too small"),
        (
            {"num_requests": 5, "prompt_tokens": {"distribution": "empirical"}},
            "give either quantiles or table",
        ),
        (
            {
                "num_requests": 5,
                "prompt_tokens": {"distribution": "empirical", "quantiles": [[0, 5], [1, 3]]},
            },
            "the values must not fall",
        ),
        (
            {"num_requests": 5, "prompt_tokens": {"distribution": "empirical", "table": "nowhere.csv"}},
            "cannot read quantile table nowhere.csv",
        ),
        ({"duration_s": 0.001, "arrivals": {"rate_per_s": 0.001}}, "synthetic.duration_s: no arrival within"),
    ],
)
def test_a_wrong_spec_is_named_by_its_key(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        generate(spec)


def test_the_wrong_column_of_a_table_is_answered_with_the_nearest(tmp_path: Path) -> None:
    put(tmp_path, "quantile,promt_tokens\n0,1\n1,9\n")
    spec = {"num_requests": 5, "prompt_tokens": {"distribution": "empirical", "table": "t.csv"}}
    with pytest.raises(ConfigError, match="no column 'prompt_tokens': did you mean 'promt_tokens'"):
        generate(spec, base_dir=tmp_path)
