"""All opinions on a company."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from usagebill.simulation.oracle.documents import check_documents
from usagebill.simulation.oracle.fees import check_fees
from usagebill.simulation.oracle.story import Log, told
from usagebill.simulation.oracle.verdicts import Verdict


def judged(log: Log, papers: Mapping[str, Any]) -> Verdict:
    """What the oracle makes of a log and of the papers that the library shows for it."""
    verdict = Verdict()
    story = told(log)
    check_fees(story, papers, verdict)
    check_documents(story, log, papers, verdict)
    return verdict
