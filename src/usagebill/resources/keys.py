"""API keys."""

from __future__ import annotations

from typing import ClassVar

from usagebill.bindings import Resource, Views, command, query
from usagebill.core.api_keys import ApiKey
from usagebill.operations import api_keys
from usagebill.resources.result_views import issued_key_view
from usagebill.views.api_keys import api_key_view


class ApiKeys(Resource):
    """The keys of requests, and what each may do."""

    views: ClassVar[Views] = {ApiKey: api_key_view, api_keys.IssuedKey: issued_key_view}

    create = command(api_keys.issue)
    get = query(api_keys.get)
    list = query(api_keys.list_all)
    update = command(api_keys.change)
    rotate = command(api_keys.replace_key)
    revoke = command(api_keys.revoke)
