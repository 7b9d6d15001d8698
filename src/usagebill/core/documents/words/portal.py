"""Words of the customer portal in each language, beside those of documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from usagebill.core.documents.locales import language_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalWords:
    """Texts of the pages; names in braces are filled in."""

    invoices: str
    to_pay: str
    nothing_to_pay: str
    no_invoices: str
    paid: str
    unpaid: str
    overdue: str
    voided: str
    wallets: str
    balance: str
    credits_left: str
    used_so_far: str
    expires: str
    newer: str
    older: str


PORTAL_WORDS: Mapping[str, PortalWords] = {
    "en": PortalWords(
        invoices="Invoices",
        to_pay="To pay",
        nothing_to_pay="There is nothing to pay.",
        no_invoices="There are no invoices yet.",
        paid="Paid",
        unpaid="Unpaid",
        overdue="Overdue",
        voided="Voided",
        wallets="Prepaid credits",
        balance="Balance",
        credits_left="Credits",
        used_so_far="After usage so far",
        expires="Expires on {date}",
        newer="Newer",
        older="Older",
    ),
    "de": PortalWords(
        invoices="Rechnungen",
        to_pay="Zu zahlen",
        nothing_to_pay="Es ist nichts zu zahlen.",
        no_invoices="Es gibt noch keine Rechnungen.",
        paid="Bezahlt",
        unpaid="Unbezahlt",
        overdue="Überfällig",
        voided="Storniert",
        wallets="Guthaben",
        balance="Saldo",
        credits_left="Credits",
        used_so_far="Nach bisheriger Nutzung",
        expires="Gültig bis {date}",
        newer="Neuere",
        older="Ältere",
    ),
    "es": PortalWords(
        invoices="Facturas",
        to_pay="Por pagar",
        nothing_to_pay="No hay nada que pagar.",
        no_invoices="Todavía no hay facturas.",
        paid="Pagada",
        unpaid="Pendiente",
        overdue="Vencida",
        voided="Anulada",
        wallets="Créditos prepagados",
        balance="Saldo",
        credits_left="Créditos",
        used_so_far="Tras el consumo actual",
        expires="Caduca el {date}",
        newer="Más recientes",
        older="Anteriores",
    ),
    "fr": PortalWords(
        invoices="Factures",
        to_pay="À payer",
        nothing_to_pay="Il n'y a rien à payer.",
        no_invoices="Il n'y a pas encore de facture.",
        paid="Payée",
        unpaid="À payer",
        overdue="En retard",
        voided="Annulée",
        wallets="Crédits prépayés",
        balance="Solde",
        credits_left="Crédits",
        used_so_far="Après la consommation en cours",
        expires="Expire le {date}",
        newer="Plus récentes",
        older="Plus anciennes",
    ),
    "it": PortalWords(
        invoices="Fatture",
        to_pay="Da pagare",
        nothing_to_pay="Non c'è nulla da pagare.",
        no_invoices="Non ci sono ancora fatture.",
        paid="Pagata",
        unpaid="Da pagare",
        overdue="Scaduta",
        voided="Annullata",
        wallets="Crediti prepagati",
        balance="Saldo",
        credits_left="Crediti",
        used_so_far="Dopo il consumo attuale",
        expires="Scade il {date}",
        newer="Più recenti",
        older="Precedenti",
    ),
    "nb": PortalWords(
        invoices="Fakturaer",
        to_pay="Å betale",
        nothing_to_pay="Det er ingenting å betale.",
        no_invoices="Det finnes ingen fakturaer ennå.",
        paid="Betalt",
        unpaid="Ubetalt",
        overdue="Forfalt",
        voided="Annullert",
        wallets="Forhåndsbetalte kreditter",
        balance="Saldo",
        credits_left="Kreditter",
        used_so_far="Etter forbruket så langt",
        expires="Utløper {date}",
        newer="Nyere",
        older="Eldre",
    ),
    "pt-BR": PortalWords(
        invoices="Faturas",
        to_pay="A pagar",
        nothing_to_pay="Não há nada a pagar.",
        no_invoices="Ainda não há faturas.",
        paid="Paga",
        unpaid="Em aberto",
        overdue="Vencida",
        voided="Anulada",
        wallets="Créditos pré-pagos",
        balance="Saldo",
        credits_left="Créditos",
        used_so_far="Após o consumo atual",
        expires="Expira em {date}",
        newer="Mais recentes",
        older="Anteriores",
    ),
    "sv": PortalWords(
        invoices="Fakturor",
        to_pay="Att betala",
        nothing_to_pay="Det finns inget att betala.",
        no_invoices="Det finns inga fakturor ännu.",
        paid="Betald",
        unpaid="Obetald",
        overdue="Förfallen",
        voided="Makulerad",
        wallets="Förbetalda krediter",
        balance="Saldo",
        credits_left="Krediter",
        used_so_far="Efter hittillsvarande användning",
        expires="Upphör {date}",
        newer="Nyare",
        older="Äldre",
    ),
    "zh-TW": PortalWords(
        invoices="發票",
        to_pay="應付金額",
        nothing_to_pay="目前沒有應付款項。",
        no_invoices="目前還沒有發票。",
        paid="已付款",
        unpaid="未付款",
        overdue="已逾期",
        voided="已作廢",
        wallets="預付點數",
        balance="餘額",
        credits_left="點數",
        used_so_far="扣除目前用量後",
        expires="{date} 到期",
        newer="較新",
        older="較舊",
    ),
}


def portal_words_of(locale: str) -> PortalWords:
    """The words of a locale, in whatever forms it is written; English if it has none."""
    return PORTAL_WORDS.get(language_of(locale), PORTAL_WORDS["en"])
