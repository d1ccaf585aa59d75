"""Where a source file can be made slightly wrong, and a seeded draw of such places."""

import ast
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mutate_kinds import (
    ARITHMETIC,
    AXES,
    COLUMN_KEYWORDS,
    COLUMN_METHODS,
    COSTS,
    KEYLIKE,
    MARGINS,
    NAMES,
    QUANTITIES,
    REDUCERS,
    RELATIONS,
    WORDS,
    Mutant,
    int_of,
    is_int,
    is_name,
    is_text,
    is_type,
    last_name,
    no_number,
    number_text,
    shortened,
)


def sites(source: bytes, file: str = "", columns: Sequence[str] = ()) -> list[tuple[Mutant, ...]]:
    """Every place of a file at which something can be made wrong, each with its variants, in order of the text.

    columns: names of columns that a unit or a column may be exchanged for, beside those that the file declares.
    """
    finder = _Finder(source, file, columns)
    finder.visit(finder.tree)
    counts: dict[tuple[int, str], int] = {}
    out = []
    for found in sorted(finder.sites, key=lambda s: (s[0].start, s[0].end)):
        variants = []
        for m in found:
            if _parses(finder.around(m)):
                counts[m.line, m.label] = again = counts.get((m.line, m.label), 0) + 1
                variants.append(Mutant(**{**m.__dict__, "again": again}))
        if variants:
            out.append(tuple(variants))
    return out


def _parses(source: bytes) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def draw(found: Mapping[str, Sequence[tuple[Mutant, ...]]], number: int, seed: int) -> list[Mutant]:
    """`number` mutants of different places, by file in proportion to its places (largest remainders), then at random.

    A file's draw depends on the seed, its name, its places and its share alone. Where places are few, fewer come.
    """
    total = sum(map(len, found.values()))
    number = min(number, total)
    exact = {f: number * len(s) / total for f, s in found.items() if s}
    share = {f: int(x) for f, x in exact.items()}
    for f in sorted(exact, key=lambda f: (share[f] - exact[f], f))[: number - sum(share.values())]:
        share[f] += 1
    out = []
    for f in sorted(share):
        rng = random.Random(f"{seed}:{f}")
        places = rng.sample(range(len(found[f])), share[f])
        out += [rng.choice(found[f][p]) for p in sorted(places)]
    return out


def declared_columns(source: bytes) -> list[str]:
    """Annotated fields of the classes of a file: the columns of its row types."""
    classes = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.ClassDef)]
    fields = [s.target.id for c in classes for s in c.body if isinstance(s, ast.AnnAssign) and is_name(s.target)]
    return list(dict.fromkeys(fields))


def columns_near(path: Path) -> list[str]:
    """Columns of the `rows.py` of the work that a file belongs to."""
    for folder in list(path.parents)[:3]:
        if (folder / "rows.py").is_file():
            return declared_columns((folder / "rows.py").read_bytes())
    return []


