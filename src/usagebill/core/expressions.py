"""Expressions: small formulas over an event whose result becomes the property that a billable metric aggregates.

    root     = expr
    expr     = product { ("+" | "-") product }
    product  = atom { ("*" | "/") atom }
    atom     = [ "-" ] primary
    primary  = call | variable | number | string | "(" expr ")"
    number   = digit { digit } [ "." digit { digit } ]
    string   = "'" { any character except "'" } "'"
    variable = "event.code" | "event.timestamp" | "event.properties." letter { letter | digit | "_" }
    call     = name "(" expr { "," expr } ")"
    name     = ceil | floor | round | concat | least | greatest | min | max

Only the space separates tokens. Function names are written in lower case, UPPER CASE or Capitalized. A formula of over
1,000 characters, or nested over 64 deep, does not parse; neither does a number of over 100 digits. A result has at most
10,000 characters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TypeAlias

from usagebill.core.events import LONGEST_VALUE, JsonValue, property_text
from usagebill.core.numbers import (
    ZERO,
    add,
    ceil_to,
    decimal_text,
    divide,
    floor_to,
    multiply,
    parse_decimal,
    round_to,
    subtract,
)

LONGEST = 1000
LONGEST_RESULT = 10_000
DEEPEST = 64
_MOST_DIGITS = 100
_LARGEST_EXPONENT = 1000
_STORED_DECIMALS = 30
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Value: TypeAlias = Decimal | str


class ExpressionSyntaxError(ValueError):
    """The text is not an expression."""


class EvaluationError(ValueError):
    """The expression has no value for the event; the message says why (`Variable: x not found`)."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, with the digits written, or a string."""

    value: Value


@dataclass(frozen=True, slots=True)
class Variable:
    """`event.code`, `event.timestamp`, or the event's property `name` (`event.properties.<name>`)."""

    path: str

    @property
    def name(self) -> str:
        """The name of the variable, without `event.properties.`."""
        return self.path.rpartition(".")[2]

    @property
    def is_property(self) -> bool:
        """Whether it is a property of the event."""
        return self.path.startswith("event.properties.")


@dataclass(frozen=True, slots=True)
class Negation:
    """The negative of a number."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Chain:
    """Operands of one precedence, from left to right: `first`, then (operator, operand)."""

    first: Expression
    operations: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A function call."""

    function: str
    arguments: tuple[Expression, ...]


Expression: TypeAlias = Literal | Variable | Negation | Chain | Call

# The least and the most arguments of each function (None: any number).
_ARGUMENTS: Mapping[str, tuple[int, int | None]] = {
    "round": (1, 2),
    "ceil": (1, 2),
    "floor": (1, 2),
    "concat": (1, None),
    "least": (1, None),
    "min": (1, None),
    "greatest": (1, None),
    "max": (1, None),
}
_FUNCTIONS = {spelling: name for name in _ARGUMENTS for spelling in (name, name.upper(), name.capitalize())}
_ROUNDINGS = {"round": round_to, "ceil": ceil_to, "floor": floor_to}
_OPERATIONS = {"+": add, "-": subtract, "*": multiply, "/": divide}

_PROPERTY = re.compile(r"event\.properties\.([A-Za-z][A-Za-z0-9_]*)")
_TOKEN = re.compile(
    r"(?P<number>[0-9]+(?:\.[0-9]+)?)"
    r"|(?P<string>'[^']*')"
    r"|(?P<variable>event\.(?:properties\.[A-Za-z][A-Za-z0-9_]*|code|timestamp)(?![A-Za-z0-9_.]))"
    r"|(?P<function>[A-Za-z]+)"
    r"|(?P<symbol>[-+*/(),])"
)
# Text forms of properties that count as numbers here: more than aggregations accept.
_NUMERIC_PROPERTY = re.compile(r"[+-]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]{1,4})?")


def parse(text: str) -> Expression:
    """The expression in `text`. Raises `ExpressionSyntaxError` if it is not one."""
    return _Parser(text).root()


def is_valid(text: str) -> bool:
    """Whether `text` is an expression."""
    try:
        parse(text)
    except ExpressionSyntaxError:
        return False
    return True


def properties_in(text: str) -> set[str]:
    """The names of the event's properties that a text mentions, whether or not it is an expression."""
    return set(_PROPERTY.findall(text))


