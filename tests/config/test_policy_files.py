"""A policy in a file of the user's: used without touching the package, and told what is wrong with it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import sim
from sim.api.comparison import line_up
from sim.api.policies import make_policy
from sim.core.registry import POLICIES

GOOD = '''
from __future__ import annotations

from sim import param, policy


@policy("mine")
class Mine:
    """Decodes, then one prompt."""

    max_batch_size: int = param(8, "requests running at once", minimum=1)

    def plan(self, step):
        step.decode_all()
        for request in step.waiting:
            step.schedule(request)
            break
'''

TAUGHT = """
class Helper:
    pass


class Lesson:
    def __init__(self, token_budget, max_batch_size):
        self.token_budget, self.max_batch_size = token_budget, max_batch_size

    def add_request(self, request):
        pass

    def schedule_next_batch(self):
        return []
"""


def load(text: str, **policy: object) -> sim.Result:
    Path("mine.py").write_text(text)
    return sim.run(sim.load_config("config.yaml", {"policy": {"path": "mine.py", **policy}}))


def problem(text: str, **policy: object) -> str:
    with pytest.raises(sim.UserError) as raised:
        load(text, **policy)
    return str(raised.value)


def test_a_policy_file_runs_and_its_parameters_are_completed(tiny: Path) -> None:
    result = load(GOOD, name="mine")
    assert result.summary["num_finished"] == 3
    assert result.config["policy"]["max_batch_size"] == 8


def test_the_name_may_be_left_out_where_the_file_has_one_policy(tiny: Path) -> None:
    assert load(GOOD).name == "mine"


def test_a_file_that_reuses_a_built_in_name_does_not_replace_it(tiny: Path) -> None:
    built_in = POLICIES.get("static")
    result = load(GOOD.replace('"mine"', '"static"'), name="static")
    assert result.summary["waste"] is None or "max_wait_s" not in result.config["policy"]
    assert POLICIES.get("static") is built_in


def test_a_wrong_parameter_of_it_is_answered_with_its_own(tiny: Path) -> None:
    said = problem(GOOD, name="mine", max_batch=3)
    assert said.endswith(
        "policy.max_batch: unknown key: did you mean 'max_batch_size'? allowed: max_batch_size, "
        "name, path, oracle, order, aging_s, prediction_noise"
    )


def test_a_missing_file(tiny: Path) -> None:
    with pytest.raises(sim.UserError, match=r"policy.path: no such policy file: nope.py$"):
        sim.load_config("config.yaml", {"policy": {"path": "nope.py", "name": "mine"}})


def test_a_syntax_error_is_placed(tiny: Path) -> None:
    assert problem("x = 1\ndef f(:\n") == "mine.py:2: syntax error in the policy file: invalid syntax"


def test_an_error_on_import_is_placed(tiny: Path) -> None:
    said = problem("def f():\n    return 1 / 0\n\n\nf()\n")
    assert said == "mine.py:2: the policy file raised ZeroDivisionError: division by zero"


def test_a_file_that_exits_is_an_error(tiny: Path) -> None:
    said = problem("import sys\nsys.exit(0)\n")
    assert said == "mine.py:2: the policy file raised SystemExit: 0"


def test_a_file_that_loops_is_stopped(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.api.policies.LOAD_LIMIT_S", 0.2)
    said = problem("while True:\n    pass\n")
    assert re.fullmatch(r"mine.py:[12]: the policy file took more than 0.2 s to read: it seems to loop", said)


def test_a_file_that_is_no_text_is_named_without_a_line(tiny: Path) -> None:
    Path("mine.py").write_bytes(b"\x00\x01\xff")
    with pytest.raises(sim.UserError, match=r"^mine\.py: syntax error in the policy file: "):
        sim.load_config("config.yaml", {"policy": {"path": "mine.py"}})


def test_two_files_of_one_name_are_two_policies(tiny: Path) -> None:
    for folder, slots in (("a", 2), ("b", 3)):
        Path(folder).mkdir()
        text = GOOD.replace("param(8", f"param({slots}") + f"\nmax_slots = {slots}\n"
        Path(folder, "mine.py").write_text(text)
    config = sim.load_config("config.yaml")
    labelled = [{"path": f"{folder}/mine.py", "name": "mine", "label": folder} for folder in "ab"]
    classes = [make_policy(contender.config).__class__ for contender in line_up(config, labelled)]
    assert [cls.max_batch_size for cls in classes] == [2, 3]
    assert [sys.modules[cls.__module__].max_slots for cls in classes] == [2, 3]


def test_the_registry_is_left_as_it_was(tiny: Path) -> None:
    before = list(POLICIES)
    load(GOOD, name="mine")
    assert list(POLICIES) == before


def test_a_missing_import_is_placed(tiny: Path) -> None:
    said = problem("import torchh\n")
    assert said == "mine.py:1: the policy file raised ModuleNotFoundError: No module named 'torchh'"


def test_a_name_the_file_lacks_is_answered_with_those_it_has(tiny: Path) -> None:
    assert problem(GOOD, name="mein").endswith(
        "mine.py has no policy 'mein': did you mean 'mine'? allowed: mine"
    )


def test_a_class_without_decorator_is_explained(tiny: Path) -> None:
    said = problem("class Mine:\n    def plan(self, step): ...\n", name="Mine")
    assert said.endswith(
        "mine.py has no policy 'Mine': it has no class decorated with @policy, "
        "and none with add_request and schedule_next_batch"
    )


def test_a_policy_that_raises_is_named_with_iteration_and_line(tiny: Path) -> None:
    said = problem(GOOD.replace("step.decode_all()", "raise ValueError('boo')"), name="mine")
    assert said.startswith("policy 'mine': iteration 0 at 0.000000 s: ")
    assert "ValueError: boo" in said and "mine.py, line 14" in said


def test_a_policy_that_makes_no_progress_is_stopped(tiny: Path) -> None:
    said = problem(GOOD.replace("step.schedule(request)", "pass"), name="mine")
    assert said.startswith("policy 'mine': iteration 0 at 0.000000 s: the policy scheduled nothing")


def test_a_constructor_that_raises_is_named(tiny: Path) -> None:
    text = GOOD.replace(
        "    def plan", "    def __post_init__(self):\n        raise OSError('disk')\n\n    def plan"
    )
    said = problem(text, name="mine")
    assert said.startswith("policy 'mine' raised when made: OSError: disk (")
    assert "mine.py, line 14)" in said


def test_a_taught_scheduler_is_recognised_by_its_methods(tiny: Path) -> None:
    said = problem(TAUGHT, name="Lesson", token_budget=0, max_batch_size=4)
    assert said.endswith("policy.token_budget: must be at least 1, got 0")
    said = problem(TAUGHT, name="Lesson", token_budget=4)
    assert said.endswith("policy.max_batch_size: is required")
    said = problem(TAUGHT, name="Lesson", token_budget=4, max_batch_size=4)
    assert "iteration 0" in said


def test_policies_can_be_compared_from_files(tiny: Path) -> None:
    Path("mine.py").write_text(GOOD)
    frame = sim.compare(sim.load_config("config.yaml"), ["stall_free", "mine.py:mine"])
    assert frame["policy"].tolist() == ["stall_free", "mine"]
