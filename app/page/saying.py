"""Sentences, facts and tables on a page; `fill` escapes what they show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from app import words
from app.words import Html, fill


def _show(markup: Html) -> None:
    """Words of ours: no line ends inside a duration."""
    st.html(words.unbroken(markup))


def title(text: str | Html, over: str | Html = "", under: str | Html = "") -> None:
    """The subject, on the page and in the browser's tab; `under` is the question that the page answers."""
    above = fill('<p class="ra-over">{over}</p>', over=over) if over else Html("")
    below = fill('<p class="ra-under">{under}</p>', under=under) if under else Html("")
    _show(fill('{above}<h1 class="ra-title">{text}</h1>{below}', above=above, text=text, below=below))
    st.set_page_config(page_title=words.cut(words.plain(text), 80))


def heading(text: str | Html) -> None:
    st.html(fill('<h2 class="ra-h2">{text}</h2>', text=text))


def say(template: str, /, **parts: object) -> None:
    _show(fill(f'<p class="ra-say">{template}</p>', **parts))


def note(template: str, /, **parts: object) -> None:
    _show(fill(f'<p class="ra-note">{template}</p>', **parts))


def not_read(table: str) -> None:
    """Says which table could not be read (`Tables.unread`), in place of what it would have shown."""
    note("Not known: {table} cannot be read.", table=table)


def nothing(unread: str | None, template: str, /, **parts: object) -> None:
    """Says that there is none; or, where their table could not be read, that this is not known."""
    if unread is None:
        note(template, **parts)
    else:
        not_read(unread)


def panel(*paragraphs: Html) -> None:
    st.html(fill('<div class="ra-state">{all}</div>', all=words.join(list(paragraphs))))


def facts(pairs: Mapping[str, str | Html]) -> None:
    rows = [fill("<dt>{k}</dt><dd>{v}</dd>", k=k, v=v) for k, v in pairs.items()]
    _show(fill('<dl class="ra-facts">{rows}</dl>', rows=words.join(rows)))


def drawing(markup: Html, name: str) -> None:
    """A picture that is HTML, which `drawing.js` saves as PNG under that name."""
    button = Html('<button type="button" class="ra-png" title="Save this picture">PNG</button>')
    _show(fill('<div class="ra-drawing" data-name="{n}">{b}{m}</div>', n=name, b=button, m=markup))


def table(head: Sequence[str], rows: Sequence[Sequence[str | Html]], saved_as: str | None = None) -> None:
    """A small table that is read, wraps and prints, on a phone a block per row; larger ones are `long_table`.
    `saved_as`: of one that is a picture, its name as a `drawing`."""
    top = words.join([fill("<th>{h}</th>", h=h) for h in head])
    body = words.join(
        [
            fill(
                "<tr>{cells}</tr>",
                cells=words.join(
                    [fill('<td data-head="{h}"><div>{c}</div></td>', h=h, c=c) for h, c in zip(head, row, strict=True)]
                ),
            )
            for row in rows
        ]
    )
    markup = fill(
        '<div class="ra-scroll"><table class="ra-table ra-stack"><thead><tr>{top}</tr></thead>'
        "<tbody>{body}</tbody></table></div>",
        top=top,
        body=body,
    )
    if saved_as is None:
        _show(markup)
    else:
        drawing(markup, saved_as)
