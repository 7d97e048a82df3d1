"""Creates projects, users and roles in a bootstrapped Keystone, over its API.

accounts.py KEYSTONE ADMIN_PASSWORD USER:PASSWORD:ROLE..., each user in a project of the same name.
"""
import sys

import rest

KEYSTONE = sys.argv[1]
admin = rest.Admin(KEYSTONE, sys.argv[2])
for account in sys.argv[3:]:
    name, password, role = account.split(":")
    project = admin.ensure(KEYSTONE, "project", name, domain_id="default")
    user = admin.ensure(KEYSTONE, "user", name, domain_id="default", password=password, default_project_id=project)
    role = admin.ensure(KEYSTONE, "role", role)
    admin.call("PUT", f"{KEYSTONE}/projects/{project}/users/{user}/roles/{role}")
