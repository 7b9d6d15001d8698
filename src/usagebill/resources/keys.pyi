"""Made by `python -m tests.library_stubs`."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import ClassVar

from usagebill.bindings import Messages, Resource, Views
from usagebill.records import ApiKey, IssuedKey, Pages

class ApiKeys(Resource):
    """The keys of requests, and what each may do."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def create(
        self,
        *,
        name: str | None = ...,
        permissions: Mapping[str, Sequence[str]] | None = ...,
        expires_at: date | str | None = ...,
    ) -> IssuedKey:
        """Create a key; its value is shown only once. Without `permissions` it gets those of the requesting key.

        Raises `Invalid`, and `Forbidden` for permissions that the requesting key lacks.

        name: A readable name.
        permissions: Resource -> `read` and `write`. Default: everything.
        expires_at: When it expires.
        """

    def get(self, api_key_id: str) -> ApiKey:
        """A key that is valid now; its value is not kept. Raises `NotFound`.

        api_key_id: The api key, by id.
        """

    def update(
        self,
        api_key_id: str,
        *,
        name: str | None = ...,
        permissions: Mapping[str, Sequence[str]] | None = ...,
        expires_at: date | str | None = ...,
    ) -> ApiKey:
        """Rename a key, replace its permissions as a whole, or set when it expires (`expires_at` null: never).

        Raises `NotFound`, `Invalid`, and `Forbidden` for permissions, of before or after, that the requesting key lacks.

        api_key_id: The api key, by id.
        name: A readable name.
        permissions: Resource -> `read` and `write`. Default: everything.
        expires_at: When it expires.
        """

    def rotate(self, api_key_id: str, *, name: str | None = ..., expires_at: date | str | None = ...) -> IssuedKey:
        """Replace a key by a new one with its permissions and name; the old one expires now, or at `expires_at`.

        Raises `NotFound`, `Invalid`, and `Forbidden` if the key has permissions that the requesting key lacks.

        api_key_id: The api key, by id.
        name: A readable name.
        expires_at: When it expires.
        """

    def revoke(self, api_key_id: str) -> ApiKey:
        """Revoke a key at once.

        Raises `Invalid` if no other key without an expiry would remain, and `Forbidden` if the key has permissions that the
        requesting key lacks.

        api_key_id: The api key, by id.
        """

    def list(self, *, page: int = ..., per_page: int = ...) -> Pages[ApiKey]:
        """The keys that are valid now, oldest first.

        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """
