"""The pages as the seller has them: its color, and the sites that may show them in a frame."""

from __future__ import annotations

import pytest
from tests.asgi import send
from tests.cases import each
from tests.portal.test_pages import box as box, visit
from tests.scenarios import Scenario

from usagebill.http.app import create_app
from usagebill.portal.accents import DARK_GROUND, LIGHT_GROUND, accent_on, contrast, text_on


def of_seller(box: Scenario, **settings: object) -> None:
    box.put("/billing_entities/default", billing_entity=settings)


def test_nobody_frames_the_portal_until_the_seller_names_sites(box: Scenario) -> None:
    headers = visit(box).headers
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"
    of_seller(
        box, portal_frame_origins=["https://App.acme.example/", "http://localhost:3000", "https://app.acme.example"]
    )
    for path in ("", "/documents", "/details"):
        headers = visit(box, path).headers
        assert headers["content-security-policy"].endswith(
            "frame-ancestors https://app.acme.example http://localhost:3000"
        )
        assert "x-frame-options" not in headers
        assert headers["cache-control"] == "no-store"
    of_seller(box, portal_frame_origins=[])
    assert visit(box).headers["x-frame-options"] == "DENY"


@each(
    "origin",
    [
        "*",
        "app.acme.example",
        "https://app.acme.example/path",
        "https://app.acme.example; script-src *",
        "https://app.acme.example\r\nset-cookie: a=b",
        "javascript:alert(1)",
        "https://",
    ],
    ids=str,
)
def test_what_is_no_origin_is_refused_and_changes_nothing(box: Scenario, origin: str) -> None:
    refused = box.ask(
        "PUT",
        "/billing_entities/default",
        {"billing_entity": {"portal_frame_origins": ["https://good.example", origin]}},
        status=422,
    )
    assert refused["error_details"] == {"portal_frame_origins": ["origin_is_invalid"]}
    assert box.get("/billing_entities/default")["billing_entity"]["portal_frame_origins"] == []


@each("color", ["red", "#12345", "#12345g", "#123456;}", "url(https://x.example)"], ids=str)
def test_what_is_no_color_is_refused(box: Scenario, color: str) -> None:
    refused = box.ask("PUT", "/billing_entities/default", {"billing_entity": {"portal_color": color}}, status=422)
    assert refused["error_details"] == {"portal_color": ["color_is_invalid"]}


def test_the_pages_have_the_sellers_color(box: Scenario) -> None:
    assert "/accents/" not in visit(box).text
    of_seller(box, portal_color="#0B6E4F")
    assert box.get("/billing_entities/default")["billing_entity"]["portal_color"] == "#0b6e4f"
    page = visit(box).text
    assert 'href="/customer-portal/accents/0b6e4f.css"' in page
    style = send(create_app(box.billing), "GET", "/customer-portal/accents/0b6e4f.css")
    assert style.headers["content-type"].startswith("text/css")
    assert "--accent: #0b6e4f; --bar: #0b6e4f; --on-accent: #ffffff;" in style.text
    of_seller(box, portal_color=None)
    assert "/accents/" not in visit(box).text


@each("name", ["0b6e4f;}", "red", "0B6E4F"], ids=str)
def test_only_colors_have_style_sheets(box: Scenario, name: str) -> None:
    assert send(create_app(box.billing), "GET", f"/customer-portal/accents/{name}.css").status_code == 404


@each("color", ["#ffffff", "#000000", "#ffee00", "#808080", "#2f55d4", "#ff0000"], ids=str)
def test_whatever_the_color_text_can_be_read(color: str) -> None:
    for ground in (LIGHT_GROUND, DARK_GROUND):
        accent = accent_on(ground, color)
        assert contrast(accent, ground) >= 4.5
        assert contrast(text_on(accent), accent) >= 4.5


def test_a_color_that_can_be_read_stays_as_it_is() -> None:
    assert accent_on(LIGHT_GROUND, "#0b6e4f") == (0x0B, 0x6E, 0x4F)
    # Black on white is 21 to 1.
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
