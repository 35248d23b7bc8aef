"""UDP and TCP port numbers."""

from __future__ import annotations

MAX_PORT = 65535
"""The highest port number."""

ROCE_PORT = 4791
"""The UDP destination port of RoCEv2 (InfiniBand Architecture Specification 1.4, annex A17)."""

SFLOW_PORT = 6343
"""The UDP port of sFlow collectors (IANA)."""
