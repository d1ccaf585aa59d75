"""Building blocks of the pages: escaped elements, badges, tables, and the one style sheet."""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from featlearn.report.model import State
from featlearn.report.tables import Grid, number


class Html(str):
    """Text that is already HTML; every other string is escaped where it enters an element."""

    __slots__ = ()


_VOID = frozenset(("img", "meta", "link", "input", "br"))


def raw(child: Any) -> str:
    """A child of an element as HTML: Html as it is, None as nothing, sequences one by one, all else escaped."""
    if child is None:
        return ""
    if isinstance(child, Html):
        return str(child)
    if isinstance(child, list | tuple):
        return "".join(raw(c) for c in child)
    return escape(str(child), quote=True)


def tag(name: str, *children: Any, **attributes: Any) -> Html:
    """An element; `class_` gives the attribute class, `data_x` data-x; True a bare attribute, None and False none.

    Example:
        >>> tag("p", "a < b", class_="note")
        '<p class="note">a &lt; b</p>'
    """
    text = "".join(
        f" {k.rstrip('_').replace('_', '-')}" + ("" if v is True else f'="{escape(str(v), quote=True)}"')
        for k, v in attributes.items()
        if v is not None and v is not False
    )
    if name in _VOID:
        return Html(f"<{name}{text}>")
    return Html(f"<{name}{text}>{raw(children)}</{name}>")


def badge(state: State) -> Html:
    """A verdict as a coloured pill; the word says it too, so colour is never alone."""
    return tag("span", state.text, class_=f"badge {state.cls}")


def prose(text: str) -> Html:
    """Paragraphs from plain text: blank lines part them, `code` in backquotes, lines indented by four are formulas."""
    out = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        lines = block.splitlines()
        run: list[str] = []
        for line in [*lines, None]:
            formula = line is not None and line.startswith("    ")
            if (line is None or formula) and run:
                out.append(tag("p", inline(" ".join(run))))
                run = []
            if formula:
                out.append(tag("pre", str(line).strip(), class_="formula"))
            elif line is not None and line.strip():
                run.append(line.strip())
    return Html("".join(out))


def inline(text: str) -> Html:
    """Text with `code` in backquotes."""
    parts = re.split(r"`([^`]+)`", text)
    return Html("".join(tag("code", p) if i % 2 else escape(p) for i, p in enumerate(parts)))


def command(text: str) -> Html:
    """A command line to copy."""
    return tag("pre", tag("code", text), class_="command", tabindex="0")


def table(
    heads: Sequence[tuple[str, str]], rows: Iterable[Sequence[Any] | Html], caption: str = "", **attributes: Any
) -> Html:
    """A table in a box of its own that scrolls sideways where it is too wide. heads: (text, class of the column).

    A row that is Html is one cell below the row before it, across all columns. class_="stack": on a narrow screen every
    row becomes a block instead, for tables of text.
    """
    head = tag("tr", [tag("th", name, scope="col", class_=side) for name, side in heads])
    body = [
        tag("tr", tag("td", r, colspan=len(heads)), class_="whole")
        if isinstance(r, Html)
        else tag(
            "tr",
            [tag("td", c, class_=side, data_label=name or None) for c, (name, side) in zip(r, heads, strict=True)],
            **_row_attributes(r),
        )
        for r in rows
    ]
    inner = [tag("caption", tag("span", caption)) if caption else None, tag("thead", head), tag("tbody", body)]
    scroll = {"role": "region", "aria-label": caption or heads[0][0], "tabindex": "0"}
    return tag("div", tag("table", inner, **attributes), class_="scroll", **scroll)


class Row(tuple[Any, ...]):
    """Cells with attributes of their row (a dict named `attributes`)."""

    attributes: Mapping[str, Any] = {}

    @classmethod
    def of(cls, cells: Sequence[Any], **attributes: Any) -> "Row":
        row = cls(cells)
        row.attributes = attributes
        return row


def _row_attributes(row: Sequence[Any]) -> Mapping[str, Any]:
    return row.attributes if isinstance(row, Row) else {}


