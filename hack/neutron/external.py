"""Creates an external network and its subnet, which both have that name.

external.py KEYSTONE ADMIN_PASSWORD NEUTRON NAME CIDR
"""
import sys

import rest

KEYSTONE, PASSWORD, NEUTRON, NAME, CIDR = sys.argv[1:]
admin = rest.Admin(KEYSTONE, PASSWORD)
network = admin.ensure(NEUTRON, "network", NAME, **{"router:external": True})
admin.ensure(NEUTRON, "subnet", NAME, network_id=network, ip_version=4, cidr=CIDR, enable_dhcp=False)
