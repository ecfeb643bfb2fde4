"""Resolve hosts, and refuse addresses that aren't on the public internet.

Our network may trust its members, so a target must not lead there. The caller connects to
the addresses that were checked here; a second look-up could have another answer (DNS rebinding).
"""

import ipaddress
import socket
from collections.abc import Sequence
from concurrent.futures import Future
from threading import Thread
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# The registries of special-purpose addresses (RFC 6890), multicast and reserved ranges. Ours, since
# `ipaddress` changes its mind about them between Python versions.
_REFUSED_IPV4: Final = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "168.63.129.16/32",  # Azure's metadata, on an address that looks public
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",
            "240.0.0.0/4",
        ),
    )
)
_PUBLIC_IPV6: Final = ipaddress.IPv6Network("2000::/3")
_REFUSED_IPV6: Final = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # Teredo and other protocols
            "2001:db8::/32",
            "2002::/16",  # 6to4, which leads to the IPv4 address inside it
            "3fff::/20",
        ),
    )
)
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


class PrivateTargetError(Exception):
    """The host has an address that isn't on the public internet."""


def look_up(host: str, port: int) -> Sequence[str]:
    """Ask the system's resolver; each address once, in its order."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def resolve(host: str, port: int, *, seconds: float, allows_private: bool = False) -> Sequence[str]:
    """Return the addresses of a host; raise `PrivateTargetError` if any may not be connected to.

    Raises `OSError` if the host has no address, or if that takes too long.
    """
    answer: Future[Sequence[str]] = Future()

    def ask() -> None:
        try:
            answer.set_result(look_up(host, port))
        except Exception as error:
            answer.set_exception(error)

    Thread(target=ask, name="look-up", daemon=True).start()
    addresses = answer.result(seconds)
    if not allows_private and not all(map(is_public, addresses)):
        raise PrivateTargetError
    return addresses


def is_public(text: str) -> bool:
    """Check whether an address, as a resolver writes it, is on the public internet."""
    try:
        return _is_public(ipaddress.ip_address(text))
    except ValueError:
        return False


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _REFUSED_IPV4)
    # The system, or a NAT64 gateway, connects to this address instead.
    inside = address.ipv4_mapped
    if address in _NAT64:
        inside = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if inside is not None:
        return _is_public(inside)
    return address in _PUBLIC_IPV6 and not any(address in network for network in _REFUSED_IPV6)
