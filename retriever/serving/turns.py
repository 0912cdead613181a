"""Work in threads, few at a time: what comes later waits for its turn, and not for long."""

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, fail_after, to_thread

from retriever.errors import BusyError

TURN_SECONDS = 30.0  # a proxy and most clients wait for 60
Result = TypeVar("Result")


class Turns:
    """At most `at_once` threads at work."""

    def __init__(self, at_once: int) -> None:
        self._limiter = CapacityLimiter(at_once)

    async def run(self, work: Callable[..., Result], *arguments: object, abandon_on_cancel: bool = False) -> Result:
        """What `work` returns; with `abandon_on_cancel` a caller that is cancelled does not wait for its end.

        Raises:
            BusyError: its turn did not come in time.
        """
        try:
            with fail_after(TURN_SECONDS):
                await self._limiter.acquire()
        except TimeoutError:
            raise BusyError("too many questions are being answered; ask again in a moment") from None
        try:
            return await to_thread.run_sync(work, *arguments, abandon_on_cancel=abandon_on_cancel)
        finally:
            self._limiter.release()