def evaluate(expression: Expression, *, code: str, timestamp: datetime, properties: Mapping[str, JsonValue]) -> Value:
    """The value of `expression` for an event: a decimal, with its trailing zeros, or a string.

    `event.timestamp` is in whole Unix seconds. A property whose text is a number counts as one. Raises
    `EvaluationError`: for a missing property, text where a number is needed, a division by zero, numbers of over 100
    digits or beyond 10 to the power of 1,000, and concatenated strings of over 10,000 characters.
    """
    return _Event(code, timestamp, properties).value(expression)


def value_text(value: Value) -> str:
    """A value as it is stored in the event and returned: strings unchanged, numbers as `"3.0"`.

    Numbers are rounded to 30 decimals, half away from zero. Raises `EvaluationError` for a number still too long to
    count in an aggregation, and for a string of over 10,000 characters.
    """
    if isinstance(value, str):
        if len(value) > LONGEST_RESULT:
            raise EvaluationError("Text too long")
        return value
    text = decimal_text(_rounded("round", value, _STORED_DECIMALS))
    if len(text) > LONGEST_VALUE:
        raise EvaluationError("Number out of range")
    return text


def evaluated_text(text: str, *, code: str, timestamp: datetime, properties: Mapping[str, JsonValue]) -> str:
    """The text of the expression's value for an event, which ingestion stores in the metric's field.

    Raises `ExpressionSyntaxError` and `EvaluationError`.
    """
    return value_text(evaluate(parse(text), code=code, timestamp=timestamp, properties=properties))


def expression_text(expression: Expression) -> str:
    """`expression` as text; parsing it returns the same expression."""
    match expression:
        case Literal(str() as value):
            return f"'{value}'"
        case Literal(value):
            return format(value, "f")
        case Variable(path):
            return path
        case Negation(operand):
            return f"-{_enclosed(operand)}"
        case Call(function, arguments):
            return f"{function}({', '.join(expression_text(argument) for argument in arguments)})"
        case Chain(first, operations):
            operands = [_operand_text(first, operations[0][0])]
            operands.extend(f"{operator} {_operand_text(operand, operator)}" for operator, operand in operations)
            return " ".join(operands)


def _enclosed(expression: Expression) -> str:
    text = expression_text(expression)
    return f"({text})" if isinstance(expression, Chain | Negation) else text


def _operand_text(operand: Expression, operator: str) -> str:
    binds_tighter = isinstance(operand, Chain) and operator in "+-" and operand.operations[0][0] in "*/"
    if isinstance(operand, Negation) or binds_tighter:
        return expression_text(operand)
    return _enclosed(operand)


