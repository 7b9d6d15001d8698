"""The prefix of ids is not the beginning of other fields."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from usagebill import Billing
from usagebill.cli import main
from usagebill.http.app import create_app
from usagebill.process.settings import Settings
from usagebill.testing import Sandbox


@pytest.mark.parametrize("prefix", ["external_", "amount_", "webhook_", "per_"])
def test_a_prefix_that_fields_begin_with_is_refused(prefix: str) -> None:
    settings = Settings(id_prefix=prefix)
    with Billing(settings=settings) as billing, pytest.raises(ValueError, match="begins with it") as refused:
        create_app(billing)
    assert f"'{prefix}" in str(refused.value)
    with pytest.raises(ValueError, match=prefix):
        Sandbox(now="2024-01-01T00:00:00Z", settings=settings)


def test_the_command_line_says_why_a_prefix_is_refused() -> None:
    result = CliRunner().invoke(main, ["serve", "--db", "unused.db", "--id-prefix", "external_"])
    assert result.exit_code == 2
    assert "'external_customer_id' begins with it" in result.output


@pytest.mark.parametrize("prefix", ["acme_", "our_", "x1_"])
def test_any_other_prefix_will_do(prefix: str) -> None:
    with Billing(settings=Settings(id_prefix=prefix)) as billing:
        create_app(billing)
