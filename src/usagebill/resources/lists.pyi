"""Made by `python -m tests.library_stubs`."""

from typing import ClassVar

from usagebill.bindings import Messages, Resource, Views

class Lists(Resource):
    """The numbers of records that lists show as totals."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def recount(self) -> list[str]:
        """Correct the totals of lists that differ from their records; returns the tables of these lists, if any.

        Other writers to the organization wait meanwhile. An audit only names the differences.
        """
