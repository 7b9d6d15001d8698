"""VAT of the EU: rates and codes, which of them a customer pays, the form of numbers, when to ask again."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from usagebill.core.countries import COUNTRIES, EU_COUNTRIES
from usagebill.core.vat import (
    STANDARD_RATES,
    TERRITORIES,
    NotRegistered,
    RateChange,
    Registered,
    RegistryError,
    Unavailable,
    VatCheck,
    code_after_check,
    code_at_once,
    code_by_country,
    eu_taxes,
    is_decided_again,
    is_eu_code,
    next_rate_change,
    parse_number,
    question_of,
    rate_changes,
    retry_delay,
    standard_rate,
    territory_at,
    with_code,
)

TODAY = date(2026, 1, 15)

STANDARD = {
    "AT": "20",
    "BE": "21",
    "BG": "20",
    "CY": "19",
    "CZ": "21",
    "DE": "19",
    "DK": "25",
    "EE": "24",
    "ES": "21",
    "FI": "25.5",
    "FR": "20",
    "GR": "24",
    "HR": "25",
    "HU": "27",
    "IE": "23",
    "IT": "22",
    "LT": "21",
    "LU": "17",
    "LV": "21",
    "MT": "18",
    "NL": "21",
    "PL": "23",
    "PT": "23",
    "RO": "21",
    "SE": "25",
    "SI": "22",
    "SK": "23",
}


def code(country: str | None, zipcode: str | None = None, number: str | None = None, seller: str = "FR") -> str | None:
    return code_at_once(country=country, zipcode=zipcode, number=number, entity_country=seller)


def checked(
    answer: Registered | NotRegistered, country: str | None = None, zipcode: str | None = None, seller: str = "FR"
) -> str:
    return code_after_check(answer, country=country, zipcode=zipcode, entity_country=seller)


def registered(prefix: str) -> Registered:
    return Registered(country_code=prefix, vat_number="1")


# Taxes


@pytest.mark.parametrize(("country", "rate"), list(STANDARD.items()))
def test_standard_rates(country: str, rate: str) -> None:
    assert standard_rate(country, TODAY) == Decimal(rate)


@pytest.mark.parametrize(
    ("country", "before", "day", "after"),
    [
        ("EE", "22", date(2025, 7, 1), "24"),
        ("FI", "24", date(2024, 9, 1), "25.5"),
        ("RO", "19", date(2025, 8, 1), "21"),
        ("SK", "20", date(2025, 1, 1), "23"),
    ],
)
def test_a_rate_changes_on_its_day(country: str, before: str, day: date, after: str) -> None:
    assert standard_rate(country, day - timedelta(days=1)) == Decimal(before)
    assert standard_rate(country, day) == Decimal(after)
    assert next_rate_change(day - timedelta(days=1)) == day
    assert standard_rate(country, date(2000, 1, 1)) == Decimal(before)


def test_no_change_of_rates_is_known_after_the_last() -> None:
    assert next_rate_change(TODAY) is None


def test_there_are_47_taxes_with_codes_and_names() -> None:
    taxes = {tax.code: tax for tax in eu_taxes(TODAY)}
    assert len(taxes) == len(eu_taxes(TODAY)) == 47
    assert frozenset(STANDARD_RATES) == EU_COUNTRIES
    assert all(is_eu_code(code) and tax.name and tax.description for code, tax in taxes.items())
    assert (taxes["svc_eu_fr_standard"].name, taxes["svc_eu_fr_standard"].rate) == ("FR Standard", 20)
    assert taxes["svc_eu_es_exception_canary_islands"].name == "ES Canary Islands Standard"
    assert (taxes["svc_eu_reverse_charge"].name, taxes["svc_eu_reverse_charge"].rate) == ("Reverse Charge", 0)
    assert (taxes["svc_eu_tax_exempt"].name, taxes["svc_eu_tax_exempt"].rate) == ("Tax Exempt", 0)


# Territories


@pytest.mark.parametrize(
    ("country", "zipcode", "key", "rate"),
    [
        ("ES", "35001", "canary_islands", "0"),
        ("ES", "38999", "canary_islands", "0"),
        ("ES", "51001", "ceuta", "0"),
        ("ES", "51005", "ceuta", "0"),
        ("ES", "51070", "ceuta", "0"),
        ("ES", "51071", "ceuta", "0"),
        ("ES", "51081", "ceuta", "0"),
        ("ES", "52000", "melilla", "0"),
        ("ES", "52006", "melilla", "0"),
        ("ES", "52071", "melilla", "0"),
        ("ES", "52081", "melilla", "0"),
        ("IT", "22061", "campione_d_italia", "0"),
        ("IT", "23041", "livigno", "0"),
        ("FI", "22100", "aland_islands", "0"),
        ("GR", "63086", "mount_athos", "0"),
        ("DE", "78266", "busingen_am_hochrhein", "0"),
        ("DE", "27498", "heligoland", "0"),
        ("FR", "97100", "guadeloupe", "8.5"),
        ("FR", "97200", "martinique", "8.5"),
        ("FR", "97400", "reunion", "8.5"),
        ("FR", "97300", "guyane", "0"),
        ("FR", "97600", "mayotte", "0"),
        ("PT", "9000-001", "madeira", "22"),
        ("PT", "9400", "madeira", "22"),
        ("PT", "9500-321", "azores", "18"),
        ("AT", "6691", "jungholz", "19"),
        ("AT", "6991", "mittelberg", "19"),
        ("AT", "6992", "mittelberg", "19"),
        ("AT", "6993", "mittelberg", "19"),
        # Anywhere in the postcode, spaces aside.
        ("ES", " 35 001 ", "canary_islands", "0"),
        ("ES", "ES-35001", "canary_islands", "0"),
        ("AT", "A-6691", "jungholz", "19"),
        ("FI", "FI\t22 100", "aland_islands", "0"),
    ],
)
def test_territories_by_postcode(country: str, zipcode: str, key: str, rate: str) -> None:
    territory = territory_at(country, zipcode)
    assert territory is not None
    assert (territory.key, territory.rate) == (key, Decimal(rate))
    assert territory.code == f"svc_eu_{country.lower()}_exception_{key}"


@pytest.mark.parametrize(
    ("country", "zipcode"),
    [
        ("ES", "28001"),
        ("ES", "51006"),
        ("ES", "52007"),
        ("ES", "51072"),
        ("IT", "22062"),
        ("FI", "00220"),
        ("FR", "75001"),
        ("FR", "97500"),
        ("PT", "1000-001"),
        ("AT", "6990"),
        ("AT", "6994"),
        ("ES", None),
        ("ES", "   "),
        (None, "35001"),
        ("US", "35001"),
        ("IT", "35001"),
    ],
)
def test_elsewhere_is_no_territory(country: str | None, zipcode: str | None) -> None:
    assert territory_at(country, zipcode) is None


# The decision without a check


@pytest.mark.parametrize(
    ("country", "zipcode", "expected"),
    [
        ("US", None, "svc_eu_tax_exempt"),
        ("GB", "35001", "svc_eu_tax_exempt"),
        ("IT", None, "svc_eu_it_standard"),
        ("FR", None, "svc_eu_fr_standard"),
        (None, None, "svc_eu_fr_standard"),
        ("", None, "svc_eu_fr_standard"),
        ("ES", "35001", "svc_eu_es_exception_canary_islands"),
        ("ES", " 35 001 ", "svc_eu_es_exception_canary_islands"),
        ("ES", "28001", "svc_eu_es_standard"),
        ("FR", "97200", "svc_eu_fr_standard"),
    ],
)
def test_customers_without_a_number(country: str | None, zipcode: str | None, expected: str) -> None:
    assert code(country, zipcode) == expected
    assert code(country, zipcode, "") == expected
    assert code(country, zipcode, "  ") == expected


def test_territories_of_france_are_for_businesses() -> None:
    assert code("FR", "97200", "FR12345678901") == "svc_eu_fr_exception_martinique"
    assert code("FR", "97200", "INVALID123") is None
    assert code("FR", "75001", "FR12345678901") is None


def test_other_territories_count_with_any_number() -> None:
    assert code("ES", "35001", "nonsense") == "svc_eu_es_exception_canary_islands"


@pytest.mark.parametrize("number", ["IT12345678901", "IT123", "nonsense", "0"])
def test_any_number_is_checked_elsewhere(number: str) -> None:
    for country in ("IT", "FR", "US", None):
        assert code(country, None, number) is None


# The decision after a check


@pytest.mark.parametrize(
    ("answer", "country", "zipcode", "seller", "expected"),
    [
        (registered("IT"), "IT", None, "FR", "svc_eu_reverse_charge"),
        # The country of the number counts, not that of the address.
        (registered("IT"), "FR", "97200", "FR", "svc_eu_reverse_charge"),
        (registered("FR"), "US", None, "FR", "svc_eu_fr_standard"),
        (registered("FR"), "FR", "75001", "FR", "svc_eu_fr_standard"),
        (registered("FR"), "FR", "97 200", "FR", "svc_eu_fr_exception_martinique"),
        (registered("IT"), "IT", "23041", "IT", "svc_eu_it_exception_livigno"),
        # Greece is EL there and GR everywhere else.
        (registered("EL"), "GR", "10431", "GR", "svc_eu_gr_standard"),
        (registered("EL"), "GR", "63086", "GR", "svc_eu_gr_exception_mount_athos"),
        (registered("EL"), "GR", "63086", "FR", "svc_eu_reverse_charge"),
        (NotRegistered(), "IT", None, "FR", "svc_eu_it_standard"),
        (NotRegistered(valid_format=False), "US", None, "FR", "svc_eu_tax_exempt"),
        (NotRegistered(), None, None, "FR", "svc_eu_fr_standard"),
    ],
)
def test_customers_whose_number_was_checked(
    answer: Registered | NotRegistered, country: str | None, zipcode: str | None, seller: str, expected: str
) -> None:
    assert checked(answer, country, zipcode, seller) == expected


# Whatever the customer, exactly one tax

CODES = frozenset(tax.code for tax in eu_taxes(TODAY))
countries = st.sampled_from([None, "", *COUNTRIES])
sellers = st.sampled_from(sorted(EU_COUNTRIES))
zipcodes = st.none() | st.text(max_size=12) | st.from_regex(r"[ 0-9-]{0,8}", fullmatch=True)
prefixes = st.sampled_from([*sorted(EU_COUNTRIES - {"GR"}), "EL"])
numbers = st.none() | st.text(max_size=15) | st.from_regex(r"[A-Z]{2}[A-Z0-9]{2,12}", fullmatch=True)


@given(countries, zipcodes, sellers)
def test_a_customer_without_a_number_always_has_one_tax(country: str | None, zipcode: str | None, seller: str) -> None:
    assert code(country, zipcode, None, seller) in CODES


@given(countries, zipcodes, numbers, sellers)
def test_a_customer_has_one_tax_or_a_number_to_check(
    country: str | None, zipcode: str | None, number: str | None, seller: str
) -> None:
    code_of_rate = code(country, zipcode, number, seller)
    if code_of_rate is None:
        assert number is not None
        assert number.strip()
    else:
        assert code_of_rate in CODES


@given(countries, zipcodes, sellers, prefixes, st.booleans())
def test_a_check_always_ends_with_one_tax(
    country: str | None, zipcode: str | None, seller: str, prefix: str, known: bool
) -> None:
    answer = registered(prefix) if known else NotRegistered()
    assert checked(answer, country, zipcode, seller) in CODES


@given(countries, zipcodes, sellers)
def test_a_number_that_counts_for_nothing_is_like_none(country: str | None, zipcode: str | None, seller: str) -> None:
    assert checked(NotRegistered(), country, zipcode, seller) == code_by_country(country, seller)
    if territory_at(country, zipcode) is None:
        assert checked(NotRegistered(), country, zipcode, seller) == code(country, zipcode, None, seller)


@given(zipcodes, prefixes, sellers, countries)
def test_only_foreign_businesses_account_for_the_tax_themselves(
    zipcode: str | None, prefix: str, seller: str, country: str | None
) -> None:
    home = "GR" if prefix == "EL" else prefix
    checked_code = checked(registered(prefix), country, zipcode, seller)
    assert (checked_code == "svc_eu_reverse_charge") == (home != seller)


@given(st.lists(st.sampled_from(["vat", "svc_eu_it_standard", "x"]), max_size=6))
def test_a_code_is_added_once(codes: list[str]) -> None:
    with_rate = with_code(codes, "svc_eu_it_standard")
    assert sorted(with_rate) == sorted({*codes, "svc_eu_it_standard"})
    assert with_code(with_rate, "svc_eu_it_standard") == with_rate


def test_codes_of_the_eu_however_they_are_written() -> None:
    assert is_eu_code("SVC_EU_it_standard")
    assert not is_eu_code("my_svc_eu_tax")
    assert len({territory.code for territory in TERRITORIES}) == 18


# Numbers


@pytest.mark.parametrize(
    ("text", "prefix", "country"),
    [
        ("ATU12345678", "AT", "AT"),
        ("BE0123456789", "BE", "BE"),
        ("BE1234567890", "BE", "BE"),
        ("BG123456789", "BG", "BG"),
        ("BG1234567890", "BG", "BG"),
        ("CY12345678X", "CY", "CY"),
        ("CZ12345678", "CZ", "CZ"),
        ("CZ1234567890", "CZ", "CZ"),
        ("DE123456789", "DE", "DE"),
        ("DK12345678", "DK", "DK"),
        ("EE101234567", "EE", "EE"),
        ("EL123456789", "EL", "GR"),
        ("ESX12345678", "ES", "ES"),
        ("ES12345678X", "ES", "ES"),
        ("ESX1234567X", "ES", "ES"),
        ("FI12345678", "FI", "FI"),
        ("FR12345678901", "FR", "FR"),
        ("FRXX345678901", "FR", "FR"),
        ("HR12345678901", "HR", "HR"),
        ("HU12345678", "HU", "HU"),
        ("IE1234567X", "IE", "IE"),
        ("IE1234567WA", "IE", "IE"),
        ("IE9S99999L", "IE", "IE"),
        ("IT12345678901", "IT", "IT"),
        ("LT123456789", "LT", "LT"),
        ("LT123456789012", "LT", "LT"),
        ("LU12345678", "LU", "LU"),
        ("LV12345678901", "LV", "LV"),
        ("MT12345678", "MT", "MT"),
        ("NL123456789B01", "NL", "NL"),
        ("PL1234567890", "PL", "PL"),
        ("PT123456789", "PT", "PT"),
        ("RO12", "RO", "RO"),
        ("RO1234567890", "RO", "RO"),
        ("SE123456789001", "SE", "SE"),
        ("SI12345678", "SI", "SI"),
        ("SK1234567890", "SK", "SK"),
        ("it 123.456-789/01", "IT", "IT"),
    ],
)
def test_numbers_of_valid_form(text: str, prefix: str, country: str) -> None:
    number = parse_number(text)
    assert number is not None
    assert (number.prefix, number.country) == (prefix, country)
    assert parse_number(number.prefix + number.digits) == number


@pytest.mark.parametrize(
    "text",
    [
        "",
        "IT",
        "IT123",
        "INVALID123",
        "12345678901",
        "IT123456789012",
        "IT1234567890A",
        "IT٣٢٣٤٥٦٧٨٩٠١",
        "ATX12345678",
        "BE2123456789",
        "DE012345678",
        "EE123456789",
        "GR123456789",
        "NL123456789X01",
        "SE123456789002",
        "US123456789",
        "GB123456789",
        "CHE123456789",
        "xIT12345678901",
    ],
)
def test_other_texts_are_no_numbers(text: str) -> None:
    assert parse_number(text) is None


def test_every_country_has_numbers() -> None:
    examples = {"AT": "U12345678", "ES": "X12345678", "IE": "1234567X", "CY": "12345678X", "NL": "123456789B01"}
    lengths = ("12", "12345678", "123456789", "101234567", "1234567890", "12345678901", "123456789001")
    for country in EU_COUNTRIES:
        prefix = "EL" if country == "GR" else country
        tried = [parse_number(prefix + text) for text in (examples.get(country, ""), *lengths)]
        assert any(number is not None and number.country == country for number in tried), country


@given(st.text(max_size=20))
def test_any_text_is_a_number_or_not(text: str) -> None:
    number = parse_number(text)
    assert number is None or number.country in EU_COUNTRIES


# Asking again


def test_the_registry_is_asked_again_ever_more_seldom() -> None:
    minutes = [retry_delay(attempts) // timedelta(minutes=1) for attempts in range(1, 9)]
    assert minutes == [5, 5, 10, 20, 40, 60, 60, 60]


@given(st.integers(1, 10**6))
def test_the_registry_is_never_given_up(attempts: int) -> None:
    assert timedelta(minutes=5) <= retry_delay(attempts) <= retry_delay(attempts + 1) <= timedelta(hours=1)


def test_rates_change_on_the_days_that_are_announced_and_on_no_others() -> None:
    day = next_rate_change(date(2000, 1, 1))
    while day is not None:
        before = {tax.code: tax.rate for tax in eu_taxes(day - timedelta(days=1))}
        assert rate_changes(day) != ()
        for change in rate_changes(day):
            assert change == RateChange(tax=change.tax, rate_before=before[change.tax.code])
            assert change.tax.rate != change.rate_before
        assert rate_changes(day + timedelta(days=1)) == ()
        day = next_rate_change(day)


@pytest.mark.parametrize(
    ("text", "registry", "answer"),
    [
        ("FR12345678901", True, None),
        ("FR12345678901", False, NotRegistered(reason="there is no VAT registry to ask")),
        ("FR1", True, NotRegistered(valid_format=False)),
        ("FR1", False, NotRegistered(valid_format=False)),
    ],
)
def test_only_well_formed_numbers_are_asked_for_and_only_of_a_registry(
    text: str, registry: bool, answer: NotRegistered | None
) -> None:
    assert question_of(text, registry=registry) == (answer or parse_number(text))


def test_a_check_counts_its_attempts_and_keeps_the_last_reason() -> None:
    check = VatCheck(id="check", number="FR12345678901", started_at=datetime(2024, 3, 1, tzinfo=UTC))
    down = Unavailable(kind=RegistryError.TIMEOUT, message="no answer within 10 s")
    twice = check.unanswered(down).unanswered(Unavailable(kind=RegistryError.BLOCKED, message="no"))
    assert (twice.attempts, twice.last_error, twice.last_message) == (2, "blocked", "no")


@pytest.mark.parametrize(
    ("is_new", "moved", "differs", "codes", "expected"),
    [
        (True, False, False, [], True),
        (False, True, False, ["svc_eu_fr_standard"], True),
        (False, False, True, ["svc_eu_fr_standard"], True),
        # It has an EU tax, in whatever case, and nothing that decides it has changed.
        (False, False, False, ["svc_eu_fr_standard"], False),
        (False, False, False, ["own", "SVC_EU_reverse_charge"], False),
        # Somebody took it away.
        (False, False, False, ["own"], True),
        (False, False, False, [], True),
    ],
)
def test_when_the_tax_of_a_customer_is_decided_again(
    is_new: bool, moved: bool, differs: bool, codes: list[str], expected: bool
) -> None:
    assert is_decided_again(is_new=is_new, moved=moved, differs=differs, codes=codes) is expected
