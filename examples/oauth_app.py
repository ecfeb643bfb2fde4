"""A whole application that reads somebody's audits with their consent. It needs nothing but Python.

    CLIENT_ID=oac_… CLIENT_SECRET=oas_… BASE_URL=http://localhost:8000 python examples/oauth_app.py

Register it in the developer area with the redirect URI http://127.0.0.1:8765/back, start it and
open http://127.0.0.1:8765/. It keeps what it needs in memory: one flow a state, nothing else.
"""

import base64
import hashlib
import html
import json
import os
import secrets
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import Request, urlopen

BASE_URL = os.environ.get("BASE_URL", "http://localhost:8000").rstrip("/")
CLIENT_ID, CLIENT_SECRET = os.environ["CLIENT_ID"], os.environ["CLIENT_SECRET"]
PORT = int(os.environ.get("PORT", "8765"))
REDIRECT_URI = f"http://127.0.0.1:{PORT}/back"
SCOPE = "read:audits read:findings"
STATE_COOKIE = "state"

verifiers: dict[str, str] = {}  # of each flow under way, by its state


def ask_address(server: dict[str, Any]) -> tuple[str, str]:
    """Return the URL of the consent page, and the state that must come back."""
    state, verifier = secrets.token_urlsafe(24), secrets.token_urlsafe(48)
    verifiers[state] = verifier
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest())
    query = {
        "response_type": "code",
        "client_id": CLIENT_ID,
        "redirect_uri": REDIRECT_URI,
        "scope": SCOPE,
        "state": state,
        "code_challenge": challenge.rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    return f"{server['authorization_endpoint']}?{urlencode(query)}", state


def redeem(server: dict[str, Any], code: str, verifier: str) -> dict[str, Any]:
    """Exchange a code for a token."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": REDIRECT_URI,
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
        "code_verifier": verifier,
    }
    return fetch(server["token_endpoint"], data=urlencode(form).encode())


def fetch(address: str, token: str = "", data: bytes | None = None) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with urlopen(Request(address, data, headers), timeout=30) as answer:
        document: dict[str, Any] = json.load(answer)
        return document


class Application(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path = urlsplit(self.path)
        if path.path == "/":
            self.begin()
        elif path.path == "/back":
            self.take({name: values[0] for name, values in parse_qs(path.query).items()})
        else:
            self.say(404, "Not found.")

    def begin(self) -> None:
        address, state = ask_address(discover())
        self.send_response(303)
        self.send_header("Location", address)
        # The state belongs to this browser, so no other response can be injected.
        self.send_header("Set-Cookie", f"{STATE_COOKIE}={state}; HttpOnly; SameSite=Lax; Path=/")
        self.end_headers()

    def take(self, answer: dict[str, str]) -> None:
        state, server = answer.get("state", ""), discover()
        verifier = verifiers.pop(state, None)
        is_ours = secrets.compare_digest(self.cookie().encode(), state.encode())
        if verifier is None or not is_ours or answer.get("iss") != server["issuer"]:
            self.say(400, "This is no answer to a question of yours. Begin again.")
        elif "error" in answer:
            self.say(200, f"Not allowed: {answer['error']}")
        else:
            self.show(server, answer["code"], verifier)

    def show(self, server: dict[str, Any], code: str, verifier: str) -> None:
        try:
            token = redeem(server, code, verifier)
            audits = fetch(f"{BASE_URL}/api/v1/audits?limit=10", token["access_token"])["audits"]
        except HTTPError as error:
            self.say(502, f"Tallystick refused with {error.code}.")
            return
        lines = [
            f"{audit['created_at']}: ${audit['projected_spend_usd']:,.2f}/month" for audit in audits
        ]
        self.say(200, "\n".join([f"Allowed: {token['scope']}", *lines, f"{len(lines)} audits"]))

    def cookie(self) -> str:
        pairs = (
            cookie.strip().partition("=") for cookie in self.headers.get("Cookie", "").split(";")
        )
        return next((value for name, _, value in pairs if name == STATE_COOKIE), "")

    def say(self, status: int, text: str) -> None:
        page = f"<!doctype html><title>Example</title><pre>{html.escape(text)}</pre>".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: an address on the way back holds a code."""


def discover() -> dict[str, Any]:
    return fetch(f"{BASE_URL}/.well-known/oauth-authorization-server")


if __name__ == "__main__":
    listening = ThreadingHTTPServer(("127.0.0.1", PORT), Application)
    print(f"Open http://127.0.0.1:{PORT}/", flush=True)
    listening.serve_forever()
