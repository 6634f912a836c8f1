"""What goes wrong on a simulated network: each with a probability for each packet. Drawn, counted, reproducible."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Faults:
    """Probabilities, each for one packet or one request.

    Attributes:
        lose_request: The request never arrives.
        lose_reply: It is executed, and the reply never arrives.
        duplicate: The request arrives twice, one copy right behind the other, and the second reply is lost.
        straggle: The request arrives only after up to ``straggle_seconds``, when its sender has long gone on.
        straggle_seconds: See ``straggle``.
        reset: The connection breaks when the reply is on its way; the sender learns of it at once.
        delay: A packet takes up to ``delay_seconds`` longer.
        delay_seconds: See ``delay``.
        forget_scripts: The server has forgotten all scripts (``SCRIPT FLUSH``) when the request arrives.
        lose_message: A published message does not reach a subscriber.
        unsynced: The replicas do not acknowledge in time (where the server has any: ``SimulatedRedis.replicas``).
        drop_subscriber: The subscriber's connection breaks when a message is on its way.
    """

    lose_request: float = 0.0
    lose_reply: float = 0.0
    duplicate: float = 0.0
    straggle: float = 0.0
    straggle_seconds: float = 5.0
    reset: float = 0.0
    delay: float = 0.0
    delay_seconds: float = 0.5
    forget_scripts: float = 0.0
    lose_message: float = 0.0
    unsynced: float = 0.0
    drop_subscriber: float = 0.0

    def extra_delay(self, rng: Random) -> float:
        """How much longer a packet takes than it should."""
        return rng.uniform(0.0, self.delay_seconds) if self.delay and rng.random() < self.delay else 0.0
