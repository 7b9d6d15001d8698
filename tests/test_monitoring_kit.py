"""The alert rules, the dashboard and the runbook of `deploy/monitoring` speak of metrics that `/metrics` has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.test_docs import ROOT, anchors
from usagebill import Billing
from usagebill.http.metrics import Metrics

pytestmark = pytest.mark.beyond_reference

KIT = ROOT / "deploy" / "monitoring"
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((KIT / "alerts.yaml").read_text("utf-8"))["groups"] for rule in group["rules"]
]
DASHBOARD = json.loads((KIT / "dashboard.json").read_text("utf-8"))
NAME = re.compile(r"\b(?:usagebill|process)_[a-z0-9_]+\b")
SELECTED = re.compile(r"\b(?P<name>(?:usagebill|process)_[a-z0-9_]+)\{(?P<labels>[^}]*)\}")
# Those that Prometheus adds to whatever it scrapes, and the one that makes a histogram of a counter.
ADDED = {"instance", "job", "le"}


def exposed(folder: Path) -> str:
    with Billing(folder / "billing.db") as billing:
        return Metrics(billing, "key").text().decode()


def expressions() -> Iterator[tuple[str, str]]:
    """Each expression of the kit, and where it is."""
    yield from ((rule["alert"], rule["expr"]) for rule in RULES)
    for panel in DASHBOARD["panels"]:
        yield from ((panel["title"], target["expr"]) for target in panel.get("targets", ()))
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]


def names_of(text: str) -> set[str]:
    """The names of the samples of all families that are exposed, also of those without any sample now."""
    names: set[str] = set()
    for family in text_string_to_metric_families(text):
        names.add(family.name + ("_total" if family.type == "counter" else ""))
        if family.type == "histogram":
            names |= {f"{family.name}_{suffix}" for suffix in ("bucket", "count", "sum")}
    return names


def test_rules_and_dashboard_name_metrics_that_exist(tmp_path: Path) -> None:
    known = names_of(exposed(tmp_path))
    named = [(place, name) for place, expression in expressions() for name in NAME.findall(expression)]
    assert len(named) > 50
    assert [(place, name) for place, name in named if name not in known] == []


def test_the_page_of_metrics_has_every_metric_and_no_other(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text("utf-8")
    rows = re.findall(r"^\| (`[^|]*`) \|", page.partition("\n## Metrics\n")[2].partition("\n## ")[0], re.MULTILINE)
    told = {name for row in rows for name in NAME.findall(row)}
    families = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in text_string_to_metric_families(exposed(tmp_path))
    }
    assert told == families


def test_labels_that_are_selected_or_kept_are_those_of_the_metric(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text("utf-8")
    labels: dict[str, set[str]] = {}
    for row in re.findall(r"^\| (`[^|]*`) \| [^|]* \| ([^|]*)\|$", page, re.MULTILINE):
        for name in NAME.findall(row[0]):
            labels[name] = set(re.findall(r"`(\w+)`", row[1]))
    for place, expression in expressions():
        for match in SELECTED.finditer(expression):
            name = re.sub(r"_(bucket|count|sum)$", "", match["name"])
            assert set(re.findall(r"(\w+)\s*[=!]~?", match["labels"])) <= labels[name] | ADDED, place
        grouped = {
            name for group in re.findall(r"(?:by|without) \(([^)]*)\)", expression) for name in group.split(", ")
        }
        metrics = [labels[re.sub(r"_(bucket|count|sum)$", "", name)] for name in NAME.findall(expression)]
        assert grouped <= ADDED.union(*metrics), place


def test_every_alert_leads_to_its_paragraph_and_every_paragraph_has_its_alert() -> None:
    runbook = (ROOT / "docs" / "runbook.md").read_text("utf-8")
    assert re.findall(r"^## (\w+)$", runbook, re.MULTILINE) == [rule["alert"] for rule in RULES]
    for rule in RULES:
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert page.endswith("/runbook.html")
        assert anchor == rule["alert"].lower()
        assert anchor in anchors(runbook)
        assert rule["labels"]["severity"] in ("critical", "warning")


def test_prometheus_is_told_where_the_rules_are() -> None:
    settings = yaml.safe_load((KIT / "prometheus.yaml").read_text("utf-8"))
    assert [KIT / name for name in settings["rule_files"]] == [KIT / "alerts.yaml"]
    jobs = {scraped["job_name"] for scraped in settings["scrape_configs"]}
    assert {job for rule in RULES for job in re.findall(r'job="([^"]*)"', rule["expr"])} <= jobs
