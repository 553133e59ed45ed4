"""Data frames to time lines. No reading, no streamlit."""

from app.charts.beside import beside_time_lines
from app.charts.connect import connect_time_line
from app.charts.fleet import BUCKETS, fleet_strip
from app.charts.group import group_time_line, lanes_of, standing_steps, waiting_steps
from app.charts.incident import incident_time_line, worst_moment
from app.charts.marks import change_marks, election_marks, move_marks
from app.charts.reassignment import brokers_of, brokers_time_line, moments, partition_time_line, standing
from app.charts.rebalance import rebalance_time_line
from app.charts.time_line import Style, Target, TimeLine

__all__ = [
    "BUCKETS",
    "Style",
    "Target",
    "TimeLine",
    "beside_time_lines",
    "brokers_of",
    "brokers_time_line",
    "change_marks",
    "connect_time_line",
    "election_marks",
    "fleet_strip",
    "group_time_line",
    "incident_time_line",
    "lanes_of",
    "moments",
    "move_marks",
    "partition_time_line",
    "rebalance_time_line",
    "standing",
    "standing_steps",
    "waiting_steps",
    "worst_moment",
]
