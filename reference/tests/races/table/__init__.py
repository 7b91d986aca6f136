"""The table of races: importing it fills `contest.RACES`. RACE-35 and RACE-36 are about approvals, not offered."""

from races.contest import RACES as RACES
from races.table import children as children
from races.table import ends as ends
from races.table import events as events
from races.table import records as records
from races.table import recovery as recovery
