"""The DHCPv6 client of a machine, because busybox has none: prints what the server gives to eth0.

dhcpv6.py stateful|stateless SECONDS
"""
import ipaddress
import os
import socket
import struct
import sys
import time

SOLICIT, ADVERTISE, REQUEST, REPLY, INFORMATION_REQUEST = 1, 2, 3, 7, 11
CLIENT_ID, SERVER_ID, IA_NA, IA_ADDRESS, OPTION_REQUEST, ELAPSED, DNS = 1, 2, 3, 5, 6, 8, 23


def option(code, data):
    return struct.pack("!HH", code, len(data)) + data


def options(data):
    found = {}
    while len(data) >= 4:
        code, length = struct.unpack("!HH", data[:4])
        found.setdefault(code, data[4 : 4 + length])
        data = data[4 + length :]
    return found


def ask(kind, want, *more):
    """Sends a message each second until the answer of that kind comes, and returns its options."""
    transaction = os.urandom(3)
    message = bytes([kind]) + transaction + CLIENT + option(OPTION_REQUEST, struct.pack("!H", DNS)) + option(ELAPSED, b"\0\0") + b"".join(more)
    while time.monotonic() < END:
        link.sendto(message, ("ff02::1:2", 547, 0, socket.if_nametoindex("eth0")))
        try:
            answer = link.recv(4096)
        except TimeoutError:
            continue
        if answer[:4] == bytes([want]) + transaction:
            return options(answer[4:])
    sys.exit("no answer")


mode, END = sys.argv[1], time.monotonic() + float(sys.argv[2])
with open("/sys/class/net/eth0/address") as file:
    mac = bytes.fromhex(file.read().replace(":", ""))
CLIENT = option(CLIENT_ID, struct.pack("!HH", 3, 1) + mac)
link = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
link.settimeout(1)
link.bind(("::", 546))
if mode == "stateful":
    address = option(IA_NA, mac[2:] + bytes(8))
    offer = ask(SOLICIT, ADVERTISE, address)
    if IA_NA not in offer or IA_ADDRESS not in options(offer[IA_NA][12:]):
        sys.exit("no address")
    lease = ask(REQUEST, REPLY, option(SERVER_ID, offer[SERVER_ID]), option(IA_NA, offer[IA_NA]))
    print("address", ipaddress.IPv6Address(options(lease[IA_NA][12:])[IA_ADDRESS][:16]))
else:
    lease = ask(INFORMATION_REQUEST, REPLY)
for i in range(0, len(lease.get(DNS, b"")), 16):
    print("dns", ipaddress.IPv6Address(lease[DNS][i : i + 16]))
