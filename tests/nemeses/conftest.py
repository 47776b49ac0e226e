from __future__ import annotations

import pytest
from hypothesis import settings
from namespace_network import NamespaceNetwork, why_not

# What these tests assert is not how fast a busy machine is.
settings.register_profile("without deadline", deadline=None)
settings.load_profile("without deadline")


@pytest.fixture
def network():
    """Three nodes and a client on a real network."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with NamespaceNetwork(3) as network:
        yield network
