"""Structured logs of a process: one line per event, as JSON or as text, on standard error."""

from __future__ import annotations

import logging
import sys
import traceback
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import structlog

LogFormat = Literal["json", "text"]


class Log:
    """A log of this process, by its name.

    structlog is imported with the first line: it takes a seventh of the time of `import usagebill.billing`.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def info(self, event: str, **values: object) -> None:
        """Log something that is as it should be."""
        self._logger().info(event, **values)

    def warning(self, event: str, **values: object) -> None:
        """Log something that somebody should know."""
        self._logger().warning(event, **values)

    def error(self, event: str, **values: object) -> None:
        """Log something that somebody should mend."""
        self._logger().error(event, **values)

    def _logger(self) -> Any:
        import structlog

        return structlog.get_logger(self._name)


def plain_traceback(problem: BaseException) -> str:
    """The traceback of `problem` as text, without the values of variables, which include keys and customers' data.

    Logged as `exception`, it is printed unchanged by any structlog configuration. From the exception itself, structlog
    would by default print those values.
    """
    return "".join(traceback.format_exception(problem)).rstrip()


def configure(log_format: LogFormat | None = None, level: str = "info") -> None:
    """Send this process's logs, including those of its libraries, to standard error.

    Without a format, it is text on a terminal and JSON elsewhere. Only programs call this; a library never does.
    """
    import structlog

    wanted = log_format or ("text" if sys.stderr.isatty() else "json")
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[structlog.typing.Processor]
    if wanted == "json":
        last = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        # Plain tracebacks: those with the values of variables would write customers' data into logs.
        plain = structlog.dev.plain_traceback
        last = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last]
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    # Routine messages of other libraries are noise beside our own lines.
    root.setLevel(max(number, logging.WARNING))
