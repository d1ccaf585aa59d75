"""Kinds of mutants, what they exchange and what they leave alone.

A mutant replaces one span of bytes of one file; everything else, comments and layout included, stays as it is. Kinds:

constant  a number: twice, half, or one more        relation  < <= > >= == !=, min and max, any and all, at most
exponent  one power more, a square root dropped     margin    a tolerance, margin or delta ten times as large
sign      a minus dropped or added, + -, * /        unit      another column, another quantity, a factor 100 dropped
axis      the other axis, a transpose dropped       boolean   and, or, & and |; a `not` dropped
boundary  the end of a slice or of a range, by one
"""

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

KINDS = ("constant", "exponent", "sign", "relation", "axis", "margin", "unit", "boolean", "boundary")
EXCLUDED = {
    "text": "strings of prose and f-strings are shown and decide nothing; neither do the numbers in a raised message",
    "pictures": "what `draw` and `plot` functions do is checked by looking at pictures and by tests of the report",
    "cost": "defaults and presets of a Config, `cost` functions, sizes of caches and time limits say how long it takes",
    "draws": "`key / 3` for `key / 2` is another draw of the same distribution; `key * 2` is an error at once",
    "main": "`if __name__ == '__main__'` runs in no import",
}
"""What no mutant touches, and why."""
MARGINS = {"margin", "tolerance", "tol", "delta", "atol", "rtol", "eps"}
COSTS = {"presets", "maxsize", "timeout", "chunk", "indent"}
AXES = {"axis", "dim"}
REDUCERS = set("mean sum prod std var min max argmin argmax any all cumsum cumprod argsort sort median take".split())
REDUCERS |= {
    "concatenate",
    "stack",
    "ptp",
    "amin",
    "amax",
    "norm",
    "squeeze",
    "expand_dims",
    "flip",
    "diff",
    "permuted",
}
BUILTIN = {"int", "float", "str", "bool", "list", "dict", "tuple", "set", "type", "bytes", "complex"}
KEYLIKE = re.compile(r"(^|_)(key|path|root|folder|dir|file|home|store|here|base|below|scratch)$", re.IGNORECASE)
RELATIONS: Mapping[type, tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">")),
    ast.LtE: ("<=", ("<", ">=")),
    ast.Gt: (">", (">=", "<")),
    ast.GtE: (">=", (">", "<=")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
}
ARITHMETIC: Mapping[type, tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
}


def _both(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {a: b for pair in pairs for a, b in (pair, pair[::-1])}


NAMES = _both(
    [
        *(("min", "max"), ("minimum", "maximum"), ("argmin", "argmax"), ("nanmin", "nanmax"), ("fmin", "fmax")),
        *(("amin", "amax"), ("any", "all"), ("at_most", "at_least"), ("floor", "ceil"), ("cummin", "cummax")),
    ]
)
WORDS = _both([("at most", "at least"), ("every", "some"), ("at_most", "at_least")])
QUANTITIES = {
    "SHARE": "PERCENT",
    "PERCENT": "SHARE",
    "COSINE": "REAL",
    "COUNT": "POSITIVE",
    "POSITIVE": "REAL",
    "POINTS": "REAL",
    "SEED": "COUNT",
}
COLUMN_KEYWORDS = {"unit", "column"}
COLUMN_METHODS = {"mean", "paired", "sorted", "by", "column", "values"}


@dataclass(frozen=True)
class Mutant:
    """One edit: bytes start to end of the file become `text`.

    line, before, after, again: its name; again counts the mutants of that name on that line from 1. within: the
    function or class around it. whole: span of the smallest whole expression, for an edit that changes no meaning.
    code: the line itself, stripped, by which a reason finds its mutant again after lines have moved.
    """

    file: str
    line: int
    kind: str
    before: str
    after: str
    start: int
    end: int
    text: str
    whole: tuple[int, int]
    within: str
    code: str
    again: int = 1

    @property
    def name(self) -> str:
        """file:line:kind:before->after, with #2 for the second of that name on the line."""
        return f"{self.file}:{self.line}:{self.label}"

    @property
    def label(self) -> str:
        """The name without the place."""
        return f"{self.kind}:{self.before}->{self.after}" + (f"#{self.again}" if self.again > 1 else "")

    def applied(self, source: bytes) -> bytes:
        """The source with this edit."""
        return source[: self.start] + self.text.encode() + source[self.end :]

    def idle(self, source: bytes) -> bytes:
        """The source with an edit at the same place that means the same: `x` becomes `(x if True else None)`."""
        start, end = self.whole
        return source[:start] + b"(" + source[start:end] + b" if True else None)" + source[end:]


def is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name)


def last_name(node: ast.AST) -> str:
    """The name that an expression ends in: b for a.b, a for a[i] and a(...)."""
    while not isinstance(node, ast.Name | ast.Attribute):
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, ast.BinOp):
            node = node.left
        else:
            return ""
    return node.id if isinstance(node, ast.Name) else node.attr


def is_int(node: ast.AST | None) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant) and type(node.value) is int


def int_of(node: ast.AST) -> int:
    return ast.literal_eval(node)  # type: ignore[arg-type]


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def no_number(node: ast.AST) -> bool:
    return is_text(node) or isinstance(node, ast.List | ast.Tuple | ast.ListComp | ast.Dict | ast.Set)


def is_type(node: ast.AST) -> bool:
    """Whether `node | ...` is a union of types."""
    if isinstance(node, ast.Constant):
        return node.value is None
    name = last_name(node) if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) else ""
    return name in BUILTIN or (name[:1].isupper() and not name.isupper())


def number_text(value: float) -> str:
    return f"({value!r})" if value < 0 else repr(value)


def shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 40 else text[:39] + "…"
