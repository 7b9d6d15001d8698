"""OpenID Connect: the provider that signs users of the console in, with the authorization code flow and PKCE.

Authlib (the extra `oidc`) makes the requests and checks the answers.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

from usagebill.core.contacts import is_email, normalized_email
from usagebill.core.secrets import Secret
from usagebill.outside.bounded_http import Asking
from usagebill.process.json_text import parse_json
from usagebill.process.settings import Settings

# For each of the requests to the provider, and the largest answer in bytes.
_SECONDS: Final = 10.0
_LARGEST: Final = 256 * 1024
# How far the provider's clock and ours may differ, in seconds.
_LEEWAY: Final = 60
# What signs with a key that the provider keeps to itself; `none`, and whatever our own secret could sign, is refused.
_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_SCOPE: Final = "openid email"


class NotSignedIn(Exception):
    """The provider has not named anybody: the text says why. `is_unreachable` if it could not be asked."""

    def __init__(self, reason: str, *, is_unreachable: bool = False) -> None:
        super().__init__(reason)
        self.is_unreachable = is_unreachable


def check_installed() -> None:
    """Raises `ModuleNotFoundError`, which says what to install, without Authlib."""
    try:
        import authlib.oidc.core  # noqa: F401
    except ModuleNotFoundError as problem:
        raise ModuleNotFoundError(
            f"OpenID Connect needs Authlib: pip install 'usagebill[oidc]' ({problem})"
        ) from problem


class OpenIdProvider:
    """The provider of the settings, and `redirect_uri`, the address to which it sends browsers back.

    `browser` is a secret that only the browser that began keeps, in a cookie: the state, the nonce and the verifier of
    one attempt follow from it, so that nothing has to be stored, and whoever began must be the one who comes back.
    """

    def __init__(self, settings: Settings, redirect_uri: str) -> None:
        from authlib.oauth2.client import OAuth2Client

        self._issuer = settings.oidc_issuer or ""
        self._client = OAuth2Client(
            None,
            settings.oidc_client_id,
            settings.oidc_client_secret,
            scope=_SCOPE,
            redirect_uri=redirect_uri,
            code_challenge_method="S256",
        )

    def address(self, browser: Secret) -> str:
        """Where the browser signs in. Raises `NotSignedIn`."""
        with closing(Asking(_SECONDS, _LARGEST)) as asking:
            endpoint = self._endpoint(self._metadata(asking), "authorization_endpoint")
        url, _ = self._client.create_authorization_url(
            endpoint,
            state=_derived(browser, "state"),
            nonce=_derived(browser, "nonce"),
            code_verifier=_derived(browser, "verifier"),
        )
        return str(url)

    def email(self, browser: Secret, answer: Mapping[str, str]) -> str:
        """The verified e-mail address of whoever has signed in, from the parameters with which the browser came back.

        Raises `NotSignedIn`.
        """
        if not browser.value or not hmac.compare_digest(
            answer.get("state", "").encode("utf-8", "surrogatepass"), _derived(browser, "state").encode()
        ):
            raise NotSignedIn("the answer is not to a request of this browser in the last ten minutes")
        if answer.get("error"):
            raise NotSignedIn(f"it answered {answer['error'][:100]!r}")
        if not answer.get("code"):
            raise NotSignedIn("its answer has no code")
        if answer.get("iss", self._issuer) != self._issuer:
            raise NotSignedIn("the answer is another issuer's")
        with closing(Asking(_SECONDS, _LARGEST)) as asking:
            metadata = self._metadata(asking)
            token = self._token(asking, metadata, answer["code"], _derived(browser, "verifier"))
            claims = self._claims(asking, metadata, token, _derived(browser, "nonce"))
            if "email" not in claims and metadata.get("userinfo_endpoint"):
                claims = {**self._user_info(asking, metadata, token, claims["sub"]), **claims}
        return _verified_email(claims)

    def _metadata(self, asking: Asking) -> dict[str, Any]:
        found = _object(asking, "GET", f"{self._issuer.rstrip('/')}/.well-known/openid-configuration", {})
        if found.get("issuer") != self._issuer:
            raise NotSignedIn(f"it calls itself {found.get('issuer')!r}, which is not --oidc-issuer")
        return found

    def _endpoint(self, metadata: Mapping[str, Any], name: str) -> str:
        address = metadata.get(name)
        # Whoever has https must not be led away from it.
        if not isinstance(address, str) or not address.startswith(self._issuer.partition(":")[0] + "://"):
            raise NotSignedIn(f"its configuration has no {name} that is as safe as the issuer")
        return address

    def _token(self, asking: Asking, metadata: Mapping[str, Any], code: str, verifier: str) -> dict[str, Any]:
        """What the code is exchanged for."""
        from authlib.oauth2.rfc6749.parameters import prepare_token_request

        url = self._endpoint(metadata, "token_endpoint")
        body = prepare_token_request(
            "authorization_code", code=code, redirect_uri=self._client.redirect_uri, code_verifier=verifier
        )
        method = self._client.token_endpoint_auth_method
        if method == "client_secret_basic" and method not in metadata.get(
            "token_endpoint_auth_methods_supported", [method]
        ):
            method = "client_secret_post"
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        url, headers, body = self._client.client_auth(method).prepare("POST", url, headers, body)
        return _object(asking, "POST", url, headers, body.encode())

    def _claims(
        self, asking: Asking, metadata: Mapping[str, Any], token: Mapping[str, Any], nonce: str
    ) -> dict[str, Any]:
        """What the ID token says, once its signature, issuer, audience, times and nonce are checked."""
        from authlib.oidc.core import CodeIDToken
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        keys: Any = _object(asking, "GET", self._endpoint(metadata, "jwks_uri"), {})
        try:
            decoded = jwt.decode(str(token.get("id_token", "")), KeySet.import_key_set(keys), list(_ALGORITHMS))
            claims = CodeIDToken(
                decoded.claims,
                decoded.header,
                {
                    "iss": {"essential": True, "value": self._issuer},
                    "aud": {"essential": True, "value": self._client.client_id},
                },
                {
                    "nonce": nonce,
                    "client_id": self._client.client_id,
                    "access_token": token.get("access_token"),
                },
            )
            claims.validate(leeway=_LEEWAY)
        except (JoseError, ValueError, KeyError, TypeError) as problem:
            raise NotSignedIn(f"its ID token is not valid: {problem}") from problem
        return dict(claims)

    def _user_info(
        self, asking: Asking, metadata: Mapping[str, Any], token: Mapping[str, Any], subject: str
    ) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {token.get('access_token')}"}
        found = _object(asking, "GET", self._endpoint(metadata, "userinfo_endpoint"), headers)
        if found.get("sub") != subject:
            raise NotSignedIn("its userinfo is about somebody else")
        return found


def _derived(browser: Secret, purpose: str) -> str:
    return hmac.new(browser.value.encode("utf-8", "surrogatepass"), purpose.encode(), hashlib.sha256).hexdigest()


def _object(asking: Asking, method: str, url: str, headers: Mapping[str, str], content: bytes = b"") -> dict[str, Any]:
    """The JSON object that the provider answers. Raises `NotSignedIn`."""
    try:
        answer = asking.request(method, url, {"Accept": "application/json", **headers}, content)
        found = parse_json(answer.body) if answer.status == 200 else None
    except (OSError, ValueError) as problem:
        raise NotSignedIn(f"it does not answer as expected: {problem}", is_unreachable=True) from problem
    if not isinstance(found, dict):
        raise NotSignedIn(f"it answered {answer.status} to {method} {url}", is_unreachable=answer.status >= 500)
    return found


def _verified_email(claims: Mapping[str, Any]) -> str:
    email = normalized_email(str(claims.get("email", "")))
    if not is_email(email) or "," in email:
        raise NotSignedIn("it gives no e-mail address")
    # Some say it as a text. Whoever may type any address at the provider would be any user here.
    if claims.get("email_verified") not in (True, "true"):
        raise NotSignedIn(f"it does not say that {email} is verified")
    return email
