"""An OpenID Connect provider that others wrote, behind a front that notes requests and can spoil answers."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import httpx
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.test import run_wsgi_app

# It still uses parts of Authlib that have successors, and Authlib lets nobody ignore its saying so.
with warnings.catch_warnings(record=True):
    from oidc_provider_mock import app as provider_app

Claims = dict[str, Any]
Answer = dict[str, Any]


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: object) -> None:
        pass


class Provider:
    """`claims` changes what an ID token says, `answers` the JSON at a path; `key` signs, and is published."""

    def __init__(self, address: str, app: WSGIApplication) -> None:
        self.address = address
        self._app = app
        self.key = RSAKey.generate_key(2048, {"kid": "one"})
        self.signing_key: Any = self.key
        self.algorithm = "RS256"
        self.claims: Callable[[Claims], Claims] = lambda claims: claims
        self.answers: Mapping[str, Callable[[Answer], Answer]] = {}
        self.statuses: Mapping[str, int] = {}
        self.token_requests: list[dict[str, str]] = []

    def know(self, email: str, **claims: object) -> None:
        """A user of the provider, named as its e-mail address."""
        made = httpx.put(f"{self.address}/users/{email}", json={"email": email, "email_verified": True, **claims})
        assert made.status_code == 204, made.text

    def agree(self, address: str, email: str) -> str:
        """Where the provider sends the browser of this user, who was sent to `address`."""
        answer = httpx.post(address, data={"sub": email})
        assert answer.status_code == 302, answer.text
        return answer.headers["location"]

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Any:
        path = environ["PATH_INFO"]
        if path == "/oauth2/token":
            self._note_token_request(environ)
        body, status, headers = run_wsgi_app(self._app, environ, buffered=True)
        content = b"".join(body)
        if path in self.statuses:
            status = f"{self.statuses[path]} Changed"
        elif headers.get("content-type", "").startswith("application/json") and status.startswith("200"):
            content = json.dumps(self._answer(path, json.loads(content))).encode()
        headers["content-length"] = str(len(content))
        start_response(status, list(headers))
        return [content]

    def _note_token_request(self, environ: WSGIEnvironment) -> None:
        content = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        environ["wsgi.input"] = io.BytesIO(content)
        fields = dict(parse_qsl(content.decode()))
        self.token_requests.append({**fields, "authorization": environ.get("HTTP_AUTHORIZATION", "")})

    def _answer(self, path: str, answer: Answer) -> Answer:
        if path == "/jwks":
            answer = {"keys": KeySet([self.key]).as_dict(private=False)["keys"]}
        if path == "/oauth2/token" and "id_token" in answer:
            said = json.loads(_decoded(answer["id_token"].split(".")[1]))
            header = {"alg": self.algorithm, "kid": "one"}
            token = jwt.encode(header, self.claims(said), self.signing_key, [self.algorithm])
            answer = {**answer, "id_token": token}
        spoil = self.answers.get(path)
        return answer if spoil is None else spoil(answer)


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def challenge_of(verifier: str) -> str:
    """What whoever has the verifier announced beforehand."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


def asked(address: str) -> dict[str, str]:
    """The parameters of an address."""
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


@contextmanager
def provider() -> Iterator[Provider]:
    """A provider at an address of this machine."""
    made: list[Provider] = []
    server = make_server("localhost", 0, lambda *request: made[0](*request), threaded=True, request_handler=_Quiet)
    made.append(Provider(f"http://localhost:{server.server_port}", provider_app(require_nonce=True)))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield made[0]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