class _Parser:
    """Recursive descent over the tokens of one text."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise ExpressionSyntaxError(f"longer than {LONGEST} characters")
        self._tokens = self._split(text)
        self._position = 0
        self._depth = 0

    @staticmethod
    def _split(text: str) -> list[tuple[str, str]]:
        tokens: list[tuple[str, str]] = []
        position = 0
        while position < len(text):
            if text[position] == " ":
                position += 1
                continue
            token = _TOKEN.match(text, position)
            if token is None or token.lastgroup is None:
                raise ExpressionSyntaxError(f"unexpected {text[position]!r} at {position}")
            tokens.append((token.lastgroup, token.group()))
            position = token.end()
        return tokens

    def root(self) -> Expression:
        expression = self._sum()
        if self._position < len(self._tokens):
            raise ExpressionSyntaxError(f"unexpected {self._tokens[self._position][1]!r}")
        return expression

    def _next(self, *symbols: str) -> str | None:
        """The next token, consumed, if it is one of `symbols`; else None."""
        if self._position < len(self._tokens) and self._tokens[self._position] in [("symbol", s) for s in symbols]:
            self._position += 1
            return self._tokens[self._position - 1][1]
        return None

    def _sum(self) -> Expression:
        self._depth += 1
        if self._depth > DEEPEST:
            raise ExpressionSyntaxError(f"nested more than {DEEPEST} deep")
        first = self._product()
        operations = []
        while operator := self._next("+", "-"):
            operations.append((operator, self._product()))
        self._depth -= 1
        return Chain(first, tuple(operations)) if operations else first

    def _product(self) -> Expression:
        first = self._atom()
        operations = []
        while operator := self._next("*", "/"):
            operations.append((operator, self._atom()))
        return Chain(first, tuple(operations)) if operations else first

    def _atom(self) -> Expression:
        return Negation(self._primary()) if self._next("-") else self._primary()

    def _primary(self) -> Expression:
        if self._next("("):
            inside = self._sum()
            self._expect(")")
            return inside
        if self._position == len(self._tokens):
            raise ExpressionSyntaxError("unexpected end")
        kind, text = self._tokens[self._position]
        self._position += 1
        match kind:
            case "number":
                if len(text) > _MOST_DIGITS:
                    raise ExpressionSyntaxError(f"a number of more than {_MOST_DIGITS} digits")
                return Literal(Decimal(text))
            case "string":
                return Literal(text[1:-1])
            case "variable":
                return Variable(text)
            case "function" if text in _FUNCTIONS:
                return self._call(_FUNCTIONS[text])
            case _:
                raise ExpressionSyntaxError(f"unexpected {text!r}")

    def _call(self, function: str) -> Expression:
        self._expect("(")
        arguments = [self._sum()]
        while self._next(","):
            arguments.append(self._sum())
        self._expect(")")
        _, most = _ARGUMENTS[function]
        if most is not None and len(arguments) > most:
            raise ExpressionSyntaxError(f"{function} takes at most {most} arguments")
        return Call(function, tuple(arguments))

    def _expect(self, symbol: str) -> None:
        if not self._next(symbol):
            raise ExpressionSyntaxError(f"{symbol!r} expected")


@dataclass(frozen=True, slots=True)
class _Event:
    """The values of variables."""

    code: str
    timestamp: datetime
    properties: Mapping[str, JsonValue]

    def value(self, expression: Expression) -> Value:
        match expression:
            case Literal(value):
                return value
            case Variable():
                return self._variable(expression)
            case Negation(operand):
                return subtract(ZERO, self._number(operand))
            case Chain(first, operations):
                result = self._number(first)
                for operator, operand in operations:
                    result = _calculated(result, operator, self._number(operand))
                return result
            case Call("concat", arguments):
                return self._concatenated(arguments)
            case Call("least" | "min", arguments):
                return min(self._numbers(arguments))
            case Call("greatest" | "max", arguments):
                return max(self._numbers(arguments))
            case Call(function, arguments):
                number, *places = self._numbers(arguments)
                return _rounded(function, number, int(places[0]) if places else 0)

    def _variable(self, variable: Variable) -> Value:
        if not variable.is_property:
            if variable.name == "code":
                return self.code
            return Decimal((self.timestamp - _EPOCH) // timedelta(seconds=1))
        if variable.name not in self.properties:
            raise EvaluationError(f"Variable: {variable.name} not found")
        sent = self.properties[variable.name]
        if isinstance(sent, int | Decimal) and not isinstance(sent, bool):
            return _within_limits(Decimal(sent))
        text = property_text(sent) or ""
        if len(text) > _MOST_DIGITS or not _NUMERIC_PROPERTY.fullmatch(text):
            return text
        number = parse_decimal(text.replace("_", ""))
        return text if number is None else _within_limits(number)

    def _concatenated(self, arguments: Sequence[Expression]) -> str:
        parts: list[str] = []
        length = 0
        for argument in arguments:
            parts.append(_printed(self.value(argument)))
            length += len(parts[-1])
            if length > LONGEST_RESULT:
                # Checked before concatenating further: a formula may name a long property dozens of times.
                raise EvaluationError("Text too long")
        return "".join(parts)

    def _number(self, expression: Expression) -> Decimal:
        value = self.value(expression)
        if isinstance(value, str):
            raise EvaluationError("Expected a decimal")
        return value

    def _numbers(self, arguments: Sequence[Expression]) -> list[Decimal]:
        return [self._number(argument) for argument in arguments]


def _within_limits(number: Decimal) -> Decimal:
    if abs(number.adjusted()) > _LARGEST_EXPONENT or len(number.as_tuple().digits) > _MOST_DIGITS:
        raise EvaluationError("Number out of range")
    return number


def _calculated(left: Decimal, operator: str, right: Decimal) -> Decimal:
    if operator == "/" and right.is_zero():
        raise EvaluationError("Division by zero")
    return _within_limits(_OPERATIONS[operator](left, right))


def _rounded(function: str, number: Decimal, places: int) -> Decimal:
    if abs(places) > _LARGEST_EXPONENT:
        raise EvaluationError("Number out of range")
    exponent = number.as_tuple().exponent
    if isinstance(exponent, int) and -exponent <= places:
        return number
    return _ROUNDINGS[function](number, places)


def _printed(value: Value) -> str:
    return value if isinstance(value, str) else format(value, "f")
