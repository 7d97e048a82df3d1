"""Creates projects, users and roles in a bootstrapped Keystone, over its API.

accounts.py KEYSTONE ADMIN_PASSWORD USER:PASSWORD:ROLE..., each user in a project of the same name.
"""
import json
import sys
import urllib.request

DEFAULT = {"id": "default"}


def call(method, path, body=None, token=""):
    request = urllib.request.Request(
        KEYSTONE + path, method=method, data=body and json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "X-Auth-Token": token})
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read()
        return answer.headers, json.loads(text) if text else {}


def login(password):
    project = {"name": "admin", "domain": DEFAULT}
    user = {"name": "admin", "domain": DEFAULT, "password": password}
    headers, _ = call("POST", "/auth/tokens", {"auth": {
        "identity": {"methods": ["password"], "password": {"user": user}}, "scope": {"project": project}}})
    return headers["X-Subject-Token"]


def ensure(kind, name, **attributes):
    """Returns the ID of the object with that name, and creates it if it does not exist."""
    _, found = call("GET", f"/{kind}s?name={name}", token=TOKEN)
    if found[kind + "s"]:
        return found[kind + "s"][0]["id"]
    _, created = call("POST", f"/{kind}s", {kind: {"name": name, **attributes}}, TOKEN)
    return created[kind]["id"]


KEYSTONE = sys.argv[1]
TOKEN = login(sys.argv[2])
for account in sys.argv[3:]:
    name, password, role = account.split(":")
    project = ensure("project", name, domain_id="default")
    user = ensure("user", name, domain_id="default", password=password, default_project_id=project)
    call("PUT", f"/projects/{project}/users/{user}/roles/{ensure('role', role)}", token=TOKEN)
