"""How likely a section is an answer to any question: one number a section, which the fusion multiplies its shares with.

Another property of sections that should count is another factor here, and nowhere else.
"""

from collections.abc import Sequence

from retriever.places.view import View
from retriever.settings.schema import Profile
from retriever.store import reading
from retriever.types import Ranking


def read_priors(view: View, rankings: Sequence[Ranking], profile: Profile) -> dict[str, float]:
    """Return the priors of the sections in some rankings, 0 to 1, by their ids; those that have 1 may be left out."""
    ids = {item.node_id for ranking in rankings for item in ranking.items}
    shares = reading.boilerplate(view.connection, ids) if profile.page_prior else {}
    return {node_id: 1 - profile.page_prior * share for node_id, share in shares.items()}
