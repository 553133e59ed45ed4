"""Shown for an address that names no page of the app."""

import streamlit as st

from app import page, words
from app.page.address import UNKNOWN_PAGE
from app.words import Html, fill

page.title("No such page")
page.panel(
    fill("<p>No page here is called {n}.</p>", n=words.code(st.session_state[UNKNOWN_PAGE], 80)),
    Html("<p>The menu above has all pages; Search finds groups, incidents, connectors and topics by name.</p>"),
)
page.link("Fleet", "home")
