from __future__ import annotations

import pytest
from namespace_network import NamespaceNetwork, why_not


@pytest.fixture
def network():
    """Three nodes and a client on a real network."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with NamespaceNetwork(3) as network:
        yield network
