"""How likely a section is an answer to any question: one number a section, which the fusion multiplies its shares with.

Another property of sections that should count is another factor here, and nowhere else.
"""

from collections.abc import Sequence

from retriever.places.view import View
from retriever.settings import Profile
from retriever.store import reading
from retriever.types import Ranking


def read_priors(view: View, rankings: Sequence[Ranking], profile: Profile) -> tuple[dict[str, float], dict[str, bytes]]:
    """Return the priors of the sections in some rankings, 0 to 1, and the hashes of their texts, by their ids."""
    ids = {item.node_id for ranking in rankings for item in ranking.items}
    rows = reading.traits(view.connection, ids)
    priors = {node_id: 1 - profile.page_prior * share for node_id, share, _ in rows}
    return priors, {node_id: body_hash for node_id, _, body_hash in rows if body_hash}
