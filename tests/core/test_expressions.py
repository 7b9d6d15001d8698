from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from usagebill.core.events import JsonValue
from usagebill.core.expressions import (
    DEEPEST,
    LONGEST,
    Call,
    Chain,
    EvaluationError,
    Expression,
    ExpressionSyntaxError,
    Literal,
    Negation,
    Variable,
    evaluate,
    evaluated_text,
    expression_text,
    is_valid,
    parse,
    value_text,
)

D = Decimal
NOW = datetime(2024, 3, 1, 12, 0, 0, 987_654, tzinfo=UTC)
SECONDS = (NOW.replace(microsecond=0) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)


def value(text: str, properties: Mapping[str, JsonValue] | None = None) -> Decimal | str:
    return evaluate(parse(text), code="calls", timestamp=NOW, properties=properties or {})


def printed(text: str, properties: Mapping[str, JsonValue] | None = None) -> str:
    """The value as `concat` prints it: with its scale."""
    result = value(f"concat({text})", properties)
    assert isinstance(result, str)
    return result


class TestValues:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("8/4/2", "1"),
            ("1-2-3", "-4"),
            ("-2*3", "-6"),
            ("2*-3", "-6"),
            ("1--1", "2"),
            ("1 + 2 * 3", "7"),
            ("(1 + 2) * 3", "9"),
            ("-(1 + 2)", "-3"),
            ("01", "1"),
            ("round(12.34, -1)", "10"),
            ("ceil(12.351, 1)", "12.4"),
            ("floor(-1.2)", "-2"),
            ("round(-2.5)", "-3"),
            ("Round(2.5)", "3"),
            ("CEIL(2.1)", "3"),
            ("round(2.345, 1.9)", "2.3"),
            ("least(3, 1, 2)", "1"),
            ("Greatest(3, 1, 2)", "3"),
            ("min(3, 1) + MAX(2)", "3"),
            ("least(7)", "7"),
            ("round(2, 1000)", "2"),
            ("ceil(1, -3)", "1000"),
        ],
    )
    def test_numbers(self, text: str, expected: str) -> None:
        assert value(text) == D(expected)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("1.50", "1.50"),
            ("2*3.0", "6.0"),
            ("round(12.5)", "13"),
            ("'a', 1, 1.50", "a11.50"),
            ("event.code, '-', event.timestamp", f"calls-{SECONDS}"),
            ("''", ""),
        ],
    )
    def test_printing(self, text: str, expected: str) -> None:
        assert printed(text) == expected

    def test_of_properties(self) -> None:
        scaled = value("round(event.properties.value * event.properties.units)", {"value": D("10.4"), "units": 2})
        assert scaled == 21
        assert value("concat(event.properties.foo, '-bar')", {"foo": "bar_0"}) == "bar_0-bar"
        assert value("(123 - event.properties.p) / 10", {"p": D("1.23")}) == D("12.177")

    @pytest.mark.parametrize(
        ("sent", "expected"),
        [("+5", "5"), ("-3.5", "-3.5"), (".5", "0.5"), ("5.", "5"), ("1e3", "1000"), ("1_000", "1000"), (7, "7")],
    )
    def test_numeric_texts_are_numbers(self, sent: JsonValue, expected: str) -> None:
        assert value("event.properties.x + 0", {"x": sent}) == D(expected)

    @pytest.mark.parametrize(
        ("sent", "expected"),
        [("", ""), (" 5", " 5"), ("5 ", "5 "), ("NaN", "NaN"), ("_1", "_1"), (True, "true"), (None, ""), ([1], "[1]")],
    )
    def test_anything_else_is_text(self, sent: JsonValue, expected: str) -> None:
        assert value("event.properties.x", {"x": sent}) == expected
        with pytest.raises(EvaluationError, match=r"^Expected a decimal$"):
            value("event.properties.x + 1", {"x": sent})

    def test_stored_numbers_have_a_decimal(self) -> None:
        def stored(text: str, **properties: JsonValue) -> str:
            return evaluated_text(text, code="calls", timestamp=NOW, properties=properties)

        assert stored("event.properties.a + event.properties.b", a="1", b="2") == "3.0"
        assert stored("round(event.properties.value)", value="2.4") == "2.0"
        assert stored("concat('a', 1)") == "a1"
        assert stored("1 / 3") == "0." + "3" * 30
        with pytest.raises(EvaluationError, match="out of range"):
            stored("event.properties.a", a="1e70")


class TestLongResults:
    LONG = "x" * 6000

    def stored(self, text: str) -> str:
        return evaluated_text(text, code="calls", timestamp=NOW, properties={"a": self.LONG, "b": [self.LONG] * 2})

    def test_a_result_may_be_long(self) -> None:
        assert self.stored("concat(event.properties.a, 'y')") == self.LONG + "y"

    @pytest.mark.parametrize(
        "text",
        [
            "concat(event.properties.a, event.properties.a)",
            "concat(" + ", ".join(["event.properties.a"] * 45) + ")",
            "concat(concat(event.properties.a, 'y'), event.properties.a)",
            "event.properties.b",
        ],
    )
    def test_no_event_grows_without_end_by_a_formula(self, text: str) -> None:
        with pytest.raises(EvaluationError, match=r"^Text too long$"):
            self.stored(text)