class _Finder(ast.NodeVisitor):
    def __init__(self, source: bytes, file: str, columns: Sequence[str]):
        self.source, self.file = source, file
        self.tree = ast.parse(source)
        self.lines = source.split(b"\n")
        self.begins = [0]
        for line in self.lines:
            self.begins.append(self.begins[-1] + len(line) + 1)
        self.sites: list[list[Mutant]] = []
        self.taken: set[ast.AST] = set()
        self.stack: list[str] = []
        self.annotation = 0
        self.columns = list(dict.fromkeys([*declared_columns(source), *columns]))
        self.imported = {
            (a.asname or a.name): n.module
            for n in ast.walk(self.tree)
            if isinstance(n, ast.ImportFrom)
            for a in n.names
        }
        self.defined = set(self.imported) | {
            t.id for n in self.tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)
        }
        self.defined |= {n.name for n in self.tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}

    # --- places in the text ------------------------------------------------------------------------------------------

    def around(self, m: Mutant) -> bytes:
        """The outermost statement that an edit is in, with the edit: parsing it is faster than parsing the file."""
        for start, end in map(self.span, self.tree.body):
            if start <= m.start and m.end <= end:
                return self.source[start : m.start] + m.text.encode() + self.source[m.end : end]
        return m.applied(self.source)  # in a decorator

    def at(self, line: int | None, column: int | None) -> int:
        assert line is not None
        assert column is not None
        return self.begins[line - 1] + column

    def span(self, node: ast.AST) -> tuple[int, int]:
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.source[start:end].decode()

    def between(self, left: ast.AST, right: ast.AST, symbol: str) -> tuple[int, int]:
        """Where an operator stands between its operands: the rest there is brackets, spaces and comments."""
        start, end = self.span(left)[1], self.span(right)[0]
        blank = re.sub(rb"#[^\n]*", lambda m: b" " * len(m[0]), self.source[start:end])
        found = re.search(rf"\b{symbol}\b" if symbol.isalpha() else re.escape(symbol), blank.decode("latin-1"))
        assert found is not None, (symbol, blank)
        return start + found.start(), start + found.end()

    def edit(
        self, kind: str, span: tuple[int, int], text: str, whole: ast.AST, shown: tuple[str, str] | None = None
    ) -> Mutant:
        start, end = span
        line = self.source.count(b"\n", 0, start) + 1
        before, after = shown or (self.source[start:end].decode(), text)
        return Mutant(
            file=self.file,
            line=line,
            kind=kind,
            before=shortened(before),
            after=shortened(after),
            start=start,
            end=end,
            text=text,
            whole=self.span(whole),
            within=".".join(self.stack),
            code=self.lines[line - 1].decode().strip(),
        )

    def add(self, kind: str, span: tuple[int, int], texts: Iterable[str], whole: ast.AST) -> None:
        self.sites.append([self.edit(kind, span, text, whole) for text in texts])

    # --- what is left alone ------------------------------------------------------------------------------------------

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None: ...

    def visit_Raise(self, node: ast.Raise) -> None: ...

    def visit_Import(self, node: ast.Import) -> None: ...

    def visit_If(self, node: ast.If) -> None:
        if not (isinstance(node.test, ast.Compare) and last_name(node.test.left) == "__name__"):
            self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not is_text(node.value):
            self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name.lstrip("_").startswith(("draw", "plot")) or node.name == "cost":
            return
        self.stack.append(node.name)
        self.generic_visit(node)
        self.stack.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.stack.append(node.name)
        for part in node.body:
            if not (node.name.endswith("Config") and isinstance(part, ast.AnnAssign | ast.Assign)):
                self.visit(part)
        for other in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(other)
        self.stack.pop()

    def visit_arg(self, node: ast.arg) -> None:
        self._note(node.annotation)

    def _note(self, annotation: ast.AST | None) -> None:
        if annotation is not None:
            self.annotation += 1
            self.visit(annotation)
            self.annotation -= 1

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._note(node.annotation)
        if node.value is not None:
            self._assigned(node.target, node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                if len(target.elts) == len(node.value.elts):
                    for t, v in zip(target.elts, node.value.elts, strict=True):
                        self._assigned(t, v)
                    return
            elif not isinstance(target, ast.Name):
                self.visit(target)  # the index of `x[:, 0] = 1`
        self._assigned(node.targets[0], node.value)

    def _assigned(self, target: ast.AST, value: ast.AST) -> None:
        name = last_name(target) if isinstance(target, ast.Name | ast.Attribute) else ""
        if name.lower() in COSTS:
            return
        words = set(name.lower().split("_"))
        if name.isupper() and words & {w for m in MARGINS for w in (m, m + "s")} and not no_number(value):
            self._margin(value)
        elif self.stack and name == "unit" and is_text(value):
            self._column(value)
        elif self.stack and name == "key" and isinstance(value, ast.Tuple) and value.elts:
            rest = [self.text(e) for e in value.elts[1:]]
            self.add("unit", self.span(value), [f"({', '.join(rest)}{',' if len(rest) == 1 else ''})"], value)
        self.visit(value)

    # --- kinds -------------------------------------------------------------------------------------------------------

    def visit_keyword(self, node: ast.keyword) -> None:
        name, value = node.arg or "", node.value
        if name in COSTS or name == "draw":
            return
        if name in MARGINS and not (isinstance(value, ast.Constant) and value.value in (None, 0)):
            self._margin(value)
        elif name in AXES:
            self._axis(value)
        elif name in COLUMN_KEYWORDS and is_text(value):
            self._column(value)
        self.visit(value)

    def _margin(self, value: ast.AST) -> None:
        self.taken.add(value)
        number = isinstance(value, ast.Constant) and isinstance(value.value, int | float)
        text = number_text(10 * value.value) if number else f"10 * ({self.text(value)})"  # type: ignore[attr-defined]
        self.add("margin", self.span(value), [text], value)

    def _column(self, value: ast.AST) -> None:
        self.taken.add(value)
        others = [c for c in self.columns if c != ast.literal_eval(value)]  # type: ignore[arg-type]
        if others:
            self.add("unit", self.span(value), [f'"{c}"' for c in others], value)

    def _axis(self, value: ast.AST) -> None:
        if is_int(value):
            self.taken.update((value, *ast.iter_child_nodes(value)))
            self.add("axis", self.span(value), [{0: "1", -1: "0"}.get(int_of(value), str(int_of(value) - 1))], value)
        elif isinstance(value, ast.Tuple) and len(value.elts) > 1 and all(map(is_int, value.elts)):
            self.taken.update(n for e in value.elts for n in (e, *ast.iter_child_nodes(e)))
            self.add("axis", self.span(value), [self.text(e) for e in value.elts], value)

    def visit_Call(self, node: ast.Call) -> None:
        name = last_name(node.func)
        if name in NAMES and isinstance(node.func, ast.Name | ast.Attribute):
            self.sites.append([self._renamed("relation", node.func, NAMES[name])])
        if name == "sqrt" and len(node.args) == 1 and not node.keywords:
            self.sites.append(
                [
                    self.edit(
                        "exponent", self.span(node.func), "", node, (self.text(node), f"({self.text(node.args[0])})")
                    )
                ]
            )
        if name == "norm":
            self.sites.append([self.edit("exponent", (self.span(node)[1],) * 2, "**2", node, ("norm", "norm**2"))])
        if name == "order" and len(node.args) > 1 and not any(isinstance(a, ast.Starred) for a in node.args[:2]):
            one, two = node.args[:2]
            at = (self.span(one)[0], self.span(two)[1])
            self.add("relation", at, [f"{self.text(two)}, {self.text(one)}"], node)
        if name in REDUCERS and isinstance(node.func, ast.Attribute):
            of_module = isinstance(node.func.value, ast.Name) and node.func.value.id in ("np", "torch")
            if len(node.args) > of_module:
                self._axis(node.args[int(of_module)])
        if name in COLUMN_METHODS and isinstance(node.func, ast.Attribute):
            for a in node.args:
                if isinstance(a, ast.Constant) and a.value in self.columns:
                    self._column(a)
        if name == "range" and not any(isinstance(a, ast.Starred) for a in node.args):
            for a in node.args[:2]:
                self._end(a)
        self.generic_visit(node)

    def _renamed(self, kind: str, node: ast.AST, new: str) -> Mutant:
        """Another name in the place of one; where the file has not imported it, from where the old one came."""
        end = self.span(node)[1]
        old = last_name(node)
        module = self.imported.get(old)
        known = isinstance(node, ast.Attribute) or module is None or new in self.defined
        text = new if known else f'__import__("{module}", fromlist=["{new}"]).{new}'
        return self.edit(kind, (end - len(old), end), text, node, (old, new))

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            return
        if node.id in QUANTITIES and node.id in self.defined:
            self.sites.append([self._renamed("unit", node, QUANTITIES[node.id])])

    def _end(self, node: ast.AST | None) -> None:
        if node is None:
            return
        if is_int(node):
            self.taken.update((node, *ast.iter_child_nodes(node)))
            value = int_of(node)
            self.add("boundary", self.span(node), [str(value + 1), str(value - 1)], node)
        else:
            self.add("boundary", self.span(node), [f"{self.text(node)} + 1", f"{self.text(node)} - 1"], node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if self.annotation:
            return self.generic_visit(node)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for part in parts:
            if isinstance(part, ast.Slice):
                self._end(part.lower)
                self._end(part.upper)
        if len(parts) == 2 and any(isinstance(p, ast.Slice) and p.lower is p.upper is None for p in parts):
            at = (self.span(parts[0])[0], self.span(parts[1])[1])
            swapped = f"{self.text(parts[1])}, {self.text(parts[0])}"
            if swapped != self.source[at[0] : at[1]].decode():
                self.add("axis", at, [swapped], node)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in ("T", "mT"):
            at = (self.span(node)[1] - len(node.attr) - 1, self.span(node)[1])
            self.sites.append([self.edit("axis", at, "", node)])
        self.visit(node.value)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        left, right, op = node.left, node.right, type(node.op)
        if op is ast.Pow:
            if not is_int(right):
                self.add("exponent", self.span(right), [f"({self.text(right)} + 1)"], node)
            else:
                self.taken.update((right, *ast.iter_child_nodes(right)))
                self.add("exponent", self.span(right), [number_text(int_of(right) + 1)], node)
        elif op in (ast.BitAnd, ast.BitOr) and not self.annotation and not is_type(left) and not is_type(right):
            one, other = ("&", "|") if op is ast.BitAnd else ("|", "&")
            self.add("boolean", self.between(left, right, one), [other], node)
        elif op in ARITHMETIC and not (no_number(left) or no_number(right)):
            self._arithmetic(node, op)
        self.generic_visit(node)

    def _arithmetic(self, node: ast.BinOp, op: type) -> None:
        left, right = node.left, node.right
        if op is ast.Div and KEYLIKE.search(last_name(left)):
            self.taken.update(ast.walk(right))
            return
        old, new = ARITHMETIC[op]
        at = self.between(left, right, old)
        whole = self.span(node)
        found = [self.edit("sign", at, new, node)]
        if op in (ast.Mult, ast.Div):
            found.append(self.edit("sign", (whole[0], whole[0]), "-", node, (self.text(left), f"-{self.text(left)}")))
        self.sites.append(found)
        for number in (left, right) if op in (ast.Mult, ast.Div) else ():
            if isinstance(number, ast.Constant) and number.value in (100, 0.01):
                self.taken.add(number)
                self.add("unit", self.span(number), ["1"], node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        op = type(node.op)
        if op in ARITHMETIC and not no_number(node.value):
            old, new = ARITHMETIC[op]
            at = self.between(node.target, node.value, old + "=")
            self.sites.append([self.edit("sign", at, new + "=", node.value)])
        elif op in (ast.BitAnd, ast.BitOr):
            old, new = ("&=", "|=") if op is ast.BitAnd else ("|=", "&=")
            self.sites.append([self.edit("boolean", self.between(node.target, node.value, old), new, node.value)])
        self.visit(node.target)
        self.visit(node.value)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        start = self.span(node)[0]
        if node in self.taken:
            return
        if isinstance(node.op, ast.USub):
            self.sites.append([self.edit("sign", (start, start + 1), "", node, (self.text(node), self.text(node)[1:]))])
        elif isinstance(node.op, ast.Not | ast.Invert):
            length = 3 if isinstance(node.op, ast.Not) else 1
            shown = (self.text(node), self.text(node)[length:].strip())
            self.sites.append([self.edit("boolean", (start, start + length), "", node, shown)])
        self.visit(node.operand)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for one, two in zip(node.values, node.values[1:], strict=False):
            self.sites.append([self.edit("boolean", self.between(one, two, old), new, node)])
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for one, two, op in zip(sides, sides[1:], node.ops, strict=False):
            if type(op) in RELATIONS:
                old, others = RELATIONS[type(op)]
                self.add("relation", self.between(one, two, old), others, node)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if node in self.taken:
            return
        if isinstance(value, str):
            if value in WORDS:
                self.add("relation", self.span(node), [f'"{WORDS[value]}"'], node)
        elif type(value) is int:
            small = abs(value) <= 10
            self.add(
                "constant", self.span(node), [str(value + 1)] if small else [str(2 * value), str(value // 2)], node
            )
        elif type(value) is float:
            self.add(
                "constant",
                self.span(node),
                ["1.0"] if value == 0 else [number_text(2 * value), number_text(value / 2)],
                node,
            )
