"""Bad input: exit code 2, nothing on stdout, and exactly one message that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sim.cli import main

Complain = Callable[..., str]


@pytest.fixture
def complain(tiny: Path, capsys: pytest.CaptureFixture[str]) -> Complain:
    """Runs the tiny config with --set overrides and returns the error message without its `error: `."""

    def run(*settings: str, command: str = "run") -> str:
        overrides = [word for setting in settings for word in ("--set", setting)]
        assert main([command, "config.yaml", *overrides]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("error: ") and captured.err.endswith("\n")
        return captured.err.removeprefix("error: ").removesuffix("\n")

    return run


def edit(folder: Path, old: str, new: str) -> None:
    """Replace a piece of config.yaml, which must be there once."""
    text = (folder / "config.yaml").read_text()
    assert text.count(old) == 1
    (folder / "config.yaml").write_text(text.replace(old, new))


SECTIONS = "name, seed, trace, replica, cost_model, kv_cache, policy, slo, engine, output, compare, capacity"
POLICY_KEYS = "token_budget, max_batch_size"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "token_budget: 128",
            "token_budgt: 128",
            "config.yaml:24: policy.token_budgt: unknown key: did you mean 'token_budget'? allowed: ",
        ),
        (
            "max_batch_size: 4",
            "max_num_seqs: 4",
            "config.yaml:25: policy.max_num_seqs: unknown key: did you mean 'max_batch_size'? allowed: ",
        ),
        (
            "name: stall_free",
            "name: stal_free",
            "config.yaml:23: policy.name: unknown policy 'stal_free': did you mean 'stall_free'? allowed: ",
        ),
        (
            "replica:",
            "replca:",
            f"config.yaml:5: replca: unknown key: did you mean 'replica'? allowed: {SECTIONS}",
        ),
        (
            "max_model_len: 4096",
            "tensor_parallel_size: 2",
            "config.yaml:6: replica.tensor_parallel_size: unknown key: did you mean 'tensor_parallel'? "
            "allowed: ",
        ),
        (
            "num_blocks: 1000",
            "num_gpu_blocks: 1000",
            "config.yaml:20: kv_cache.num_gpu_blocks: unknown key: did you mean 'num_blocks'? allowed: ",
        ),
        (
            "token_budget: 128",
            "token_budget: 0",
            "config.yaml:24: policy.token_budget: must be at least 1, got 0",
        ),
        (
            "max_batch_size: 4",
            "max_batch_size: -4",
            "config.yaml:25: policy.max_batch_size: must be at least 1, got -4",
        ),
        (
            "max_batch_size: 4",
            "max_batch_size: 4.5",
            "config.yaml:25: policy.max_batch_size: must be an integer, got 4.5",
        ),
        (
            "max_batch_size: 4",
            "max_batch_size: true",
            "config.yaml:25: policy.max_batch_size: must be an integer, got true",
        ),
        (
            "max_batch_size: 4",
            "max_batch_size: null",
            "config.yaml:25: policy.max_batch_size: must be an integer, got null",
        ),
        (
            "max_batch_size: 4",
            "max_batch_size: '4'",
            "config.yaml:25: policy.max_batch_size: must be an integer, got '4'",
        ),
        (
            "name: tiny",
            "name: ../tiny",
            "config.yaml:1: name: must be usable as the name of a folder, got '../tiny'",
        ),
        ("seed: 0", "1: 0", "config.yaml:2: 1: must be a key that is text, got 1"),
        ("seed: 0", "[seed]: 0", "config.yaml:2: a key must be text"),
        (
            "seed: 0",
            "seed: &itself [*itself]",
            "config.yaml: not valid YAML: it is nested too deeply, or in itself",
        ),
        ("seed: 0", "seed: \x00", "config.yaml: not valid YAML: special characters are not allowed"),
        (
            "seed: 0",
            "seed: !!python/name:os.system",
            "config.yaml:2: not valid YAML: could not determine a constructor for the tag "
            "'tag:yaml.org,2002:python/name:os.system'",
        ),
        (
            "path: trace.csv",
            "window_s: [1]",
            "config.yaml:4: trace.window_s: must be [start, end] with 0 <= start < end, got [1.0]",
        ),
        (
            "block_size: 16",
            "block_size: 123456789012345678901",
            "config.yaml:21: kv_cache.block_size: must be at most 1048576, got 123456789012345678901",
        ),
        ("seed: 0", "seed: -1", "config.yaml:2: seed: must be at least 0, got -1"),
        ("seed: 0", "seed: true", "config.yaml:2: seed: must be an integer, got true"),
        ("seed: 0", "seed: 1.0", "config.yaml:2: seed: must be an integer, got 1.0"),
        (
            "block_size: 16",
            "block_size: .nan",
            "config.yaml:21: kv_cache.block_size: must be an integer, got nan",
        ),
        (
            "num_blocks: 1000",
            "num_blocks: 0",
            "config.yaml:20: kv_cache.num_blocks: must be an integer of at least 1, auto or unlimited, got 0",
        ),
        (
            "num_blocks: 1000",
            "memory: pagd",
            "config.yaml:20: kv_cache.memory: unknown value 'pagd': did you mean 'paged'? "
            "allowed: paged, reserve",
        ),
        ("plots: false", "plots: 0", "config.yaml:28: output.plots: must be true or false, got 0"),
        (
            "path: trace.csv",
            "limit: 0",
            "config.yaml:4: trace.limit: must be at least 1, got 0",
        ),
        (
            "path: trace.csv",
            "limit: 5",
            "config.yaml:3: trace: give either path or synthetic, got neither",
        ),
        (
            "path: trace.csv",
            "path: trace.csv\n  rate_scale: .inf",
            "config.yaml:5: trace.rate_scale: must be a finite number, got inf",
        ),
        (
            "path: trace.csv",
            "path: trace.csv\n  rate_scale: .nan",
            "config.yaml:5: trace.rate_scale: must be a finite number, got nan",
        ),
        (
            "path: trace.csv",
            "path: trace.csv\n  rate_scale: fast",
            "config.yaml:5: trace.rate_scale: must be a number, got 'fast'",
        ),
        (
            "path: trace.csv",
            "path: trac.csv",
            "config.yaml:4: trace.path: no trace file trac.csv; did you mean trace.csv?",
        ),
        ("path: trace.csv", "path: [", "config.yaml:6: not valid YAML: expected ',' or ']', but got ':'"),
        ("seed: 0", "seed: 0\nseed: 1", "config.yaml:3: seed: given twice"),
        ("seed: 0", "slo: fast", "config.yaml:2: slo: must be a mapping of keys, got 'fast'"),
        (
            "kind: coefficients",
            "kind: coeff",
            "config.yaml:7: cost_model: unknown cost model kind 'coeff': did you mean ",
        ),
        (
            "max_model_len: 4096",
            "model: llama-3.1-8b\nx: 1",
            "config.yaml:7: x: unknown key: ",
        ),
    ],
)
def test_a_wrong_config_is_answered_with_line_key_value_and_what_is_allowed(
    tiny: Path, complain: Complain, old: str, new: str, message: str
) -> None:
    edit(tiny, old, new)
    said = complain()
    if message.endswith((": ", " ")):
        assert said.startswith(message)
    else:
        assert said == message


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("policy.token_budget=0", "override policy.token_budget=0: must be at least 1, got 0"),
        ("policy.token_budget=abc", "override policy.token_budget='abc': must be an integer"),
        (
            "polcy.name=x",
            f"override polcy.name='x': polcy: unknown key: did you mean 'policy'? allowed: {SECTIONS}",
        ),
        ("seed.x=1", "override seed.x=1: seed is 0, not a section"),
        (
            "trace.synthetic={}",
            "config.yaml:3: trace (with trace.synthetic={}): give either path or synthetic, got both",
        ),
        ("seed", "--set seed: must look like section.key=value"),
        ("=3", "--set =3: must look like section.key=value"),
        ("a..b=3", "override a..b=3: the key must look like section.key"),
        ("seed=[1", "--set seed=[1: value:1: not valid YAML: expected ',' or ']', but got '<stream end>'"),
        (
            "trace.format=azur",
            "override trace.format='azur': unknown value 'azur': did you mean 'azure'? allowed: auto, ",
        ),
        (
            "kv_cache.num_blocks=auto",
            "override kv_cache.num_blocks='auto': auto needs replica.model",
        ),
        (
            "compare.policies=[stall_free, 3]",
            "override compare.policies=['stall_free', 3]: compare.policies.1: "
            "must be a policy's name or a mapping with a name, got 3",
        ),
        (
            "policy.order=fair",
            "override policy.order='fair': unknown value 'fair': did you mean 'fair_share'? allowed: ",
        ),
        (
            "policy.order=earliest_deadline",
            "override policy.order='earliest_deadline': earliest_deadline needs slo.ttft_s",
        ),
        (
            "policy.order=shortest_predicted",
            "override policy.order='shortest_predicted': shortest_predicted without prediction_noise ",
        ),
        ("policy.aging_s=0", "override policy.aging_s=0: must be above 0, got 0"),
        (
            "kv_cache.victim=longst",
            "override kv_cache.victim='longst': unknown value 'longst': did you mean 'longest'? allowed: ",
        ),
        (
            "kv_cache.preemption=swap",
            "config.yaml:19: kv_cache (with kv_cache.preemption='swap'): "
            "preemption: swap and swap_bandwidth_gb_s go together",
        ),
        (
            "kv_cache={preemption: swap, swap_bandwidth_gb_s: 20, num_blocks: 100}",
            "override kv_cache={'preemption': 'swap', 'swap_bandwidth_gb_s': 20, 'num_blocks': 100}: "
            "kv_cache.preemption: swap needs replica.model",
        ),
        (
            "slo.classes={gold: {ttft: 1}}",
            "override slo.classes={'gold': {'ttft': 1}}: slo.classes.gold.ttft: unknown key: ",
        ),
        (
            "compare.policies=[static, static]",
            "override compare.policies=['static', 'static']: "
            "'static' is there twice; give one of them a label",
        ),
    ],
)
def test_a_wrong_override_is_named(complain: Complain, setting: str, message: str) -> None:
    said = complain(setting)
    assert said == message or said.startswith(message)


def test_every_mistake_of_a_config_is_listed_at_once(complain: Complain) -> None:
    said = complain("seed=-1", "replica.tp=2").splitlines()
    assert said[0] == "override seed=-1: must be at least 0, got -1"
    assert said[1].startswith("override replica.tp=2: unknown key: did you mean 'tensor_parallel'? allowed: ")
    assert len(said) == 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("0,-5,3\n", "bad.csv: line 2: prompt_tokens: '-5'; expected an integer >= 1 and <= 1000000000"),
        ("0,5.5,3\n", "bad.csv: line 2: prompt_tokens: '5.5'; expected an integer >= 1 and <= 1000000000"),
        ("0,5,0\n", "bad.csv: line 2: output_tokens: '0'; expected an integer >= 1 and <= 1000000000"),
        (
            "0,5,9\nnan,5,3\n",
            "bad.csv: line 3: arrival_s: 'nan'; expected a finite number of seconds, at most 9.2e+09",
        ),
        ("", "bad.csv: the trace has no requests"),
    ],
)
def test_a_wrong_trace_is_named_by_file_row_and_value(
    tiny: Path, complain: Complain, rows: str, message: str
) -> None:
    (tiny / "bad.csv").write_text("arrival_s,prompt_tokens,output_tokens\n" + rows)
    assert complain("trace.path=bad.csv") == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nope.yaml"], "nope.yaml: no such config file"),
        (["run", "."], ".: is a folder, not a config file"),
        (["run"], "the following arguments are required: CONFIG (see: python -m sim run --help)"),
        (["plot", "nope"], "nope: no such run folder"),
        (["compare", "config.yaml", "--seeds", "0"], "--seeds: must be at least 1, got 0"),
        (["run", "config.yaml", "--out", "trace.csv/x"], "output.dir: cannot write trace.csv/x: "),
    ],
)
def test_wrong_arguments_are_one_message(
    tiny: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr().err.removeprefix("error: ").removesuffix("\n")
    assert said == message or said.startswith(message)
    assert "\n" not in said


def test_an_unknown_command_offers_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["polcies"]) == 2
    assert capsys.readouterr().err.startswith(
        "error: unknown command 'polcies': did you mean 'policies'? allowed: "
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "max_model_len: 4096",
            "max_model_len: 10",
            "config.yaml:6: replica.max_model_len: no request can be served: all 3 were rejected; "
            "request 0: prompt 200 + output 5 tokens exceed max_model_len 10",
        ),
        (
            "num_blocks: 1000",
            "num_blocks: 1",
            "config.yaml:20: kv_cache.num_blocks: no request can be served: all 3 were rejected; "
            "request 0: needs 13 KV blocks at its longest; the cache has 1",
        ),
    ],
)
@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_run_in_which_nothing_can_be_served_says_why_and_writes_nothing(
    tiny: Path, complain: Complain, command: str, old: str, new: str, said: str
) -> None:
    edit(tiny, old, new)
    assert complain(command=command) == said
    assert {path.name for path in tiny.iterdir()} == {"config.yaml", "trace.csv"}


def test_an_empty_out_is_refused(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "config.yaml", "--out", ""]) == 2
    said = "error: --out '': must name a folder; leave --out away for the config's\n"
    assert capsys.readouterr().err == said


def test_one_request_that_is_too_long_does_not_fail_the_run(tiny: Path) -> None:
    assert main(["run", "config.yaml", "--set", "replica.max_model_len=210"]) == 0