def grid_table(grid: Grid, state: Any) -> Html:
    """A Grid as a table; `state(text)` gives the badge of its verdict column."""
    rows = [[badge(state(c)) if i == grid.verdict else c for i, c in enumerate(row)] for row in grid.rows]
    return table(grid.columns, rows, grid.title)


def facts(pairs: Iterable[tuple[str, Any]]) -> Html:
    """Name and value pairs as a description list; pairs without a value are left out."""
    kept = [(k, v) for k, v in pairs if v is not None and v != "" and v != ()]
    return tag("dl", [tag("div", tag("dt", k), tag("dd", v)) for k, v in kept], class_="facts") if kept else Html("")


def nested(value: Any) -> Html | str:
    """Freely nested settings or numbers as nested lists."""
    if isinstance(value, Mapping):
        return facts((str(k), nested(v)) for k, v in value.items())
    if isinstance(value, list | tuple):
        if all(not isinstance(v, Mapping | list | tuple) for v in value):
            return ", ".join(_plain(v) for v in value) if value else "none"
        return tag("ul", [tag("li", nested(v)) for v in value])
    return _plain(value)


def _plain(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def bullets(items: Sequence[str]) -> Html:
    """A list of short texts; nothing where there is none."""
    return tag("ul", [tag("li", inline(" ".join(i.split()))) for i in items]) if items else Html("")


def bar(part: int, whole: int) -> Html:
    """A share as text and a thin bar."""
    share = 100 * part / whole if whole else 0
    fill = tag("span", class_="fill", style=f"width:{share:.1f}%")
    return tag("span", f"{part} of {whole}", tag("span", fill, class_="bar", aria_hidden="true"), class_="share")


def seconds(value: float | int | None) -> str:
    """A duration for people."""
    if value is None:
        return ""
    if value < 1:
        return f"{1000 * value:.0f} ms"
    if value < 120:
        return f"{number(value, '%')} s"
    return f"{value / 60:.1f} min" if value < 7200 else f"{value / 3600:.1f} h"


def document(title: str, trail: Sequence[Any], body: Sequence[Any], root: str, script: str = "") -> str:
    """A whole page. trail: crumbs, links or text; root: "" or "../", the way to the style sheet."""
    crumbs = []
    for i, c in enumerate(trail):
        crumbs += [tag("span", "/", class_="sep", aria_hidden="true") if i else None, c]
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="generator", content="featlearn"),
        tag("meta", name_="color-scheme", content="light dark"),
        tag("title", title),
        tag("link", rel="stylesheet", href=f"{root}style.css"),
    ]
    page = [
        tag("a", "Skip to the content", class_="skip", href="#content"),
        tag("header", tag("nav", crumbs, aria_label="breadcrumb"), class_="top"),
        tag("main", list(body), id="content"),
        tag(
            "footer",
            tag(
                "p",
                [
                    "Made by featlearn report. Every number comes from rows of a run, with its command. ",
                    tag("a", "Glossary", href=f"{root}glossary.html"),
                ],
            ),
        ),
        tag("script", Html(script)) if script else None,
    ]
    return f'<!doctype html>\n<html lang="en">\n{tag("head", head)}\n{tag("body", page)}\n</html>\n'


FILTER = """
(function () {
  var box = document.getElementById('filter');
  if (!box) return;
  box.hidden = false;
  var rows = Array.prototype.slice.call(document.querySelectorAll('#entries tbody tr'));
  var count = document.getElementById('count');
  function apply() {
    var text = box.elements.text.value.toLowerCase();
    var kind = box.elements.kind.value, check = box.elements.check.value, state = box.elements.state.value;
    var shown = 0;
    rows.forEach(function (r) {
      var ok = (!text || r.textContent.toLowerCase().indexOf(text) >= 0) &&
        (!kind || r.dataset.kind === kind) && (!check || r.dataset.check === check) &&
        (!state || r.dataset.state === state);
      r.hidden = !ok;
      if (ok) shown += 1;
    });
    count.textContent = shown + ' of ' + rows.length + ' entries';
  }
  box.addEventListener('input', apply);
  box.addEventListener('submit', function (e) { e.preventDefault(); });
  apply();
})();
"""
