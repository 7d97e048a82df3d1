"""Requests to Keystone and Neutron as their administrator."""
import json
import urllib.request

DEFAULT = {"id": "default"}


class Admin:
    """The administrator of a bootstrapped Keystone."""

    def __init__(self, keystone, password):
        self.token = ""
        project = {"name": "admin", "domain": DEFAULT}
        user = {"name": "admin", "domain": DEFAULT, "password": password}
        headers, _ = self.call("POST", keystone + "/auth/tokens", {"auth": {
            "identity": {"methods": ["password"], "password": {"user": user}}, "scope": {"project": project}}})
        self.token = headers["X-Subject-Token"]

    def call(self, method, url, body=None):
        """Sends a request and returns the headers and the body of the answer."""
        request = urllib.request.Request(
            url, method=method, data=body and json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "X-Auth-Token": self.token})
        with urllib.request.urlopen(request, timeout=600) as answer:
            text = answer.read()
            return answer.headers, json.loads(text) if text else {}

    def ensure(self, base, kind, name, **attributes):
        """Returns the ID of the object with that name, and creates it if it does not exist."""
        _, found = self.call("GET", f"{base}/{kind}s?name={name}")
        if found[kind + "s"]:
            return found[kind + "s"][0]["id"]
        _, created = self.call("POST", f"{base}/{kind}s", {kind: {"name": name, **attributes}})
        return created[kind]["id"]