class TestErrors:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("event.properties.b", "Variable: b not found"),
            ("'a' + 'b'", "Expected a decimal"),
            ("-'a'", "Expected a decimal"),
            ("round('2')", "Expected a decimal"),
            ("least(1, 'a')", "Expected a decimal"),
            ("1 / 0", "Division by zero"),
            ("0 / (1 - 1.0)", "Division by zero"),
            ("round(1, 99999)", "Number out of range"),
            ("event.properties.a * 1", "Number out of range"),
        ],
    )
    def test_evaluation(self, text: str, message: str) -> None:
        with pytest.raises(EvaluationError) as caught:
            value(text, {"a": D("1E+5000")})
        assert str(caught.value) == message

    @pytest.mark.parametrize(
        "text",
        [
            "", "   ", "+1", "--1", ".5", "1.", "1e3", "1 2", "1+", '"abc"', "'it''s'", "event", "event.properties",
            "event.properties.1a", "event.properties._a", "event.properties.a-b", "event.properties.a.b",
            "event.properties['a']", "event .code", "event. code", "event.codes", "event.id", "concat()",
            "concat('a',)", "concat('a' 'b')", "1 % 2", "1 > 2", "round(1,2,3)", "ceil()", "rOund(1)", "sqrt(4)",
            "(1", "1)", "round", "1\t+ 2", "1\n", "'abc", "٣", "1;",
        ],
    )  # fmt: skip
    def test_what_does_not_parse(self, text: str) -> None:
        assert not is_valid(text)

    @pytest.mark.parametrize(
        "text", ["'a' + 'b'", " ( 1 ) ", "round ( 1 , 2 )", "'any \n \"thing\"'", "event.properties.a1_B"]
    )
    def test_what_parses(self, text: str) -> None:
        assert is_valid(text)

    def test_limits(self) -> None:
        assert is_valid("(" * (DEEPEST - 1) + "1" + ")" * (DEEPEST - 1))
        assert not is_valid("(" * DEEPEST + "1" + ")" * DEEPEST)
        assert is_valid("1" + "+1" * (LONGEST // 2 - 1))
        assert value("1" + "+1" * (LONGEST // 2 - 1)) == LONGEST // 2
        assert not is_valid("1" + "+1" * (LONGEST // 2))
        assert not is_valid("1" * 101)
        nested = "round(" * (DEEPEST - 1) + "1.5" + ")" * (DEEPEST - 1)
        assert value(nested) == 2


NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,4}", fullmatch=True)
LITERALS = st.one_of(
    st.decimals(min_value=0, max_value=10**6, places=2).map(Literal),
    st.text(st.characters(exclude_characters="'", codec="utf-8"), max_size=5).map(Literal),
)
VARIABLES = st.one_of(
    st.sampled_from([Variable("event.code"), Variable("event.timestamp")]),
    NAMES.map(lambda name: Variable(f"event.properties.{name}")),
)


def _branches(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    def chain(operators: str) -> st.SearchStrategy[Expression]:
        rest = st.lists(st.tuples(st.sampled_from(operators), inner), min_size=1, max_size=3)
        return st.builds(lambda first, rest: Chain(first, tuple(rest)), inner, rest)

    several = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        inner.map(Negation),
        chain("+-"),
        chain("*/"),
        st.builds(Call, st.sampled_from(["concat", "least", "min", "greatest", "max"]), several),
        st.builds(Call, st.sampled_from(["round", "ceil", "floor"]), several.map(lambda operands: operands[:2])),
    )


EXPRESSIONS: st.SearchStrategy[Expression] = st.recursive(LITERALS | VARIABLES, _branches, max_leaves=8)


@given(EXPRESSIONS)
def test_what_is_written_out_parses_to_the_same(expression: Expression) -> None:
    text = expression_text(expression)
    if len(text) <= LONGEST:
        assert parse(text) == expression


PROPERTIES = st.dictionaries(
    NAMES, st.text(max_size=5) | st.integers() | st.decimals(allow_nan=False, allow_infinity=False) | st.none()
)


@given(EXPRESSIONS, PROPERTIES)
def test_evaluation_gives_a_value_or_says_why_not(expression: Expression, properties: dict[str, JsonValue]) -> None:
    try:
        result = evaluate(expression, code="calls", timestamp=NOW, properties=properties)
        text = value_text(result)
    except EvaluationError:
        return
    assert isinstance(result, str) or abs(D(text) - result) <= D("1e-30")


@given(st.text(max_size=40) | st.text("()+-*/,.'1 aevnt", max_size=40))
def test_no_text_breaks_the_parser(text: str) -> None:
    try:
        expression = parse(text)
    except ExpressionSyntaxError:
        return
    assert parse(expression_text(expression)) == expression


@given(st.lists(st.tuples(st.sampled_from("+-*"), st.integers(0, 999)), min_size=1, max_size=10), st.integers(0, 999))
def test_arithmetic_is_that_of_integers(steps: list[tuple[str, int]], first: int) -> None:
    terms = [first]
    for operator, operand in steps:
        if operator == "*":
            terms[-1] *= operand
        else:
            terms.append(operand if operator == "+" else -operand)
    assert value(str(first) + "".join(f" {operator} {operand}" for operator, operand in steps)) == sum(terms)
