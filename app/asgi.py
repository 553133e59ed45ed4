"""The app with what Streamlit's own server lacks: `streamlit run app/asgi.py` serves `app/main.py`."""

from __future__ import annotations

import streamlit as st
from starlette.middleware import Middleware
from starlette.responses import RedirectResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.starlette import App

from app.pictures import ADDRESS, incident_svg

_OF_STREAMLIT = frozenset({"_stcore", "app", "auth", "component", "media", "static"})
"""First names of addresses that are no page's."""


class OneName:
    """Sends `/a/b` to `/b`.

    To every address that it does not know Streamlit gives its page, whose scripts it names relative to the address.
    Below `/a/` none of them is found, and the browser shows nothing for ever. At `/b` the app says what is not there.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        inside = scope["path"].removeprefix(_base()) if scope["type"] == "http" else ""
        *above, _ = inside.strip("/").split("/")
        if not above or above[0] in _OF_STREAMLIT:
            await self._app(scope, receive, send)
            return
        is_page = False

        async def sending(message: Message) -> None:
            nonlocal is_page
            if message["type"] == "http.response.start":
                is_page = (b"content-type", b"text/html; charset=utf-8") in message["headers"]
                if is_page:
                    query = scope["query_string"].decode("latin-1")
                    name = inside.rstrip("/").rpartition("/")[2]
                    ups = "../" * (len(above) + inside.endswith("/"))
                    await RedirectResponse(f"{ups}{name}{'?' if query else ''}{query}")(scope, receive, send)
            if not is_page:
                await send(message)

        await self._app(scope, receive, sending)


def _base() -> str:
    """What stands before every address, as `/audit`; empty at the root."""
    name = str(st.get_option("server.baseUrlPath")).strip("/")
    return f"/{name}" if name else ""


app = App("main.py", routes=[Route(f"{_base()}/{ADDRESS}", incident_svg)], middleware=[Middleware(OneName)])
