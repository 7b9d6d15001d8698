"""API keys, and users of the console."""

from __future__ import annotations

from typing import ClassVar

from usagebill.core.api_keys import ApiKey
from usagebill.core.users import User, UserSession
from usagebill.operations import api_keys, users
from usagebill.operations.emails import sign_in
from usagebill.resources.bindings import Resource, Views, command, query
from usagebill.resources.result_views import issued_key_view, sign_in_link_view
from usagebill.views.api_keys import api_key_view
from usagebill.views.users import user_session_view, user_view


class ApiKeys(Resource):
    """The keys of requests, and what each may do."""

    permission = "api_key"

    views: ClassVar[Views] = {ApiKey: api_key_view, api_keys.IssuedKey: issued_key_view}

    create = command(api_keys.issue)
    get = query(api_keys.get)
    list = query(api_keys.list_all)
    update = command(api_keys.change)
    rotate = command(api_keys.replace_key)
    revoke = command(api_keys.revoke)


class Users(Resource):
    """Who signs in to the console, and what each may do there."""

    permission = "api_key"

    views: ClassVar[Views] = {User: user_view, UserSession: user_session_view, users.SignInLink: sign_in_link_view}

    add = command(users.add)
    get = query(users.get)
    list = query(users.list_all)
    update = command(users.change)
    remove = command(users.remove)
    link = command(users.link)
    send_link = command(sign_in.send_link)
    sessions = query(users.list_sessions)
    end_session = command(users.end_session)
