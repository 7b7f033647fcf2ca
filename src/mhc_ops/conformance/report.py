"""What a conformance run found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """Result of one case: "passed", "failed" or "skipped", and why.

    unasserted   keys of expect_outputs for which no rule is published; they fail nothing
    """

    case: str
    op: str
    layer: str
    soc: str
    result: str
    reason: str = ""
    unasserted: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        return f"{self.op} {self.layer} {self.case} ({self.soc}): {self.reason}"


@dataclass
class Report:
    """Outcomes in the order of the cases."""

    outcomes: list[Outcome] = field(default_factory=list)

    def _lines(self, result: str) -> list[str]:
        return [outcome.line for outcome in self.outcomes if outcome.result == result]

    @property
    def failures(self) -> list[str]:
        """One line for each failed case: operator, layer, case, chip, what differs."""
        return self._lines("failed")

    @property
    def skips(self) -> list[str]:
        """One line for each skipped case, with the reason."""
        return self._lines("skipped")

    @property
    def notes(self) -> list[str]:
        """One line for each expected key that nothing published lets us judge."""
        return [
            f"{o.op} {o.layer} {o.case} ({o.soc}): unasserted {key}"
            for o in self.outcomes
            for key in o.unasserted
        ]

    @property
    def passed(self) -> int:
        return sum(outcome.result == "passed" for outcome in self.outcomes)

    @property
    def failed(self) -> int:
        return sum(outcome.result == "failed" for outcome in self.outcomes)

    @property
    def skipped(self) -> int:
        return sum(outcome.result == "skipped" for outcome in self.outcomes)

    def summary(self) -> str:
        """`N passed, M failed, K skipped`."""
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON values: the three counts and every case."""
        return {
            "passed": self.passed,
            "failed": self.failed,
            "skipped": self.skipped,
            "cases": [
                {
                    "case": o.case,
                    "op": o.op,
                    "layer": o.layer,
                    "soc": o.soc,
                    "result": o.result,
                    "reason": o.reason,
                    "unasserted": list(o.unasserted),
                }
                for o in self.outcomes
            ],
        }
