"""What a server's log says last of each of the others."""

from __future__ import annotations

import pytest

from schemaquake.clusters.systems.gossip import last_words

UP_4 = "INFO  [GossipStage:1] 2026-11-27 11:32:27,226 Gossiper.java:1492 - InetAddress /10.77.0.4:7000 is now UP"
DOWN_4 = "INFO  [GossipStage:1] 2026-11-27 11:32:59,674 Gossiper.java:1508 - InetAddress 10.77.0.4/10.77.0.4:7000 is now DOWN"
SILENT = "Gossiper.java:990 - FatClient {} has been silent for 10000ms, removing from gossip"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], {}),
        ([UP_4], {"10.77.0.4": "UP"}),
        ([UP_4, DOWN_4], {"10.77.0.4": "DOWN"}),
        ([DOWN_4, UP_4], {"10.77.0.4": "UP"}),
        ([UP_4, SILENT.format("/10.77.0.4:7000")], {"10.77.0.4": "dead"}),
        ([UP_4, SILENT.format("10.77.0.4/10.77.0.4:7000")], {"10.77.0.4": "dead"}),
        ([UP_4, SILENT.format("/10.77.0.4")], {"10.77.0.4": "dead"}),
        ([UP_4, SILENT.format("/10.77.0.5:7000")], {"10.77.0.4": "UP", "10.77.0.5": "dead"}),
        ([SILENT.format("/10.77.0.4:7000"), UP_4], {"10.77.0.4": "UP"}),
    ],
)
def test_the_last_word_on_a_node_counts_and_one_that_gossip_forgets_is_dead(lines, words):
    assert last_words("\n".join(lines)) == words
