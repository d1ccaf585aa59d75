"""A page that is one file: its style and its pictures are inside."""

import base64
import io
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from featlearn.report.html import Html, tag


def page(title: str, body: Sequence[Any], maker: str) -> str:
    """A whole page as text. maker: the command that the footer names.

    Example:
        >>> page("What moved", [tag("p", "nothing")], "featlearn inspect").startswith("<!doctype html>")
        True
    """
    css = files("featlearn.report").joinpath("style.css").read_text()
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Html(css)),
    ]
    parts = [tag("main", list(body), id="content"), tag("footer", tag("p", f"Made by {maker}."))]
    return f'<!doctype html>\n<html lang="en">\n{tag("head", head)}\n{tag("body", parts)}\n</html>\n'


def picture(figure: Any, caption: str, dpi: int = 150) -> Html:
    """A figure of matplotlib as an image within the page, with its caption."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    data = base64.b64encode(buffer.getvalue()).decode()
    image = tag("img", src=f"data:image/png;base64,{data}", alt=caption)
    return tag("figure", tag("div", image, class_="picture"), tag("figcaption", caption))
