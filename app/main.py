"""The app: `streamlit run app/main.py`, with the warehouse in REBALANCE_AUDIT_WAREHOUSE or after `-- --warehouse`."""

import sys
from importlib import import_module
from pathlib import Path

import streamlit as st

# `streamlit run` puts this file's folder on the path, not the checkout's.
if (root := str(Path(__file__).resolve().parents[1])) not in sys.path:
    sys.path.append(root)

page = import_module("app.page")

st.set_page_config(page_title="Rebalance audit", page_icon=None, layout="wide", initial_sidebar_state="collapsed")
page.style()
VIEWS = [
    st.Page("views/home.py", title="Fleet", default=True),
    st.Page("views/groups.py", title="Groups"),
    st.Page("views/connect.py", title="Connect"),
    st.Page("views/reassignments.py", title="Reassignments"),
    st.Page("views/findings.py", title="Findings"),
    st.Page("views/compare.py", title="Compare"),
    st.Page("views/whatif.py", title="Client settings"),
    st.Page("views/trust.py", title="Trust"),
]
HIDDEN = [
    st.Page("views/incident.py", title="Incident", visibility="hidden"),
    st.Page("views/group.py", title="Group", visibility="hidden"),
    st.Page("views/rebalance.py", title="Rebalance", visibility="hidden"),
    st.Page("views/reassignment.py", title="Reassignment", visibility="hidden"),
    st.Page("views/evidence.py", title="Evidence", visibility="hidden"),
]
if unknown := page.unknown_page({view.url_path for view in (*VIEWS, *HIDDEN)}):
    # Else Streamlit would show home behind a dialog of its own.
    HIDDEN.append(st.Page("views/unknown.py", title="No such page", url_path=unknown, visibility="hidden"))
chosen = st.navigation([*VIEWS, *HIDDEN], position="top")
page.gate()
page.phone_navigation(VIEWS)
with st.container(key="palette-place"):
    page.palette()
page.follow()
page.run(chosen)
page.account()
