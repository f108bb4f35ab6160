"""Grammars that would take long: refused within the bound on compiling, or no trouble at all."""

from __future__ import annotations

from threading import Thread
from time import monotonic

import pytest
from patched_limits import patch_limits
from small_vocabulary import small_vocabulary

from state_machines import GrammarError, GrammarStateMachine, GrammarSyntaxError
from state_machines.budgets import step_budget
from state_machines.errors import UnsupportedGrammarError
from state_machines.limits import LIMITS

SPACES = " " * 300_000


def left_recursive(count: int) -> str:
    """Return rules that each begin with each other."""
    rules = [f"root ::= r{count - 1}"]
    for number in range(count):
        branches = " | ".join(f'r{other} "{number}.{other}"' for other in range(count))
        rules.append(f'r{number} ::= {branches} | "x{number}"')
    return "\n".join(rules)


REFUSED = {
    "rules that begin with one another": left_recursive(60),
    "parts": "root ::= " + "a " * 40_000 + '\na ::= "x"',
    "rules": "\n".join(f'r{n} ::= r{n + 1} "x"' for n in range(6000)) + '\nr6000 ::= ""',
    "a class": "root ::= [" + "".join(chr(0x10000 + 2 * n) for n in range(60_000)) + "]",
    "alternatives": "root ::= " + " | ".join(f'"{n}" [a-z]*' for n in range(6000)),
    "optional parts": "root ::= a\n"
    + "\n".join(f"{chr(97 + n)} ::= {chr(98 + n)} {chr(98 + n)}" for n in range(20))
    + '\nu ::= "x"?',
}


@pytest.mark.parametrize("name", REFUSED)
def test_grammars_beyond_the_step_budget_raise(name: str) -> None:
    start = "r0" if name == "rules" else "root"
    with pytest.raises(UnsupportedGrammarError), step_budget(LIMITS.compile_steps // 10):
        GrammarStateMachine(REFUSED[name], start=start)


@pytest.mark.parametrize(
    "text",
    [
        f'root ::= "a"{{1{SPACES}',
        'root ::= "a"{' + "1" * 300_000,
        "root ::= a " + "#" * 300_000,
        "root ::= a " + "# #" * 100_000 + ":",
        "a" * 300_000,
        "root ::= " + "(" * 300_000,
    ],
    ids=["counts", "digits", "comment", "comments", "name", "groups"],
)
def test_invalid_text_is_read_in_linear_time(text: str) -> None:
    with pytest.raises(GrammarError), step_budget(50_000):
        GrammarStateMachine(text)


def test_long_strings_comments_and_lines_are_cheap() -> None:
    """The steps do not grow with the length of a string or comment."""
    long = "x" * 50_000
    text = "\n" * 100_000 + f'root ::= "{long}" # {long}\n' + "#\n" * 5000 + ' | "y" | end\n'
    with step_budget(LIMITS.compile_steps // 4):
        machine = GrammarStateMachine(text + 'end ::= "z"')
    assert machine.matches(long)
    assert machine.matches("z")


def test_error_positions_in_long_grammars() -> None:
    with pytest.raises(GrammarSyntaxError) as caught:
        GrammarStateMachine('root ::= "a"\n' * 1 + "# é\n\n" * 1000 + "  | here")
    assert (caught.value.line, caught.value.column) == (2002, 5)


def test_checkpoint_can_stop_a_compilation() -> None:
    """A checkpoint can stop the work at any time; its exception propagates."""

    class StopError(Exception):
        pass

    def stop() -> None:
        raise StopError

    for name in ("rules that begin with one another", "parts", "rules", "alternatives"):
        text = REFUSED[name]
        with pytest.raises(StopError), step_budget(checkpoint=stop):
            GrammarStateMachine(text, start="r0" if text.startswith("r0") else "root")


def test_nodes_are_usable_while_their_machine_is_freed() -> None:
    """Nodes outlive their machine; releasing it does not disturb other threads."""
    deadline = monotonic() + 0.5
    failures: list[BaseException] = []
    for _ in range(40):
        machine = GrammarStateMachine('root ::= "[" root "," root "]" | x\nx ::= x "a" | "a"')
        starts = [machine.start]

        def work(start: object = starts[0]) -> None:
            try:
                for _ in range(3):
                    assert machine_free_match(start)
            except BaseException as error:
                failures.append(error)

        threads = [Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        del machine
        for thread in threads:
            thread.join(30)
        assert not failures
        if monotonic() > deadline:
            break


def machine_free_match(start: object) -> bool:
    """Match by the node alone."""
    return start.matches(b"[aa,[a,aaa]]") and not start.matches(b"[aa,]")  # type: ignore[attr-defined]


def test_matcher_keeps_its_machine_and_machine_forgets_old_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patch_limits(monkeypatch, machine_steps=50)
    from_machine = GrammarStateMachine('root ::= "a" root "a" | "b" root "b" | ""')
    vocabulary = small_vocabulary()
    running = from_machine.matcher(vocabulary)
    running.advance(ord("a"))
    for number in range(30):
        writing = from_machine.matcher(vocabulary)
        for bit in f"{number:010b}":
            writing.advance(ord("a") + int(bit))
    assert from_machine.steps_taken <= 60
    del from_machine, writing
    for byte in b"bba":
        running.advance(byte)
    assert running.is_accepting


@pytest.mark.parametrize(
    "text",
    [
        'start: A B\nA: /(a|b)*a(a|b){20}/\nB: "c"',
        'start: A+\nA: /(a|b)*a(a|b){20}/ | "b"',
        'start: A "z"\nA: (("a"{0,1000} "b"){0,1000} "c"){0,1000}',
        'start: "a" "b"\n%ignore /(c|d)*c(c|d){20}/',
        'start: a "z"\na[lazy]: /(a|b)*a(a|b){20}c/',
    ],
    ids=["determinization", "repeated terminal", "counters", "ignored text", "lazy terminal"],
)
def test_lexers_with_millions_of_states_are_not_explored(text: str) -> None:
    """Only the states that tokens reach are computed, and some that lead to an end."""
    with step_budget(LIMITS.compile_steps // 4):
        machine = GrammarStateMachine.from_lark(text)
        assert machine.matcher(small_vocabulary()).allowed_tokens().any()
