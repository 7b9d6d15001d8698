"""The kept totals of lists."""

from __future__ import annotations

from usagebill.resources.bindings import Resource


class Lists(Resource):
    """The numbers of records that lists show as totals."""

    def recount(self) -> list[str]:
        """Correct the totals of lists that differ from their records; returns the tables of these lists, if any.

        Other writers to the organization wait meanwhile. An audit only names the differences.
        """
        return self._runner.writing(lambda work: work.tx.recount_lists())
