"""The customer portal: the pages of one customer, in the customer's language, behind a signed link."""

from usagebill.portal.app import portal_routes as portal_routes
